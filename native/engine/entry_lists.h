// Sparse weights in the orders in which the kernels read them, built from the sorted positions of the active weights.
#pragma once

#include <cstdint>
#include <vector>

#include "../kernels/kernels.h"

namespace sparcl {

// A convolution whose weight is [outputs][inputs][kernel][kernel], from one map to another.
struct ConvolutionShape {
  int32_t outputs, inputs, kernel, stride;
  Extent in, out;
  bool in_padded, out_padded;
  int64_t weights() const { return static_cast<int64_t>(outputs) * inputs * kernel * kernel; }
};

// One list: its entries' offsets, and for each entry the place of its number in the stored weight.
struct Ordered {
  int32_t blocks = 0, outputs = 0;
  std::vector<int32_t> starts, offsets;  // see EntryList
  std::vector<int32_t> places;
  std::vector<float> weights;  // only for convolutions; weight gradients need none
  EntryList list() const { return {blocks, outputs, starts.data(), offsets.data()}; }
};

// The active weights: positions in the flattened [output][input][ky][kx], strictly rising, and where each is stored.
struct Active {
  const int32_t* positions;
  const int32_t* places;  // null: the i-th position is stored at place i
  int64_t count;
};

// Each fills a list, whose memory is used again: masks move often and hardly change in size, and fresh memory takes
// longer than sorting. `channels` is how many input channels (for a data gradient: output channels) make a block.
// Lists for convolutions take the weights' current values with them: here they are read in order, later all over
// memory.
void sort_forward(const ConvolutionShape& shape, const Active& active, const float* values, int channels, int lanes,
                  Ordered& list);
void sort_gradient(const ConvolutionShape& shape, const Active& active, int channels, int lanes, Ordered& list);
// Stride 1 needs one list. With stride 2 the rows and columns of the input are even or odd, and each of the four
// kinds of pixels has its own list; `parity` is 2 * (odd row) + (odd column).
void sort_data(const ConvolutionShape& shape, const Active& active, const float* values, int channels, int lanes,
               int parity, Ordered& list);

}  // namespace sparcl
