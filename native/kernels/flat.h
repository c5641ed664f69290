// Jobs of the kernels that predict for one image: the lanes of a vector are neighbouring pixels.
//
// Loads of a vector should not cross cache lines, so before a convolution of 3x3 every thread makes copies of what it
// will read, in memory of its own, in which the input of each tap is a run of whole vectors (Spread).
//
// Maps that are not made of whole vectors and too large for copies are padded instead: one column of zeros after each
// row, which is also the column before the next row, and one row of zeros after each channel, which is also the row
// above the next one. Then the input of a tap is the channel itself, moved by a few floats:
//
//   0 0 0 0 0
//   a b c d 0        What a convolution computes in the column of zeros belongs to no pixel;
//   e f g h 0        a mask puts the zeros back when the result is stored.
//   0 0 0 0 0
//
// `pitch` is from one row to the next, `run` from the first to the last pixel of a channel.
#pragma once

#include <cstdint>

#include "activation.h"

namespace sparcl {

// y = activation(weight * x + bias + residual) over a run of floats, which holds all pixels of a channel. The input of
// place p for entry i of a weight is x[places[i] * unit + p]. Up to flat_slack floats beyond the run are read; nothing
// is written there.
struct FlatConvolution {
  const float* x;
  float* y;
  const float* residual;  // null: none
  const float* bias;      // [outputs]
  const float* weights;
  const int32_t* mask;     // of the run: all bits where there is a pixel, else zero. Null: pixels everywhere
  const uint16_t* places;  // null: places are wide
  const uint32_t* wide_places;
  const int32_t*
      starts;  // [block of input channels][output] where entries begin, and one more; null: dense (see below)
  int64_t y_plane, residual_plane;
  int32_t begin, end;
  int32_t outputs, blocks, unit;
  int32_t entries;  // of a dense weight: how many each output has. All outputs share the places, and the weights lie as
                    // [group of dense_outputs][entry][output in the group]
  Activation activation;
};

constexpr int dense_outputs = 4;
constexpr int flat_slack = 256;  // a tile of 16 vectors of 16 lanes

// Copies of a map.
//   rows:    3 planes a channel, moved by -1, 0, 1 columns, each with a row of zeros above and below
//   taps:    9 planes a channel, one for each tap of a 3x3 window
//   halved:  the same, of every other row and column; a 1x1 convolution of stride 2 reads the tap in the middle
enum class Spread : uint8_t { rows, taps, halved };

struct SpreadJob {
  const float* x;
  float* y;
  const int32_t* masks;      // rows: [3][run], taps: [9][run]; all bits where the moved pixel exists, else zero
  int64_t x_plane, y_plane;  // y: of one copy
  int32_t channels;
  int32_t height, width, pitch;  // of x
  int32_t y_pitch;               // halved
  int32_t first_row, last_row;   // rows, halved: the rows of the output that will be computed
  Spread kind;
  bool middle_only;  // halved, for 1x1
};

// Each call does the outputs first..last-1.
struct FlatKernels {
  void (*convolve)(const FlatConvolution&, int first, int last);  // dense: `first` is a multiple of dense_outputs
  void (*spread)(const SpreadJob&);
};

}  // namespace sparcl
