// The weights of a FlatPlan, in the order in which its kernels read them.
#include <algorithm>
#include <limits>
#include <numeric>

#include "flat_plan.h"

namespace sparcl {
namespace {

constexpr double dense_from = 0.45;       // from this density on the dense kernel is faster
constexpr double cache_bytes = 28000;     // of L1, that inputs may fill
constexpr double cycles_of_a_block = 55;  // and of each of its vectors 6, to load and store sums

}  // namespace

// In floats from where the convolution's input starts.
int64_t FlatPlan::place_of(const ModelStep& step, const Copies& copies, int64_t input, int tap) const {
  if (spec_.nodes[step.node].kernel == 1) tap = 4;
  const int row = tap / 3, column = tap % 3;
  if (!copies.any) return input * layouts_[step.in].plane + row * layouts_[step.in].pitch + column;
  if (copies.kind == Spread::rows) return (input * 3 + column) * copies.plane + row * copies.pitch;
  return (input * 9 + tap) * copies.plane;
}

// How many input channels make a block, by an estimate of the cycles: a vector from L1 takes about one, from L2 two;
// each block loads and stores the sums of all outputs.
int FlatPlan::channels_in_block(const ModelStep& step, const Copies& copies, int64_t entries) const {
  const MapSize &in = steps_.maps[step.in], &out = steps_.maps[step.out];
  const int64_t all = (layouts_[step.out].run + kernels_.lanes - 1) / kernels_.lanes;
  const auto vectors = static_cast<double>(std::min<int64_t>(all, kernels_.accumulators));
  double read = 4.0 * vectors * kernels_.lanes;  // what a tile reads of one channel, in bytes
  if (copies.kind == Spread::rows) read += 8.0 * layouts_[step.in].pitch;
  if (copies.any) read *= copies.planes();
  double best_cycles = std::numeric_limits<double>::max();
  int best = in.channels;
  for (int channels = in.channels; channels >= 4; channels = (channels + 1) / 2) {
    const int blocks = (in.channels + channels - 1) / channels;
    const double missed = std::max(0.0, 1.0 - cache_bytes / (read * channels));
    const double cycles = static_cast<double>(entries) * vectors * (1.0 + missed) +
                          static_cast<double>(blocks - 1) * out.channels * (6 * vectors + cycles_of_a_block);
    if (cycles < best_cycles) best_cycles = cycles, best = channels;
  }
  return best;
}

void FlatPlan::build(const ModelStep& step, Convolution& convolution) {
  const Weight& weight = spec_.nodes[step.node].weight;
  const Copies copies = convolution.copies = copies_of(step);
  int64_t unit = 1;
  if (copies.any) unit = copies.kind == Spread::rows ? std::gcd(copies.plane, int64_t{copies.pitch}) : copies.plane;
  convolution.unit = static_cast<int32_t>(unit);
  const int taps = weight.kernel * weight.kernel;
  std::vector<uint32_t> of_row(static_cast<size_t>(weight.inputs) * taps);  // of each position of an output's row
  for (size_t i = 0; i < of_row.size(); ++i)
    of_row[i] = static_cast<uint32_t>(
        place_of(step, copies, static_cast<int64_t>(i) / taps, static_cast<int>(i) % taps) / unit);
  if (weight.full || static_cast<double>(weight.values.size()) >= dense_from * static_cast<double>(weight.size())) {
    build_dense(weight, convolution);
    convolution.wide_places = of_row;
  } else {
    build_sparse(step, of_row, convolution);
  }
  if (*std::max_element(of_row.begin(), of_row.end()) > std::numeric_limits<uint16_t>::max()) return;
  convolution.places.assign(convolution.wide_places.begin(), convolution.wide_places.end());
  convolution.wide_places = {};
}

void FlatPlan::build_dense(const Weight& weight, Convolution& convolution) const {
  const int64_t row = weight.size() / weight.outputs;
  const int64_t groups = (weight.outputs + dense_outputs - 1) / dense_outputs;
  convolution.entries = static_cast<int32_t>(row);
  convolution.weights.assign(groups * dense_outputs * row, 0.0f);
  for (size_t i = 0; i < weight.values.size(); ++i) {
    const int64_t position = weight.full ? static_cast<int64_t>(i) : weight.positions[i];
    const int64_t output = position / row;
    const int64_t entry = output / dense_outputs * row + position % row;
    convolution.weights[entry * dense_outputs + output % dense_outputs] = weight.values[i];
  }
}

// [block of input channels][output][input channel][tap]: a counting sort, for positions are sorted by output already.
void FlatPlan::build_sparse(const ModelStep& step, const std::vector<uint32_t>& of_row,
                            Convolution& convolution) const {
  const Weight& weight = spec_.nodes[step.node].weight;
  const auto row = static_cast<int32_t>(of_row.size());
  const int channels = channels_in_block(step, convolution.copies, static_cast<int64_t>(weight.values.size()));
  const int in_block = channels * weight.kernel * weight.kernel;
  convolution.blocks = (weight.inputs + channels - 1) / channels;
  const auto list = [&](int32_t position) { return position % row / in_block * weight.outputs + position / row; };
  std::vector<int32_t>&starts = convolution.starts, &shares = convolution.shares;
  starts.assign(static_cast<size_t>(convolution.blocks) * weight.outputs + 1, 0);
  shares.assign(weight.outputs + 1, 0);
  for (int32_t position : weight.positions) {
    ++starts[list(position) + 1];
    ++shares[position / row + 1];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::partial_sum(shares.begin(), shares.end(), shares.begin());
  std::vector<int32_t> next(starts.begin(), starts.end() - 1);
  convolution.wide_places.resize(weight.values.size());
  convolution.weights.resize(weight.values.size());
  for (size_t i = 0; i < weight.values.size(); ++i) {
    const int32_t to = next[list(weight.positions[i])]++;
    convolution.wide_places[to] = of_row[weight.positions[i] % row];
    convolution.weights[to] = weight.values[i];
  }
}

}  // namespace sparcl
