// The kernels of the engine as plain functions behind one table. Each instruction set provides its own table.
//
// Rules for code behind this header (native/kernels/*):
//   * plain pointers and sizes, checked by the caller (native/engine/, native/bindings.cpp);
//   * no std:: templates: the linker merges their weak symbols between instruction sets, and an AVX-512 copy could end
//     up running on a machine without AVX-512.
//
// Activations and their gradients ("maps") lie in memory as [batch block][channel][row][column][lane]: a block holds as
// many images as a vector has lanes, so that moving by a pixel is moving by a whole vector and no kernel shuffles at
// the edges of images. A padded map has one column of zeros after each row, which is also the column before the next
// row; one pixel of zeros stands before the whole map. Rows above and below are never read.
#pragma once

#include <cstdint>

#include "operation.h"

namespace sparcl {

struct FlatKernels;  // flat.h

// A batch to build from a store of uint8 images: crop (with zero padding), flip, normalise, as float32.
struct Augmentation {
  const uint8_t* images;     // [stored][channels][height][width]
  const int64_t* positions;  // [batch] which stored image, already checked against the store
  const int32_t* shifts;     // [batch][2] vertical and horizontal shift of the crop window
  const uint8_t* flips;      // [batch] non-zero: mirror left to right
  const float* mean;         // [channels] in units of pixel values 0..255
  const float* scale;        // [channels] 1 / standard deviation, in the same units
  float* output;             // [batch][channels][height][width]
  int64_t batch, channels, height, width;
};

struct SgdStep {
  float* values;
  float* gradients;      // set to zero by the step
  float* velocity;       // null without momentum
  const uint8_t* moves;  // zero: the number stays as it is; null: all move
  int64_t size;
  float learning_rate, momentum, weight_decay;
  bool nesterov;
};

struct AdamwStep {
  float* values;
  float* gradients;  // set to zero by the step
  float* mean;       // of the gradients, and of their squares
  float* square;
  int32_t* steps;            // that each number has made
  const uint8_t* moves;      // as in SgdStep
  const float* corrections;  // [entries][2]
  int64_t size, entries;
  float learning_rate, keep, beta1, beta2, new1, new2, epsilon;  // keep: 1 - rate * decay; new1 and new2: 1 - beta
};

// The extent of a map. `row` and `plane` are the distances, in pixels, between rows and between channels.
struct Extent {
  int32_t channels, height, width, row, plane;
  int64_t block() const { return static_cast<int64_t>(channels) * plane; }  // pixels of one batch block
};

// The images of a batch: blocks of `lanes` images, of which the last may hold fewer.
struct Batch {
  int32_t images, blocks;
};

// A sparse weight in the order in which a convolution reads it:
//   [block of input channels][output channel][tap][input channel]
// Taps are the nine shifts of a 3x3 window in reading order; those above the centre (0..2) fall away at the top of an
// image, those below (6..8) at the bottom. `starts[(block * outputs + output) * 9 + tap]` is where a tap's entries
// begin; one more number closes the list. An entry's offset is where its input lies, in floats from the tile's origin
// (tap shift included).
struct EntryList {
  int32_t blocks, outputs;
  const int32_t* starts;
  const int32_t* offsets;
};

// A rectangle of output pixels computed at once, in registers. `shape` indexes tile_shapes; `edges` tells at which
// edges of the image it lies (bits of Edge).
struct Tile {
  int16_t row, column;
  uint8_t shape, edges;
};

enum Edge : uint8_t { top = 1, bottom = 2, left = 4, right = 8 };

struct TileShape {
  int32_t rows, columns;
};
constexpr int tile_shape_count = 8;
constexpr TileShape tile_shapes[tile_shape_count] = {{1, 1}, {1, 2}, {1, 4}, {1, 8}, {1, 16}, {2, 4}, {2, 8}, {4, 4}};

// What an inference pass does with a convolution's output on the way: activation(y + bias + residual). All parts are
// optional.
struct Epilogue {
  const float* bias = nullptr;      // [outputs]; with it, zeros are put around the output, for it is a finished map
  const float* residual = nullptr;  // a map like y
  Activation activation = Activation::none;
};

// y (+)= weight * x over all tiles of the output; also the data gradient, with the weight transposed.
struct Convolution {
  const float* x;
  float* y;  // the pixel that belongs to tile position (0, 0)
  EntryList list;
  const float* weights;  // one an entry
  bool dense;  // every output has the same entries but for the weight; tiles then have one row and at most 4 columns
  const Tile* tiles;
  int32_t tile_count;
  int32_t splits;         // the output channels are split into so many ranges,
  const int32_t* ranges;  // [splits + 1], for more parallel work
  int32_t blocks;         // of the batch
  Extent x_extent, y_extent;
  int32_t x_step;  // pixels between the inputs of neighbouring outputs: the stride
  int32_t y_step;  // pixels between neighbouring outputs: 2 when a data gradient of stride 2 fills every other one
  bool accumulate;
  Epilogue epilogue;
};

// sums[part][i] = sum over a part of the images and output pixels of dy * x, for each entry i of the list.
struct WeightGradient {
  const float* x;
  const float* dy;
  EntryList list;
  float* sums;  // [parts][entries], overwritten
  int64_t entries;
  int32_t parts;   // of the batch and of its images,
  int32_t splits;  // and of the output channels, for parallel work
  bool dense;      // as in Convolution; instead of tiles, `dense_rows` rows of the output are taken at a time
  const Tile* tiles;
  int32_t tile_count;
  int32_t dense_rows;
  int32_t blocks;  // of the batch
  Extent x_extent, dy_extent;
  int32_t x_step;
};

// Dense 3x3 convolutions with stride 1 (winograd.inc): y (+)= weight * x, and the data gradient. The weight is
// transformed: [16][outputs][inputs].
struct WinogradConvolution {
  const float* x;
  float* y;
  Extent x_extent, y_extent;
  int32_t blocks;  // of the batch
  const float* weights;
  int64_t weight_row, weight_frequency;  // from an output to the next, and from a frequency to the next, in floats
  bool exchanged;                        // a data gradient: x has the weight's outputs, y its inputs
  bool accumulate;
  const float* scale;  // [outputs], only with an epilogue's bias
  Epilogue epilogue;
  float* scratch;    // `winograd_scratch` for each thread
  int32_t together;  // tiles that are computed at once
};

// sums[16][outputs][inputs] = the gradient by the transformed weight.
struct WinogradGradient {
  const float* x;
  const float* dy;
  Extent x_extent, dy_extent;
  int32_t blocks;
  float* sums;
  int64_t sums_row, sums_frequency;
  float* scratch;  // `winograd_scratch` once, for all threads
  int32_t together;
};

constexpr int winograd_frequencies = 16;
constexpr int max_winograd_tiles = 128;
// Floats of one frequency of some tiles. One cache line more than that: frequencies must not begin at the same place in
// the cache.
static constexpr int64_t winograd_frequency(int channels, int tiles, int lanes) {
  return static_cast<int64_t>(channels) * tiles * lanes + 16;
}
// Floats of the transformed inputs and outputs of some tiles.
static constexpr int64_t winograd_scratch(int inputs, int outputs, int tiles, int lanes) {
  return winograd_frequencies * (winograd_frequency(inputs, tiles, lanes) + winograd_frequency(outputs, tiles, lanes));
}

// Batch normalisation (or a bias) of one operand of Combine.
struct Norm {
  const float* weight;  // null: no scale, a mere bias
  const float* bias;    // null: the operand is taken as it is
  float* running_mean;  // null for a mere bias
  float* running_var;
  float* state;  // [4][channels]: mean, 1/deviation, scale, shift of this pass, kept for the backward pass
  float* d_weight;
  float* d_bias;
  float epsilon, momentum;  // momentum 0: the running statistics stay as they are
  bool fixed;               // the running statistics are used in training too
};

// out = activation(norm(a) + norm(b)): everything between two convolutions. b and the activation are optional.
struct Combine {
  const float* a;
  const float* b;  // null: only one operand
  float* out;
  uint16_t* mask;  // where the activation lets gradients through, a bit for each lane; null: not wanted
  Norm norm_a, norm_b;
  Extent extent;
  Batch batch;
  Activation activation;
  bool recompute;  // with the scales and shifts of the forward pass, to have its output once more
  bool training;   // use and follow the batch's statistics
};

// The backward pass through the activation and the norm of one operand.
struct CombineBackward {
  float* d_out;
  const float* operand;  // input of the norm; null without batch norm
  float* d_operand;      // may be d_out itself
  const uint16_t* mask;  // null: the gate was applied before (or there is none)
  bool write_gated;      // put the gated gradient back into d_out, for the other operand
  bool accumulate;       // add to d_operand
  Norm norm;
  Extent extent;
  Batch batch;
  bool training;
};

// Between [image][channel][height][width] and a map.
struct Packing {
  const float* plain_in;
  float* plain_out;
  float* map;
  Extent extent;
  Batch batch;
};

struct KernelTable {
  const char* name;
  int lanes;
  int accumulators;  // how many pixels a tile should have
  void (*augment)(const Augmentation&, int threads);
  void (*sgd)(const SgdStep&, int threads);
  void (*adamw)(const AdamwStep&, int threads);
  void (*convolve)(const Convolution&, int threads);
  void (*weight_gradient)(const WeightGradient&, int threads);
  void (*winograd)(const WinogradConvolution&, int threads);
  void (*winograd_gradient)(const WinogradGradient&, int threads);
  void (*combine)(const Combine&, int threads);
  void (*combine_backward)(const CombineBackward&, int threads);
  uint64_t (*digest)(const float* numbers, int64_t count);
  void (*pack)(const Packing&, int threads);
  void (*unpack)(const Packing&, int threads);
  const FlatKernels* flat;  // for a single image
  const Operation* const* operations;
  int operation_count;
};

}  // namespace sparcl
