#include "winograd.h"

#include <algorithm>
#include <stdexcept>

#include "../parallel/parallel_for.h"

namespace sparcl {
namespace {

constexpr int frequencies = winograd_frequencies;
constexpr int64_t line = 16;  // floats of a cache line

// Tiles of a convolution: a multiple of every `dense_columns`, and few, for with 64 channels and 8 lanes their
// transformed inputs take 0.4 MB, and so do the outputs. Other numbers were not tried.
constexpr int convolved_together = 12;
// Floats of the transformed maps of a weight gradient: its sums over lanes are rarer the more tiles there are.
constexpr int64_t gradient_maps = int64_t{1} << 21;

constexpr int64_t groups_of(int64_t size, int64_t all) { return (all + size - 1) / size; }
constexpr int64_t round_up(int64_t number, int64_t unit) { return groups_of(unit, number) * unit; }

// At least so many floats, from the beginning of a cache line on.
float* lines(std::vector<float>& scratch, int64_t floats) {
  const size_t needed = static_cast<size_t>(floats + line);
  if (scratch.size() < needed) scratch.resize(needed);
  const auto address = reinterpret_cast<uintptr_t>(scratch.data());
  return scratch.data() + (round_up(static_cast<int64_t>(address), 64) - static_cast<int64_t>(address)) / 4;
}

}  // namespace

std::optional<StoredOrder> stored_order(const ConvolutionShape& shape, const int32_t* places) {
  const int64_t taps = static_cast<int64_t>(shape.kernel) * shape.kernel, inputs = shape.inputs;
  for (const StoredOrder& order : {StoredOrder{taps * inputs, taps, 1}, StoredOrder{taps * inputs, 1, inputs}}) {
    bool same = true;
    int64_t position = 0;
    for (int64_t output = 0; output < shape.outputs; ++output)
      for (int64_t input = 0; input < inputs; ++input)
        for (int64_t tap = 0; tap < taps; ++tap, ++position)
          same &= output * order.output + input * order.input + tap * order.tap ==
                  (places == nullptr ? position : places[position]);
    if (same) return order;
  }
  return std::nullopt;
}

// Rows are a line longer than they need: in a data gradient the same inputs of many outputs are read one after the
// other, and would otherwise lie at the same place in the cache.
WinogradWeight::WinogradWeight(const ConvolutionShape& shape, const StoredOrder& order, int lanes)
    : shape_(shape),
      order_(order),
      lanes_(lanes),
      row_(round_up(shape.inputs, line) + line),
      frequency_(shape.outputs * row_ + line) {}

// G w Gt, with G = {{1, 0, 0}, {1/2, 1/2, 1/2}, {1/2, -1/2, 1/2}, {0, 0, 1}}.
void WinogradWeight::refresh(const float* values) {
  weights_.resize(static_cast<size_t>(frequencies * frequency_));
  for (int output = 0; output < shape_.outputs; ++output) {
    const float* from = values + output * order_.output;
    float* to = weights_.data() + output * row_;
    for (int input = 0; input < shape_.inputs; ++input) {
      const float* w = from + input * order_.input;
      float half[4][3];
      for (int column = 0; column < 3; ++column) {
        const float a = w[column * order_.tap], b = w[(3 + column) * order_.tap], c = w[(6 + column) * order_.tap];
        half[0][column] = a;
        half[1][column] = 0.5f * (a + c + b);
        half[2][column] = 0.5f * (a + c - b);
        half[3][column] = c;
      }
      for (int r = 0; r < 4; ++r) {
        const float a = half[r][0], b = half[r][1], c = half[r][2];
        to[(r * 4 + 0) * frequency_ + input] = a;
        to[(r * 4 + 1) * frequency_ + input] = 0.5f * (a + c + b);
        to[(r * 4 + 2) * frequency_ + input] = 0.5f * (a + c - b);
        to[(r * 4 + 3) * frequency_ + input] = c;
      }
    }
  }
}

void WinogradWeight::check_given() const {
  if (weights_.empty()) throw std::invalid_argument("weights have changed since the forward pass");
}

int WinogradWeight::tiles(Batch batch) const {
  return batch.blocks * ((shape_.out.height + 1) / 2) * ((shape_.out.width + 1) / 2);
}

void WinogradWeight::convolve(const KernelTable& kernels, const float* from, float* to, bool exchanged, Batch batch,
                              bool accumulate, const Epilogue& epilogue, std::vector<float>& scratch,
                              int threads) const {
  check_given();
  if (epilogue.bias != nullptr && scale_.empty())
    throw std::invalid_argument("weights have changed since the norms were folded in");
  const int all = tiles(batch);
  threads = std::min(threads, all);
  const int64_t items = round_up(groups_of(convolved_together, all), threads);
  const int together = static_cast<int>(groups_of(items, all));  // all groups of about the same size
  const int64_t a_thread = winograd_scratch(shape_.inputs, shape_.outputs, together, lanes_);
  const WinogradConvolution job{.x = from,
                                .y = to,
                                .x_extent = exchanged ? shape_.out : shape_.in,
                                .y_extent = exchanged ? shape_.in : shape_.out,
                                .blocks = batch.blocks,
                                .weights = weights_.data(),
                                .weight_row = row_,
                                .weight_frequency = frequency_,
                                .exchanged = exchanged,
                                .accumulate = accumulate,
                                .scale = scale_.data(),
                                .epilogue = epilogue,
                                .scratch = lines(scratch, a_thread * threads),
                                .together = together};
  kernels.winograd(job, threads);
}

void WinogradWeight::gradient(const KernelTable& kernels, const float* x, const float* dy, float* gradients,
                              Batch batch, std::vector<float>& scratch, int threads) const {
  check_given();
  const int all = tiles(batch);
  const int64_t fitting = gradient_maps / (int64_t{frequencies} * (shape_.inputs + shape_.outputs) * lanes_);
  const int64_t groups = groups_of(std::clamp<int64_t>(fitting, 1, max_winograd_tiles), all);
  const int together = static_cast<int>(groups_of(groups, all));
  const int64_t maps = winograd_scratch(shape_.inputs, shape_.outputs, together, lanes_);
  float* memory = lines(scratch, maps + frequencies * frequency_);
  const WinogradGradient job{.x = x,
                             .dy = dy,
                             .x_extent = shape_.in,
                             .dy_extent = shape_.out,
                             .blocks = batch.blocks,
                             .sums = memory + maps,
                             .sums_row = row_,
                             .sums_frequency = frequency_,
                             .scratch = memory,
                             .together = together};
  kernels.winograd_gradient(job, threads);
  parallel_for(shape_.outputs, threads, [&](int output) { add_gradient(job.sums, gradients, output); });
}

// Gt s G of the sums of one output channel.
void WinogradWeight::add_gradient(const float* sums, float* gradients, int output) const {
  const float* from = sums + output * row_;
  float* to = gradients + output * order_.output;
  for (int input = 0; input < shape_.inputs; ++input) {
    float half[3][4];
    for (int column = 0; column < 4; ++column) {
      const float a = from[column * frequency_ + input], b = from[(4 + column) * frequency_ + input];
      const float c = from[(8 + column) * frequency_ + input], d = from[(12 + column) * frequency_ + input];
      half[0][column] = a + 0.5f * (b + c);
      half[1][column] = 0.5f * (b - c);
      half[2][column] = 0.5f * (b + c) + d;
    }
    float* w = to + input * order_.input;
    for (int r = 0; r < 3; ++r) {
      const float a = half[r][0], b = half[r][1], c = half[r][2], d = half[r][3];
      w[(r * 3 + 0) * order_.tap] += a + 0.5f * (b + c);
      w[(r * 3 + 1) * order_.tap] += 0.5f * (b - c);
      w[(r * 3 + 2) * order_.tap] += 0.5f * (b + c) + d;
    }
  }
}

}  // namespace sparcl
