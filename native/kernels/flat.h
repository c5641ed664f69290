// Jobs of the kernels that predict for one image: the lanes of a vector are neighbouring pixels.
//
// The pixels of a channel lie one after the other without padding, row after row ("a flat plane"). So that a sparse
// weight finds its input as one such run whatever its tap, there are copies of a map in which every channel is shifted
// (see Spread): an entry of a weight is a place in that copy, and its input pixels follow one another from there.
#pragma once

#include <cstdint>

namespace sparcl {

// y = relu(weight * x + bias + residual). The input of output pixel p for entry i is x[places[i] * unit + p].
// Up to flat_slack floats beyond the last pixel are read; nothing is written there.
struct FlatConvolution {
  const float* x;
  float* y;
  const float* residual;  // null: none
  const float* bias;      // [outputs]
  const float* weights;
  const uint16_t* places;  // null: places are wide
  const uint32_t* wide_places;
  const int32_t* starts;  // [outputs + 1] where the entries of each output begin; null: dense (see below)
  int64_t y_plane, residual_plane;
  int32_t pixels, outputs, unit;
  int32_t entries;  // of a dense weight: how many each output has. All outputs share the places, and the weights lie as
                    // [group of dense_outputs][entry][output in the group]
  bool relu;
};

constexpr int dense_outputs = 4;
constexpr int flat_slack = 256;  // a tile of 16 vectors of 16 lanes

// Which copies of a map a convolution reads.
//   rows:  3 planes a channel, shifted by -1, 0, 1 columns, each with a row of zeros above and below
//   taps:  9 planes a channel, one for each tap of a 3x3 window
//   halved: the same, of every other row and column only; a 1x1 convolution of stride 2 reads the tap in the middle
enum class Spread : uint8_t { rows, taps, halved };

struct SpreadJob {
  const float* x;  // pixels of channel 0
  float* y;
  int64_t x_plane, y_plane;  // y: of one shifted plane
  int32_t height, width;     // of x
  Spread kind;
  bool centre_is_there;  // rows, taps: x is the middle plane itself
};

struct FlatLinear {
  const float* x;
  float* y;
  const float* weight;  // [outputs][features]
  const float* bias;
  int32_t features;
};

// Each call does the outputs (of spread: the channels) first..last-1; threads share them.
struct FlatKernels {
  void (*convolve)(const FlatConvolution&, int first, int last);  // dense: `first` is a multiple of dense_outputs
  void (*spread)(const SpreadJob&, int first, int last);
  void (*linear)(const FlatLinear&, int first, int last);
};

}  // namespace sparcl
