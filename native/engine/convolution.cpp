#include "convolution.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "../parallel/parallel_for.h"

namespace sparcl {
namespace {

TileGrid forward_grid(const ConvolutionShape& shape) {
  return {shape.out.height, shape.out.width, shape.in.height, shape.stride, shape.in_padded};
}

// With stride 2, the input pixels of one parity.
TileGrid data_grid(const ConvolutionShape& shape, int parity) {
  if (shape.stride == 1) return {shape.in.height, shape.in.width, shape.out.height, 1, shape.out_padded};
  return {(shape.in.height - parity / 2 + 1) / 2, (shape.in.width - parity % 2 + 1) / 2, shape.out.height, 1,
          shape.out_padded};
}

int usable_shape(const TileGrid& grid, int wanted) {
  if (fits(grid, wanted)) return wanted;
  return fits(grid, 7) ? 7 : 5;
}

// Threads take from each other what is left to do, so there must be more items than threads.
constexpr int items_a_thread = 8;

// Floats of the sums of a layer's weight gradients, of which parts of the batch have copies: few enough for a cache,
// unless there are not even copies for all threads then.
constexpr int64_t gradient_scratch = 1 << 17;

// 4 output channels times so many columns are summed at once.
int dense_shape(int accumulators) { return accumulators >= 16 ? 2 : 1; }

}  // namespace

// Fitted to what the tuner finds on processors with 32 KB of L1 and 1 MB of L2 cache. A block of input channels is
// small so that its pixels stay in L1; the sparser the weight, the more channels a block needs for enough entries to
// share the loading and storing of the sums.
Knobs default_knobs(const ConvolutionShape& shape, double density, int accumulators) {
  const double sparser = 0.25 / std::clamp(density, 1e-3, 1.0);
  const auto channels = [&](double at_a_quarter, double power, int all) {
    const double wanted = std::max(1.0, at_a_quarter * std::pow(sparser, power));
    const int blocks = std::max(1, static_cast<int>(std::lround(all / wanted)));
    return (all + blocks - 1) / blocks;  // of about the same size: a small last one would hardly be worth its loads
  };
  const auto tile_of = [&](const TileGrid& grid, bool strided) {
    const bool wide = accumulators >= 16;
    const int wanted = grid.columns >= 16 || (strided && grid.columns >= 8) ? 3
                       : grid.columns >= 8                                  ? (wide ? 6 : 3)
                                                                            : (wide && !strided ? 7 : 5);
    return usable_shape(grid, wanted);
  };
  const bool strided = shape.stride == 2;
  const bool small = !shape.out_padded;
  Knobs knobs;
  knobs.forward.shape = tile_of(forward_grid(shape), strided);
  knobs.data.shape = tile_of(data_grid(shape, 0), strided);
  if (shape.kernel == 1) {
    knobs.forward.channels = channels(48, 0.6, shape.inputs);
    knobs.data.channels = channels(48, 0.6, shape.outputs);
  } else {
    knobs.forward.channels = small && !strided ? channels(48, 0.6, shape.inputs) : channels(16, 0.4, shape.inputs);
    knobs.data.channels = strided || small ? channels(48, 0.6, shape.outputs) : channels(16, 0.4, shape.outputs);
  }
  const bool full_rows = accumulators >= 16 && shape.out.width >= 16;
  knobs.gradient = {full_rows ? 4 : knobs.forward.shape, true};
  if (density >= 1.0) knobs.forward.channels = knobs.data.channels = 64;
  return knobs;
}

ConvolutionLayer::ConvolutionLayer(const ConvolutionShape& shape, int lanes, int accumulators)
    : shape_(shape), lanes_(lanes), accumulators_(accumulators) {
  use(default_knobs(shape, 0.1, accumulators));
}

void ConvolutionLayer::use(const Knobs& knobs) {
  knobs_ = knobs;
  const TileGrid grid = forward_grid(shape_);
  gradient_tiles_ = cover(grid, usable_shape(grid, knobs.gradient.shape));
}

Active ConvolutionLayer::active_weights() const {
  return {positions_.data(), places_.empty() ? nullptr : places_.data(), static_cast<int64_t>(positions_.size())};
}

void ConvolutionLayer::set_active(const int32_t* positions, const int32_t* places, int64_t count) {
  positions_.assign(positions, positions + count);
  places_.assign(places, places == nullptr ? places : places + count);
  if (!tuned_)
    use(default_knobs(shape_, static_cast<double>(positions_.size()) / static_cast<double>(shape_.weights()),
                      accumulators_));
  forward_built_ = data_built_ = false;
  clear_updated();
  winograd_.reset();
  if (!dense() || !WinogradWeight::suits(shape_)) return;
  if (const auto order = stored_order(shape_, places)) {
    winograd_.emplace(shape_, *order, lanes_);
    forward_ = {};
    data_.clear();
  }
}

void ConvolutionLayer::set_updated(const int32_t* chosen, int64_t count) {
  updated_.assign(positions_.size(), false);
  for (int64_t i = 0; i < count; ++i) updated_[chosen[i]] = true;
  all_updated_ = false;
  masked_built_ = false;
}

void ConvolutionLayer::clear_updated() {
  updated_.clear();
  all_updated_ = true;
  masked_gradient_ = {};
}

void ConvolutionLayer::set_knobs(const Knobs& knobs) {
  use(knobs);
  tuned_ = true;
  forward_built_ = data_built_ = masked_built_ = false;
}

void ConvolutionLayer::build_forward(const float* values) {
  sort_forward(shape_, active_weights(), values, knobs_.forward.channels, lanes_, forward_.list);
  const TileGrid grid = forward_grid(shape_);
  forward_.dense = dense() && (shape_.kernel == 1 || shape_.in_padded);
  forward_.tiles = cover(grid, forward_.dense ? dense_shape(accumulators_) : usable_shape(grid, knobs_.forward.shape));
  forward_.ranges.clear();
  forward_built_ = true;
}

void ConvolutionLayer::build_data(const float* values) {
  data_.resize(shape_.stride == 1 ? 1 : 4);
  for (int parity = 0; parity < static_cast<int>(data_.size()); ++parity) {
    Pass& pass = data_[parity];
    sort_data(shape_, active_weights(), values, knobs_.data.channels, lanes_, parity, pass.list);
    const TileGrid grid = data_grid(shape_, parity);
    pass.dense = dense() && (shape_.kernel == 1 || shape_.out_padded);
    pass.tiles = cover(grid, pass.dense ? dense_shape(accumulators_) : usable_shape(grid, knobs_.data.shape));
    pass.first_pixel = static_cast<int64_t>(parity / 2) * shape_.in.row + parity % 2;
    pass.ranges.clear();
  }
  data_built_ = true;
}

void ConvolutionLayer::build_masked_gradient() {
  std::vector<int32_t> positions, places;
  positions.reserve(positions_.size());
  places.reserve(positions_.size());
  for (size_t i = 0; i < positions_.size(); ++i) {
    if (!updated_[i]) continue;
    positions.push_back(positions_[i]);
    places.push_back(places_.empty() ? static_cast<int32_t>(i) : places_[i]);
  }
  const Active chosen{positions.data(), places.data(), static_cast<int64_t>(positions.size())};
  sort_gradient(shape_, chosen, knobs_.forward.channels, lanes_, masked_gradient_);
  masked_built_ = true;
}

void ConvolutionLayer::fill(Pass& pass, const float* values) {
  float* weights = pass.list.weights.data();
  const int32_t* places = pass.list.places.data();
  const int64_t count = static_cast<int64_t>(pass.list.weights.size());
  for (int64_t i = 0; i < count; ++i) weights[i] = values[places[i]];
}

void ConvolutionLayer::refresh(const float* values, bool with_data_lists) {
  if (winograd_) return winograd_->refresh(values);
  if (forward_built_) {
    fill(forward_, values);
  } else {
    build_forward(values);
  }
  if (!with_data_lists) return;
  if (data_built_) {
    for (Pass& pass : data_) fill(pass, values);
  } else {
    build_data(values);
  }
}

void ConvolutionLayer::refresh_scaled(const float* values, const std::vector<float>& scale) {
  if (winograd_) {
    winograd_->refresh(values);
    return winograd_->set_scale(scale);
  }
  if (!forward_built_) build_forward(values);
  const Ordered& list = forward_.list;
  for (int block = 0; block < list.blocks; ++block)
    for (int output = 0; output < list.outputs; ++output) {
      const int32_t* starts = list.starts.data() + (static_cast<int64_t>(block) * list.outputs + output) * 9;
      for (int32_t i = starts[0]; i < starts[9]; ++i) forward_.list.weights[i] = values[list.places[i]] * scale[output];
    }
}

// Ranges of output channels with about the same number of entries, when tiles and batch blocks alone would leave
// threads idle.
void ConvolutionLayer::split(Pass& pass, int blocks, int threads) {
  const int items = blocks * static_cast<int>(pass.tiles.size());
  const int outputs = pass.list.outputs;
  int splits = 1;
  const int wanted = items_a_thread * threads;
  if (threads > 1 && items > 0 && items < wanted) splits = std::min(outputs, (wanted + items - 1) / items);
  if (static_cast<int>(pass.ranges.size()) == splits + 1) return;
  std::vector<int64_t> weight(outputs + 1, 0);
  for (int b = 0; b < pass.list.blocks; ++b)
    for (int o = 0; o < outputs; ++o) {
      const int32_t* starts = pass.list.starts.data() + (static_cast<int64_t>(b) * outputs + o) * 9;
      weight[o + 1] += starts[9] - starts[0] + 1;
    }
  std::partial_sum(weight.begin(), weight.end(), weight.begin());
  pass.ranges.assign(splits + 1, outputs);
  pass.ranges[0] = 0;
  for (int s = 1; s < splits; ++s)
    pass.ranges[s] = static_cast<int32_t>(std::lower_bound(weight.begin(), weight.end(), weight.back() * s / splits) -
                                          weight.begin());
}

void ConvolutionLayer::run(const KernelTable& kernels, Pass& pass, const Side& from, const Side& to, Steps steps,
                           Batch batch, bool accumulate, const Epilogue& epilogue, int threads) {
  split(pass, batch.blocks, threads);
  const Convolution job{.x = from.data,
                        .y = const_cast<float*>(to.data) + pass.first_pixel * lanes_,
                        .list = pass.list.list(),
                        .weights = pass.list.weights.data(),
                        .dense = pass.dense,
                        .tiles = pass.tiles.data(),
                        .tile_count = static_cast<int32_t>(pass.tiles.size()),
                        .splits = static_cast<int32_t>(pass.ranges.size()) - 1,
                        .ranges = pass.ranges.data(),
                        .blocks = batch.blocks,
                        .x_extent = from.extent,
                        .y_extent = to.extent,
                        .x_step = steps.in,
                        .y_step = steps.out,
                        .accumulate = accumulate,
                        .epilogue = epilogue};
  kernels.convolve(job, threads);
}

void ConvolutionLayer::forward(const KernelTable& kernels, const float* x, float* y, Batch batch,
                               const Epilogue& epilogue, std::vector<float>& scratch, int threads) {
  if (winograd_) return winograd_->convolve(kernels, x, y, false, batch, false, epilogue, scratch, threads);
  run(kernels, forward_, {x, shape_.in}, {y, shape_.out}, {shape_.stride, 1}, batch, false, epilogue, threads);
}

void ConvolutionLayer::data_gradient(const KernelTable& kernels, const float* dy, float* dx, Batch batch,
                                     bool accumulate, std::vector<float>& scratch, int threads) {
  if (winograd_) return winograd_->convolve(kernels, dy, dx, true, batch, accumulate, {}, scratch, threads);
  for (Pass& pass : data_) {
    if (accumulate && pass.list.offsets.empty()) continue;
    run(kernels, pass, {dy, shape_.out}, {dx, shape_.in}, {1, shape_.stride}, batch, accumulate, {}, threads);
  }
}

// Sums of parts of the batch, which are still to be added, into `scratch`; returns how many parts there are.
int ConvolutionLayer::sum_gradient(const KernelTable& kernels, const Ordered& list, const float* x, const float* dy,
                                   Batch batch, std::vector<float>& scratch, int threads) {
  const int64_t entries = static_cast<int64_t>(list.offsets.size());
  const bool all = entries == shape_.weights() && (shape_.kernel == 1 || shape_.in_padded);
  const int dense_rows = std::max(1, 64 / shape_.out.width);
  const int tiles = static_cast<int>(gradient_tiles_.size());
  const int pieces = batch.blocks * (all ? (shape_.out.height + dense_rows - 1) / dense_rows : tiles);
  int parts = 1, splits = 1;
  if (threads > 1) {
    const int wanted = items_a_thread * threads;
    const int64_t fitting = gradient_scratch / std::max<int64_t>(1, entries);
    if (knobs_.gradient.over_batch)
      parts = std::min(pieces, static_cast<int>(std::clamp<int64_t>(fitting, threads, wanted)));
    splits = std::min<int>(shape_.out.channels, (wanted + parts - 1) / parts);
  }
  const size_t needed = static_cast<size_t>(entries) * parts;
  if (scratch.size() < needed) scratch.resize(needed);
  const WeightGradient job{.x = x,
                           .dy = dy,
                           .list = list.list(),
                           .sums = scratch.data(),
                           .entries = entries,
                           .parts = parts,
                           .splits = splits,
                           .dense = all,
                           .tiles = gradient_tiles_.data(),
                           .tile_count = tiles,
                           .dense_rows = dense_rows,
                           .blocks = batch.blocks,
                           .x_extent = shape_.in,
                           .dy_extent = shape_.out,
                           .x_step = shape_.stride};
  kernels.weight_gradient(job, threads);
  return parts;
}

void ConvolutionLayer::weight_gradient(const KernelTable& kernels, const float* x, const float* dy, float* gradients,
                                       Batch batch, std::vector<float>& scratch, int threads) {
  if (winograd_ && all_updated_) return winograd_->gradient(kernels, x, dy, gradients, batch, scratch, threads);
  if (!winograd_ && !forward_built_)
    throw std::invalid_argument("weights or knobs have changed since the forward pass");
  if (!all_updated_ && !masked_built_) build_masked_gradient();
  const Ordered& list = all_updated_ ? forward_.list : masked_gradient_;
  const int parts = sum_gradient(kernels, list, x, dy, batch, scratch, threads);
  const int64_t entries = static_cast<int64_t>(list.places.size());
  const int32_t* places = list.places.data();
  const float* sums = scratch.data();
  parallel_for_ranges(entries, threads, [=](int64_t first, int64_t last) {  // every entry has a place of its own
    for (int64_t i = first; i < last; ++i) {
      float sum = sums[i];
      for (int part = 1; part < parts; ++part) sum += sums[part * entries + i];
      gradients[places[i]] += sum;
    }
  });
}

void ConvolutionLayer::dense_weight_gradient(const KernelTable& kernels, const float* x, const float* dy,
                                             float* gradients, float* dense, Batch batch, std::vector<float>& scratch,
                                             int threads) {
  std::vector<int32_t> everywhere(static_cast<size_t>(shape_.weights()));
  std::iota(everywhere.begin(), everywhere.end(), 0);
  const Active all{everywhere.data(), nullptr, shape_.weights()};
  Ordered list;
  sort_gradient(shape_, all, knobs_.forward.channels, lanes_, list);
  const int parts = sum_gradient(kernels, list, x, dy, batch, scratch, threads);
  std::vector<float> found(everywhere.size());
  const size_t entries = list.offsets.size();
  for (int part = 0; part < parts; ++part)
    for (size_t i = 0; i < entries; ++i) found[list.places[i]] += scratch[part * entries + i];
  for (size_t i = 0; i < found.size(); ++i) dense[i] += found[i];
  for (size_t i = 0; i < positions_.size(); ++i)
    if (all_updated_ || updated_[i]) gradients[places_.empty() ? i : places_[i]] += found[positions_[i]];
  scratch.clear();
  scratch.shrink_to_fit();
}

}  // namespace sparcl
