// The graph of a model as the steps that run: everything that can be done while a convolution's output is still in
// registers (bias, residual, activation) is part of the convolution.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model_graph.h"

namespace sparcl {

struct ModelStep {
  enum class Kind { convolve, combine, operation };
  Kind kind;
  int node = -1;      // whose weights or operation are used; of combine: -1, or the affine node that is applied to `in`
  int in = -1;        // maps
  int residual = -1;  // added to the result; -1: none
  int out = -1;
  Activation activation = Activation::none;
  std::array<int32_t, max_attributes> attributes{};  // of an operation
};

struct MapSize {
  int32_t channels, height, width;
  bool flat;
  int64_t pixels() const { return static_cast<int64_t>(height) * width; }
  Size size() const { return {channels, height, width}; }
};

struct ModelSteps {
  std::vector<MapSize> maps;  // the first holds the images, the last the logits
  std::vector<ModelStep> steps;
};

ModelSteps fuse(const ModelSpec& spec);

// Places buffers in one stretch of memory so that those that are in use at the same time do not overlap.
struct StepBuffer {
  int64_t size;
  int first, last;  // steps in which it is in use
  int64_t offset = -1;
};

// Returns how long the stretch is. Offsets and length are multiples of `unit`.
int64_t place_buffers(std::vector<StepBuffer>& buffers, int64_t unit);

}  // namespace sparcl
