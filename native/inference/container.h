// The outer shell of a model file: safetensors, that is a length, a JSON header, and the bytes of all tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sparcl {

enum class Type { float32, float16, int8, uint8 };

struct Tensor {
  Type type;
  std::vector<int64_t> shape;
  std::string_view bytes;  // exactly as many as the shape says
  int64_t count() const;
};

struct Container {
  std::string description;  // the JSON text that says what the tensors mean
  std::map<std::string, Tensor> tensors;
};

// Throws ModelError unless every byte of the file is accounted for. The tensors refer to `file`.
Container open_container(std::string_view file);

// Takes the tensor `checksum` out of the container: the last four bytes of the file are the CRC-32 of all before them.
// Throws ModelError if it is missing or wrong.
void check_seal(Container& container, std::string_view file);

// The whole content of a file. Its header is read first: whatever is no model, or is longer or shorter than its header
// says, is refused (ModelError) before memory is taken for it.
std::string read_file(const std::string& path);

}  // namespace sparcl
