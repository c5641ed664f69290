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

// Of a single number; activate.inc does the same with vectors. What is not a number stays so.
inline float activate(float x, Activation activation) {
  const auto relu6 = [](float v) { return v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v; };
  switch (activation) {
    case Activation::relu:
      return x < 0.0f ? 0.0f : x;
    case Activation::relu6:
      return relu6(x);
    case Activation::hard_swish:
      return x * (relu6(x + 3.0f) * (1.0f / 6.0f));
    case Activation::none:
      break;
  }
  return x;
}

}  // namespace sparcl
