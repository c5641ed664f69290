#include "entry_lists.h"

#include <algorithm>
#include <utility>

namespace sparcl {
namespace {

// Where a weight stands in a list.
struct Spot {
  int32_t output, input, tap;  // tap < 0: not in this list
};

// Walks over the active weights in order; `at(output, input, window position)` tells each one's spot.
template <int Kernel, typename At, typename Visit>
void visit(const ConvolutionShape& shape, const Active& active, const At& at, const Visit& each) {
  constexpr uint32_t window = Kernel * Kernel;
  const int32_t row = static_cast<int32_t>(shape.inputs * window);
  int32_t output = 0, row_start = 0;
  for (int64_t i = 0; i < active.count; ++i) {
    const int32_t position = active.positions[i];
    while (position - row_start >= row) {
      row_start += row;
      ++output;
    }
    const uint32_t rest = position - row_start;
    const Spot spot = at(output, rest / window, rest % window);
    if (spot.tap >= 0) each(spot, i);
  }
}

// A stable counting sort by (block of input channels, output, tap): entries of one tap stay in the order of inputs.
template <int Kernel, typename At>
void sort(const ConvolutionShape& shape, const Active& active, const At& at, int outputs, int inputs, int channels,
          const Extent& source, int lanes, const float* values, Ordered& result) {
  channels = std::clamp(channels, 1, inputs);
  result.blocks = (inputs + channels - 1) / channels;
  result.outputs = outputs;
  result.starts.assign(static_cast<size_t>(result.blocks) * outputs * 9 + 1, 0);
  // Dividing for each entry would take longer than everything else.
  std::vector<int32_t> first_of_block(inputs);
  for (int input = 0; input < inputs; ++input) first_of_block[input] = input / channels * outputs;
  int32_t shift[9];
  for (int tap = 0; tap < 9; ++tap) shift[tap] = ((tap / 3 - 1) * source.row + (tap % 3 - 1)) * lanes;
  const int32_t plane = source.plane * lanes;
  const auto bucket = [&](const Spot& spot) {
    return static_cast<size_t>(first_of_block[spot.input] + spot.output) * 9 + spot.tap;
  };
  std::vector<int32_t>& starts = result.starts;
  visit<Kernel>(shape, active, at, [&](const Spot& spot, int64_t) { ++starts[bucket(spot)]; });
  int32_t total = 0;
  for (int32_t& start : starts) total += std::exchange(start, total);
  result.offsets.resize(total);
  result.places.resize(total);
  if (values != nullptr) result.weights.resize(total);
  visit<Kernel>(shape, active, at, [&](const Spot& spot, int64_t i) {
    const int32_t slot = starts[bucket(spot)]++;
    const int32_t place = active.places != nullptr ? active.places[i] : static_cast<int32_t>(i);
    result.offsets[slot] = spot.input * plane + shift[spot.tap];
    result.places[slot] = place;
    if (values != nullptr) result.weights[slot] = values[place];
  });
  // Filling moved every start to its end, which is the next one's start.
  std::move_backward(starts.begin(), starts.end() - 1, starts.end());
  starts[0] = 0;
}

template <int Kernel>
void by_output(const ConvolutionShape& shape, const Active& active, int channels, int lanes, const float* values,
               Ordered& list) {
  const auto at = [](int32_t output, int32_t input, int32_t window) {
    return Spot{output, input, Kernel == 3 ? window : 4};
  };
  sort<Kernel>(shape, active, at, shape.outputs, shape.inputs, channels, shape.in, lanes, values, list);
}

template <int Kernel>
void by_input(const ConvolutionShape& shape, const Active& active, int channels, int lanes, const float* values,
              int parity, Ordered& list) {
  const auto plain = [](int32_t output, int32_t input, int32_t window) {
    return Spot{input, output, Kernel == 3 ? 8 - window : 4};
  };
  // Output row i met input row 2i + ky - 1. So an even row 2i takes from output row i by ky = 1 alone, and an odd row
  // 2i + 1 from row i by ky = 2 and from row i + 1 by ky = 0; columns alike.
  const auto strided = [parity](int32_t output, int32_t input, int32_t window) {
    const int ky = Kernel == 3 ? window / 3 : 1, kx = Kernel == 3 ? window % 3 : 1;
    if (2 * (ky != 1) + (kx != 1) != parity) return Spot{0, 0, -1};
    return Spot{input, output, (ky == 0 ? 6 : 3) + (kx == 0 ? 2 : 1)};
  };
  if (shape.stride == 1) {
    sort<Kernel>(shape, active, plain, shape.inputs, shape.outputs, channels, shape.out, lanes, values, list);
  } else {
    sort<Kernel>(shape, active, strided, shape.inputs, shape.outputs, channels, shape.out, lanes, values, list);
  }
}

}  // namespace

void sort_forward(const ConvolutionShape& shape, const Active& active, const float* values, int channels, int lanes,
                  Ordered& list) {
  const auto sort_by = shape.kernel == 3 ? by_output<3> : by_output<1>;
  sort_by(shape, active, channels, lanes, values, list);
}

void sort_gradient(const ConvolutionShape& shape, const Active& active, int channels, int lanes, Ordered& list) {
  const auto sort_by = shape.kernel == 3 ? by_output<3> : by_output<1>;
  sort_by(shape, active, channels, lanes, nullptr, list);
}

void sort_data(const ConvolutionShape& shape, const Active& active, const float* values, int channels, int lanes,
               int parity, Ordered& list) {
  const auto sort_by = shape.kernel == 3 ? by_input<3> : by_input<1>;
  sort_by(shape, active, channels, lanes, values, parity, list);
}

}  // namespace sparcl
