// The kernels of the engine as plain functions behind one table. Each instruction set provides its own table.
//
// Rules for code behind this header (native/kernels/*):
//   * plain pointers and sizes, checked by the caller (native/bindings.cpp);
//   * no std:: templates: the linker merges their weak symbols between instruction sets, and an AVX-512 copy could end
//   up
//     running on a machine without AVX-512.
#pragma once

#include <cstdint>

namespace sparcl {

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
  float* gradients;  // set to zero by the step
  float* velocity;   // null without momentum
  int64_t size;
  float learning_rate, momentum, weight_decay;
};

struct KernelTable {
  const char* name;
  void (*augment)(const Augmentation&, int threads);
  void (*sgd)(const SgdStep&, int threads);
};

}  // namespace sparcl
