// Damages model files in many ways and loads what comes out:  model_fuzz COUNT SEED MODEL.sparcl...
//
// COUNT damaged files in all, made from the models in turn. Every second one is damaged as a disk does it: it must be
// refused in one line. The others get a right checksum again, as from somebody with intentions: they must be refused in
// one line, or predict, and an image alone must get the scores that it gets among others (two different plans). Built
// with sanitizers, so that a wrong memory access ends the program; a file that takes too long ends it, too.
#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../include/sparcl.h"
#include "../inference/crc32.h"

namespace {

constexpr int seconds_for_a_file = 20;
constexpr size_t large_image = 1 << 20;  // bytes; of such images only one is predicted
constexpr float sane = 1e4f;             // scores above come from weights that were damaged

std::mt19937 generator;

size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count == 0 ? 0 : count - 1)(generator); }

size_t header_length(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  return length;
}

void set_header_length(std::string& file, uint64_t length) { std::memcpy(file.data(), &length, sizeof length); }

// Puts `text` in the place of file[place, place + old) of the header, whose length is corrected.
void replace(std::string& file, size_t place, size_t old, const std::string& text) {
  const size_t length = header_length(file);
  file.replace(place, old, text);
  set_header_length(file, length - old + text.size());
}

// Where a text stands in the header. The graph is a JSON text inside of the JSON, so its quotes are escaped.
std::vector<size_t> places_of(const std::string& file, const std::string& text) {
  std::vector<size_t> found;
  const size_t end = 8 + header_length(file);
  for (size_t place = file.find(text, 8); place < end; place = file.find(text, place + 1)) found.push_back(place);
  return found;
}

// Where numbers stand in the header: {place, length}.
std::vector<std::pair<size_t, size_t>> numbers(const std::string& file) {
  std::vector<std::pair<size_t, size_t>> found;
  const size_t end = 8 + header_length(file);
  for (size_t i = 8; i < end; ++i) {
    if (file[i] < '0' || file[i] > '9') continue;
    size_t last = i;
    while (last < end && ((file[last] >= '0' && file[last] <= '9') || file[last] == '.')) ++last;
    found.emplace_back(i, last - i);
    i = last;
  }
  return found;
}

const char* const odd_numbers[] = {"0",
                                   "1",
                                   "2",
                                   "3",
                                   "255",
                                   "65536",
                                   "2147483647",
                                   "4294967296",
                                   "-1",
                                   "1e308",
                                   "1e-320",
                                   "0.5",
                                   "9223372036854775807",
                                   "99999999999999999999",
                                   "1e999",
                                   "NaN",
                                   "\"x\""};
const char* const odd_texts[] = {
    "[", "{", "}", "]", "\"", "\\", "\\u0000", "\\ud800", "null", ",", ":", "\xff", "{\"a\":[[[[[[", "F16", "I8", "U8"};
const char* const operations[] = {
    "conv",     "dense_conv",   "depthwise",           "affine",  "relu",   "relu6", "hard_swish", "add", "concat",
    "max_pool", "average_pool", "global_average_pool", "flatten", "linear", "input", "dropout"};

const std::string op_key = "\\\"op\\\":\\\"";
const char* const keys[] = {"\\\"shape\\\":",  "\\\"inputs\\\":",  "\\\"kernel\\\":",
                            "\\\"stride\\\":", "\\\"padding\\\":", "\\\"count_padding\\\":"};

void damage(std::string& file) {
  const size_t header = header_length(file);
  const auto all = numbers(file);
  switch (below(14)) {
    case 0:  // bits anywhere
      for (size_t i = 0, count = 1 + below(8); i < count; ++i)
        file[below(file.size())] ^= static_cast<char>(1 << below(8));
      break;
    case 1:  // bits of the header
      for (size_t i = 0, count = 1 + below(3); i < count; ++i)
        file[8 + below(header)] ^= static_cast<char>(1 << below(8));
      break;
    case 2:
      file.resize(below(file.size()));
      break;
    case 3:  // bytes that are too many
      file.insert(below(file.size()), std::string(1 + below(64), static_cast<char>(below(256))));
      break;
    case 4: {  // a number of the header: shapes, places, strides, the version
      const auto [place, length] = all[below(all.size())];
      replace(file, place, length, odd_numbers[below(std::size(odd_numbers))]);
      break;
    }
    case 5: {  // two numbers change places: offsets overlap, shapes turn
      const auto [first, first_length] = all[below(all.size())];
      const auto [second, second_length] = all[below(all.size())];
      if (first + first_length > second) break;
      const std::string a = file.substr(first, first_length), b = file.substr(second, second_length);
      replace(file, second, second_length, a);
      replace(file, first, first_length, b);
      break;
    }
    case 6: {  // something odd in the header
      const std::string text = odd_texts[below(std::size(odd_texts))];
      replace(file, 8 + below(header), below(2) * text.size() % (header / 2 + 1), text);
      break;
    }
    case 7: {  // numbers that are none, or huge, among the weights
      const size_t place = 8 + header + below(file.size() - 8 - header);
      const unsigned char odd[] = {0xff, 0x7f, 0x80, 0x00};
      for (size_t i = place; i < std::min(file.size(), place + 8); ++i) file[i] = static_cast<char>(odd[below(4)]);
      break;
    }
    case 8: {  // a piece of the file over another
      const size_t length = 1 + below(200), from = below(file.size()), to = below(file.size());
      const std::string piece = file.substr(from, length);
      file.replace(to, std::min(piece.size(), file.size() - to), piece.substr(0, file.size() - to));
      break;
    }
    case 9: {  // a number that is nearly right: a kernel, a stride, a padding, a side, a number of channels
      const auto [place, length] = all[below(all.size())];
      const long long value = std::min(std::atoll(file.substr(place, length).c_str()), 1LL << 40);
      const long long near[] = {value + 1, value - 1, 2 * value, value / 2, 3, 5, 7};
      replace(file, place, length, std::to_string(near[below(std::size(near))]));
      break;
    }
    case 10: {  // another operation in the place of a node's own
      const auto places = places_of(file, op_key);
      if (places.empty()) break;
      const size_t place = places[below(places.size())] + op_key.size();
      replace(file, place, file.find('\\', place) - place, operations[below(std::size(operations))]);
      break;
    }
    case 11: {  // two names change places: nodes read other nodes, weights belong to others
      const auto places = places_of(file, "\\\"");
      if (places.size() < 2) break;
      const size_t one = below(places.size() - 1), other = below(places.size() - 1);
      const size_t first = std::min(one, other), second = std::max(one, other);
      const std::string a = file.substr(places[first], places[first + 1] - places[first]);
      const std::string b = file.substr(places[second], places[second + 1] - places[second]);
      replace(file, places[second], b.size(), a);
      replace(file, places[first], a.size(), b);
      break;
    }
    case 12: {  // a shape, an attribute or a list of inputs of one node for that of another
      const std::string key = keys[below(std::size(keys))];
      const auto places = places_of(file, key);
      if (places.size() < 2) break;
      const size_t to = places[below(places.size())], from = places[below(places.size())];
      const auto end = [&](size_t place) {
        const size_t open = place + key.size();
        return file[open] == '[' ? file.find(']', open) + 1 : file.find_first_of(",}", open);
      };
      const std::string text = file.substr(from, end(from) - from);
      replace(file, to, end(to) - to, text);
      break;
    }
    default:
      set_header_length(file, below(4) == 0 ? generator() * uint64_t{4294967295} : header + below(40) - 20);
  }
}

