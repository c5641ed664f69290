// What is wrong with a model file or with what a caller hands over, in one line.
#pragma once

#include <stdexcept>
#include <string>

namespace sparcl {

struct ModelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void expect(bool condition, const char* message) {
  if (!condition) throw ModelError(message);
}

inline void expect(bool condition, const std::string& message) {
  if (!condition) throw ModelError(message);
}

}  // namespace sparcl
