// The activation functions: what each computes, when its gradient passes, and its name in plans and model files.
#pragma once

#include <cstdint>

namespace sparcl {

enum class Activation : uint8_t { none, relu, relu6, hard_swish };

struct ActivationName {
  const char* name;
  // Whether the gradient is that of the output or zero, so that one bit for each number is all a backward pass needs.
  bool gates;
};
constexpr int activation_count = 4;
constexpr ActivationName activation_names[activation_count] = {
    {"none", true}, {"relu", true}, {"relu6", true}, {"hard_swish", false}};

}  // namespace sparcl