void seal(std::string& file) {
  if (file.size() < 4) return;
  const uint32_t checksum = sparcl::crc32(std::string_view(file).substr(0, file.size() - 4));
  for (int i = 0; i < 4; ++i) file[file.size() - 4 + i] = static_cast<char>(checksum >> 8 * i);
}

std::string read(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Predicts one image, and many that are the same. Says what is wrong; nothing if all is well.
std::string predict(sparcl_model* model) {
  char error[SPARCL_ERROR_SIZE] = "";
  sparcl_set_threads(model, 2, nullptr);
  const size_t size = sparcl_image_size(model), classes = static_cast<size_t>(sparcl_classes(model));
  const size_t images = size > large_image ? 1 : 18;
  std::vector<unsigned char> pixels(images * size);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<unsigned char>(i % size * 37 % 251);
  std::vector<float> alone(classes), among(images * classes);
  if (sparcl_predict_pixels(model, pixels.data(), 1, alone.data(), error) != 0 ||
      sparcl_predict_pixels(model, pixels.data(), images, among.data(), error) != 0)
    return error;
  float largest = 1;
  for (float score : alone) {
    if (!(std::fabs(score) < sane)) return "";  // odd weights: what they round to says nothing
    largest = std::max(largest, std::fabs(score));
  }
  for (size_t i = 0; i < among.size(); ++i)
    if (!(std::fabs(among[i] - alone[i % classes]) <= 1e-3f * largest))
      return "an image gets " + std::to_string(alone[i % classes]) + " alone, and " + std::to_string(among[i]) +
             " among others";
  return "";
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  const int rounds = std::atoi(arguments[1]);
  generator.seed(static_cast<unsigned>(std::atoi(arguments[2])));
  std::vector<std::string> models;
  for (int i = 3; i < count; ++i) models.push_back(read(arguments[i]));
  const int whole = static_cast<int>(models.size());  // first, every model as it is
  int loaded = 0, refused = 0;
  for (int i = -whole; i < rounds; ++i) {
    const std::string& model = models[static_cast<size_t>(i + whole) / 2 % models.size()];
    std::string file = i < 0 ? models[static_cast<size_t>(i + whole)] : model;
    const bool sealed = i % 2 != 0;
    if (i >= 0) {
      for (size_t n = 1 + below(2); n > 0 && file.size() > 16 && header_length(file) + 9 < file.size(); --n)
        damage(file);
      if (sealed) seal(file);
    }
    const itimerval limit{{0, 0}, {seconds_for_a_file, 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);  // ends the program after so much time of the processor
    char error[SPARCL_ERROR_SIZE] = "";
    sparcl_model* found = sparcl_load_bytes(file.data(), file.size(), error);
    if (found == nullptr) {
      ++refused;
      if (i < 0 || error[0] == '\0' || std::strchr(error, '\n') != nullptr) {
        std::printf("model_fuzz: file %d was refused without a line that says why: '%s'\n", i, error);
        return 1;
      }
      continue;
    }
    ++loaded;
    if (i >= 0 && !sealed && file != model) {
      std::printf("model_fuzz: file %d was damaged and is read all the same\n", i);
      return 1;
    }
    const std::string wrong = predict(found);
    sparcl_free(found);
    if (!wrong.empty()) {
      std::printf("model_fuzz: file %d does not predict: %s\n", i, wrong.c_str());
      std::ofstream("model_fuzz.sparcl", std::ios::binary) << file;  // to look at
      return 1;
    }
  }
  std::printf("model_fuzz: of %d damaged files %d were refused in one line, %d predicted\n", rounds, refused,
              loaded - whole);
  return 0;
}
