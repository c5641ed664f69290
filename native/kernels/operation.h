// An operation of the engine: everything C++ knows of it is one file, native/operations/NAME.inc, and one line of the
// table in native/operations/table.inc. The file is compiled once for each instruction set, under the rules of
// kernels.h, and provides
//
//   * what a model file calls it, which attributes it has, which shapes it takes,
//   * forward and backward for a batch, images in the lanes of the vectors (kernels.h has the layout of a map),
//   * forward for a single image, pixels in the lanes (flat.h has the layout).
//
// Convolutions that may be sparse (conv.inc) and what stands between convolutions (combine.inc) are no such operations:
// the engine fuses, sorts and tunes them.
#pragma once

#include <cstdint>

#include "activation.h"

namespace sparcl {

struct Extent;
struct Batch;

constexpr int max_attributes = 4;

struct Size {
  int32_t channels, height, width;
};

// A call for a batch. Pointers to maps point to the first pixel of the first image; what a call does not need is null.
struct OperationCall {
  const float* x;
  float* y;  // forward: written, with the zeros that a padded map has beside its rows; backward: as it was written
  const float* dy;
  float* dx;  // backward: written, zeros included; null: not wanted
  const float* weight;
  const float* bias;
  float* d_weight;  // added to
  float* d_bias;
  float* statistics;  // running numbers of the operation
  float* state;       // what a forward pass leaves for its backward pass
  const float*
      residual;  // inference: y = activation(operation(x) + bias + residual), where the operation has an epilogue
  Activation activation;
  const Extent* in;
  const Extent* out;
  const Batch* batch;
  const int32_t* attributes;
  bool training;
  float momentum;  // 0: a pass that leaves no trace in the statistics
};

// A call for one image: channels `first` to `last`-1 of the output, rows `first_row` to `last_row`-1.
struct FlatCall {
  const float* x;  // channel c, row r, column k: x[c * x_plane + r * x_pitch + k]
  float* y;
  const float* residual;  // laid out as y; null: none
  const float* weight;
  const float* bias;
  Size in, out;
  int64_t x_plane, y_plane;
  int32_t x_pitch, y_pitch;
  int32_t first, last, first_row, last_row;
  Activation activation;
  const int32_t* attributes;
};

struct Operation {
  const char* name = nullptr;
  const char* attributes[max_attributes] = {};  // their names in a model file; null: no more
  // Whether the sizes fit the attributes. Everything in a model file or a program is checked here, and never again.
  bool (*fits)(const Size& in, const Size& out, const int32_t* attributes) = nullptr;
  // How many weights it has; null: none. One bias for each output channel goes with them.
  int64_t (*weights)(const Size& in, const Size& out, const int32_t* attributes) = nullptr;
  bool needs_bias = false;
  int32_t statistics = 0;     // how many running numbers
  int32_t state = 0;          // how many floats a forward pass leaves for its backward pass
  bool reads_input = false;   // by the backward pass,
  bool reads_output = false;  // besides the gradient of the output
  bool joins = false;         // takes any number of maps, a step for each; its attribute is the output's first channel
  bool flattens = false;      // makes a vector of a map
  bool epilogue = false;      // takes in a bias, a residual and an activation in inference
  void (*forward)(const OperationCall&, int threads) = nullptr;
  void (*backward)(const OperationCall&, int threads) = nullptr;  // null: there is none
  void (*flat)(const FlatCall&) = nullptr;                        // null: only in training
};

}  // namespace sparcl
