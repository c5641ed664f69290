// Dense 3x3 weights as Winograd's convolutions read them (native/kernels/winograd.inc says how these work).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "entry_lists.h"

namespace sparcl {

// Where the numbers of a dense weight lie: from an output, an input and a tap to the next, in floats.
struct StoredOrder {
  int64_t output, input, tap;
};

// The order of a dense weight's places (null: each position is its own place), if it is [output][input][tap] or
// [output][tap][input]; otherwise nothing.
std::optional<StoredOrder> stored_order(const ConvolutionShape& shape, const int32_t* places);

class WinogradWeight {
 public:
  // With few channels, transforming maps weighs as much as what it saves; where exactly was estimated, not measured.
  static bool suits(const ConvolutionShape& shape) {
    return shape.kernel == 3 && shape.stride == 1 && shape.inputs >= 8 && shape.outputs >= 8;
  }

  WinogradWeight(const ConvolutionShape& shape, const StoredOrder& order, int lanes);

  void refresh(const float* values);
  void set_scale(const std::vector<float>& scale) { scale_ = scale; }  // of each output, for epilogues with a bias

  // y (+)= w * x, or with `exchanged` dx (+)= the data gradient of dy.
  void convolve(const KernelTable& kernels, const float* from, float* to, bool exchanged, Batch batch, bool accumulate,
                const Epilogue& epilogue, std::vector<float>& scratch, int threads) const;
  void gradient(const KernelTable& kernels, const float* x, const float* dy, float* gradients, Batch batch,
                std::vector<float>& scratch, int threads) const;

 private:
  void check_given() const;
  int tiles(Batch batch) const;
  void add_gradient(const float* sums, float* gradients, int output) const;

  ConvolutionShape shape_;
  StoredOrder order_;
  int lanes_;
  int64_t row_, frequency_;     // from an output to the next, and from a frequency to the next
  std::vector<float> weights_;  // [16][outputs][inputs]; empty: never given
  std::vector<float> scale_;
};

}  // namespace sparcl
