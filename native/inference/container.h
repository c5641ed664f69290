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

// The whole content of a file; throws ModelError if it cannot be read or is larger than any model can be.
std::string read_file(const std::string& path);

}  // namespace sparcl
