#include "container.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "crc32.h"
#include "json.h"
#include "model_error.h"

namespace sparcl {
namespace {

constexpr int64_t largest_file = int64_t{1} << 31;
constexpr uint64_t largest_header = 1 << 24;
constexpr int64_t length_bytes = 8;  // in front of the header
constexpr const char* metadata = "__metadata__";
constexpr int64_t max_elements = int64_t{1} << 31;
constexpr size_t max_tensors = 1 << 16;

struct Placed {
  int64_t begin, end;
};

Type type_of(const std::string& name) {
  if (name == "F32") return Type::float32;
  if (name == "F16") return Type::float16;
  if (name == "I8") return Type::int8;
  if (name == "U8") return Type::uint8;
  throw ModelError("it holds numbers of the unknown type '" + name.substr(0, 20) + "'");
}

int64_t size_of(Type type) { return type == Type::float32 ? 4 : type == Type::float16 ? 2 : 1; }

std::vector<int64_t> shape_of(const Json& json) {
  const auto& sizes = json.array("the shape of a tensor");
  expect(sizes.size() <= 4, "a tensor has too many dimensions");
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const Json& size : sizes) {
    shape.push_back(size.whole("the shape of a tensor", 0, max_elements));
    expect(shape.back() == 0 || count <= max_elements / shape.back(), "a tensor is too large");
    count *= shape.back();
  }
  return shape;
}

Placed place_of(const Json& json, int64_t data_size) {
  const auto& offsets = json.array("the place of a tensor");
  expect(offsets.size() == 2, "the place of a tensor is unclear");
  const int64_t begin = offsets[0].whole("the place of a tensor", 0, data_size);
  return {begin, offsets[1].whole("the place of a tensor", begin, data_size)};
}

// Tensors must lie one after the other, without holes: nothing overlaps and nothing is hidden.
void check_places(std::vector<Placed> places, int64_t data_size) {
  std::sort(places.begin(), places.end(),
            [](const Placed& a, const Placed& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  int64_t end = 0;
  for (const Placed& place : places) {
    expect(place.begin == end, "its tensors overlap, or there is a hole between them");
    end = place.end;
  }
  expect(end == data_size, "it is longer than its tensors");
}

uint64_t header_length(std::string_view file) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(file[i]);
  expect(length <= largest_header, "it is not a model file at all");
  return length;
}

// How long the header says that the whole file is.
int64_t size_by_header(std::string_view file, int64_t length) {
  expect(static_cast<int64_t>(file.size()) == length_bytes + length, "it is cut off, or is not a model file at all");
  const Json header = Json::parse(file.substr(length_bytes));
  int64_t end = 0;
  for (const auto& [name, entry] : header.object("its tensors"))
    if (name != metadata) end = std::max(end, place_of(entry.at("data_offsets"), largest_file).end);
  return length_bytes + length + end;
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using OpenFile = std::unique_ptr<std::FILE, Close>;

// Reads on until the content has a size, or the file ends.
void read_up_to(std::string& content, int64_t size, const OpenFile& file) {
  constexpr int64_t block = 1 << 20;  // what a file says of its size is believed as far as it has bytes
  while (static_cast<int64_t>(content.size()) < size) {
    const size_t before = content.size(), wanted = std::min(size - static_cast<int64_t>(before), block);
    content.resize(before + wanted);
    const size_t got = std::fread(content.data() + before, 1, wanted, file.get());
    content.resize(before + got);
    if (std::ferror(file.get()) != 0) throw ModelError(std::string("it cannot be read: ") + std::strerror(errno));
    if (got < wanted) return;
  }
}

}  // namespace

int64_t Tensor::count() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

Container open_container(std::string_view file) {
  expect(file.size() >= length_bytes, "it is too short");
  const uint64_t length = header_length(file);
  expect(length <= file.size() - length_bytes, "it is cut off, or is not a model file at all");
  const Json header = Json::parse(file.substr(length_bytes, length));
  const std::string_view data = file.substr(length_bytes + length);
  const auto data_size = static_cast<int64_t>(data.size());
  Container container;
  std::vector<Placed> places;
  expect(header.object("its tensors").size() <= max_tensors, "it has too many tensors");
  for (const auto& [name, entry] : header.object("its tensors")) {
    if (name == metadata) continue;
    Tensor tensor{type_of(entry.at("dtype").string("the type of a tensor")), shape_of(entry.at("shape")), {}};
    const Placed place = place_of(entry.at("data_offsets"), data_size);
    expect(place.end - place.begin == tensor.count() * size_of(tensor.type), "a tensor does not fill its place");
    tensor.bytes = data.substr(place.begin, place.end - place.begin);
    places.push_back(place);
    container.tensors.emplace(name, std::move(tensor));
  }
  check_places(std::move(places), data_size);
  expect(header.has(metadata) && header.at(metadata).has("sparcl"),
         "it is a safetensors file, but not a model that `sparcl export` wrote");
  container.description = header.at(metadata).at("sparcl").string("the model");
  return container;
}

void check_seal(Container& container, std::string_view file) {
  const auto found = container.tensors.find("checksum");
  expect(found != container.tensors.end() && found->second.type == Type::uint8 && found->second.bytes.size() == 4 &&
             found->second.bytes.end() == file.end(),
         "it has no checksum at its end; it is damaged");
  uint32_t stored = 0;
  for (int i = 3; i >= 0; --i) stored = stored << 8 | static_cast<unsigned char>(found->second.bytes[i]);
  container.tensors.erase(found);
  expect(crc32(file.substr(0, file.size() - 4)) == stored, "it is damaged: its checksum is wrong; export it again");
}

std::string read_file(const std::string& path) {
  const OpenFile file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) throw ModelError(std::string("it cannot be opened: ") + std::strerror(errno));
  std::string content;
  read_up_to(content, length_bytes, file);
  expect(content.size() == length_bytes, "it is too short");
  const auto length = static_cast<int64_t>(header_length(content));
  read_up_to(content, length_bytes + length, file);
  const int64_t size = size_by_header(content, length);
  struct stat status;
  const bool known = fstat(fileno(file.get()), &status) == 0 && S_ISREG(status.st_mode);
  if (known) expect(status.st_size >= size, "it is cut off");
  if (known) expect(status.st_size <= size, "it is longer than its tensors");
  read_up_to(content, size + 1, file);  // a pipe may hold more, too
  return content;
}

}  // namespace sparcl
