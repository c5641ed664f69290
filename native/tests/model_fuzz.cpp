// Damages a model file in many ways and loads what comes out:  model_fuzz MODEL.sparcl [COUNT [SEED]]
//
// Every second one is damaged as a disk does it: it must be refused in one line. The others get a right checksum again,
// as from somebody with intentions: they must be refused in one line, or predict. Built with sanitizers, so that a
// wrong memory access ends the program; a file that takes too long ends it, too.
#include <sys/time.h>

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
const char* const odd_texts[] = {"[",   "{",    "}",      "]", "\"", "\\",   "\\u0000",       "\\ud800", "null", "conv",
                                 "add", "relu", "linear", ",", ":",  "\xff", "{\"a\":[[[[[[", "F16",     "I8",   "U8"};

void damage(std::string& file) {
  const size_t header = header_length(file);
  const auto all = numbers(file);
  switch (below(10)) {
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
    default:
      set_header_length(file, below(4) == 0 ? generator() * uint64_t{4294967295} : header + below(40) - 20);
  }
}

void seal(std::string& file) {
  if (file.size() < 4) return;
  const uint32_t checksum = sparcl::crc32(std::string_view(file).substr(0, file.size() - 4));
  for (int i = 0; i < 4; ++i) file[file.size() - 4 + i] = static_cast<char>(checksum >> 8 * i);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  std::ifstream stream(arguments[1], std::ios::binary);
  const std::string model((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 300;
  generator.seed(count > 3 ? static_cast<unsigned>(std::atoi(arguments[3])) : 0);
  int loaded = 0, refused = 0;
  for (int i = -1; i < rounds; ++i) {
    std::string file = model;
    if (i >= 0)
      for (size_t n = 1 + below(2); n > 0 && file.size() > 16 && header_length(file) + 9 < file.size(); --n)
        damage(file);
    if (i % 2 != 0) seal(file);
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
    if (i % 2 == 0 && file != model) {
      std::printf("model_fuzz: file %d was damaged and is read all the same\n", i);
      return 1;
    }
    sparcl_set_threads(found, 2, nullptr);
    const size_t images = 1 + below(2) * 17;
    std::vector<unsigned char> pixels(images * sparcl_image_size(found), 77);
    std::vector<float> scores(images * static_cast<size_t>(sparcl_classes(found)));
    if (sparcl_predict_pixels(found, pixels.data(), images, scores.data(), error) != 0)
      std::printf("model_fuzz: file %d does not predict: %s\n", i, error);
    sparcl_free(found);
  }
  std::printf("model_fuzz: of %d damaged files %d were refused in one line, %d predicted\n", rounds, refused,
              loaded - 1);
  return 0;
}
