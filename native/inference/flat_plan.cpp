#include "flat_plan.h"

#include <algorithm>

#include "../parallel/parallel_for.h"
#include "model_error.h"

namespace sparcl {
namespace {

constexpr int64_t line = 16;                     // floats in a cache line
constexpr int64_t max_arena = int64_t{1} << 29;  // floats
constexpr int64_t small_map = 256;               // pixels: nine copies of it still fit into a cache
constexpr int64_t worth_sharing = 100000;        // vector operations: below, waking a thread takes longer
constexpr int least_vectors = 16;                // of a map, for each thread, to be shared by rows

int64_t rounded(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int part(int64_t count, int number, int threads) { return static_cast<int>(count * number / threads); }

}  // namespace

FlatPlan::FlatPlan(const KernelTable& kernels, const ModelSpec& spec, const ModelSteps& steps)
    : kernels_(kernels), spec_(spec), steps_(steps), convolutions_(steps.steps.size()) {
  lay_out();
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const ModelStep& step = steps.steps[i];
    const int64_t vectors = (layouts_[step.out].run + kernels.lanes - 1) / kernels.lanes;
    if (step.kind == ModelStep::Kind::operation) work_ += spec.nodes[step.node].weight.size() * vectors;
    if (step.kind != ModelStep::Kind::convolve) continue;
    build(step, convolutions_[i]);
    work_ += static_cast<int64_t>(convolutions_[i].weights.size()) * vectors;
  }
}

// Rows of whole vectors need no more than copies moved by a column; else every tap gets its own.
Spread FlatPlan::copies_for(const MapSize& size) const {
  return size.width % kernels_.lanes == 0 ? Spread::rows : Spread::taps;
}

// The layout depends on nothing but the size, so that maps that are added to one another have the same.
FlatPlan::Layout FlatPlan::layout_for(const MapSize& size) const {
  Layout layout;
  if (size.flat) return layout;
  const bool rows = copies_for(size) == Spread::rows;
  layout.padded = !rows && size.pixels() > small_map;
  layout.pitch = size.width + (layout.padded ? 1 : 0);
  layout.run = size.height * layout.pitch - (layout.padded ? 1 : 0);
  layout.plane = rounded(layout.run, kernels_.lanes);
  if (layout.padded) {
    layout.plane = static_cast<int64_t>(size.height + 1) * layout.pitch;
  }
  return layout;
}

// Maps of one size share their mask.
void FlatPlan::need_mask(int map) {
  const MapSize& size = steps_.maps[map];
  Layout& layout = layouts_[map];
  std::vector<int32_t>& mask = masks_[{size.height, size.width}];
  if (mask.empty()) {
    const bool rows = copies_for(size) == Spread::rows;
    const int first = layout.padded ? 4 : rows ? 3 : 0, last = layout.padded ? 5 : rows ? 6 : 9;
    const int64_t count = static_cast<int64_t>(last - first) * layout.run + (layout.padded ? flat_slack : 0);
    masks_size_ += count;
    expect(masks_size_ <= max_arena, "its maps are too large");
    mask.resize(count, 0);
    int32_t* bits = mask.data();
    for (int tap = first; tap < last; ++tap)
      for (int32_t i = 0; i < layout.run; ++i) {
        const int row = i / layout.pitch + tap / 3 - 1, column = i % layout.pitch + tap % 3 - 1;
        *bits++ = row >= 0 && row < size.height && column >= 0 && column < size.width ? -1 : 0;
      }
  }
  layout.mask = mask.data();
}

FlatPlan::Copies FlatPlan::copies_of(const ModelStep& step) const {
  const ModelNode& node = spec_.nodes[step.node];
  const MapSize& in = steps_.maps[step.in];
  Copies copies;
  if (node.stride == 2) {
    const Layout& half = layouts_[step.out];
    return {.any = true, .kind = Spread::halved, .pitch = half.pitch, .plane = rounded(half.run, kernels_.lanes)};
  }
  if (node.kernel == 1 || layouts_[step.in].padded) return copies;
  copies = {.any = true, .kind = copies_for(in), .pitch = in.width, .plane = layouts_[step.in].plane};
  if (copies.kind == Spread::rows) {
    copies.plane = static_cast<int64_t>(in.height + 2) * in.width;
    if (copies.plane % 1024 == 0) copies.plane += line;  // planes must not all start at the same place in the cache
  }
  return copies;
}

void FlatPlan::lay_out() {
  for (const MapSize& size : steps_.maps) layouts_.push_back(layout_for(size));
  std::vector<StepBuffer> buffers;
  for (size_t map = 0; map < layouts_.size(); ++map) {
    const int64_t floats = steps_.maps[map].channels * layouts_[map].plane + layouts_[map].margin();
    expect(floats <= max_arena, "its maps are too large");
    buffers.push_back({.size = floats, .first = 0, .last = 0});
    if (layouts_[map].padded) need_mask(static_cast<int>(map));
  }
  std::vector<bool> written(layouts_.size(), false);
  for (int i = 0; i < static_cast<int>(steps_.steps.size()); ++i) {
    const ModelStep& step = steps_.steps[i];
    if (!written[step.out]) buffers[step.out].first = i;  // of maps that are put side by side there are several steps
    written[step.out] = true;
    buffers[step.out].last = buffers[step.in].last = i;
    if (step.residual >= 0) buffers[step.residual].last = i;
    if (step.kind != ModelStep::Kind::convolve) continue;
    const Copies copies = copies_of(step);
    if (!copies.any) continue;
    copies_size_ = std::max(copies_size_, steps_.maps[step.in].channels * copies.planes() * copies.plane);
    if (copies.kind != Spread::halved) need_mask(step.in);
  }
  // Beside a map there is memory, too: copying one reads a row beyond its ends, and a tile may be longer than a run.
  int64_t beside = 0;
  for (const Layout& layout : layouts_) beside = std::max(beside, rounded(layout.pitch + 1, line));
  const int64_t length = beside + place_buffers(buffers, line) + beside + flat_slack;
  copies_size_ += flat_slack;
  expect(length <= max_arena && copies_size_ <= max_arena, "its maps are too large");
  for (size_t map = 0; map < layouts_.size(); ++map)
    layouts_[map].offset = beside + buffers[map].offset + layouts_[map].margin();
  arena_ = Arena(length);
  std::fill_n(arena_.data(), length, 0.0f);
}

void FlatPlan::run(const float* images, int64_t count, float* logits, int threads) {
  const int64_t floats = steps_.maps.front().channels * steps_.maps.front().pixels();
  const int64_t classes = steps_.maps.back().channels;
  if (work_ < worth_sharing) threads = 1;
  // All copies together take no more memory than a file may ask for: a small file with huge maps must not take more.
  threads = static_cast<int>(std::clamp<int64_t>(max_arena / copies_size_, 1, threads));
  while (static_cast<int>(copies_.size()) < threads) {
    copies_.emplace_back(copies_size_);
    std::fill_n(copies_.back().data(), copies_size_, 0.0f);
  }
  const auto thread = [&](int number) { return Thread{number, threads, copies_[number].data()}; };
  for (int64_t i = 0; i < count; ++i) {
    parallel_for(threads, threads, [&](int number) { read_image(images + i * floats, thread(number)); });
    for (size_t step = 0; step < steps_.steps.size(); ++step)
      parallel_for(threads, threads, [&](int number) { do_step(step, thread(number)); });
    std::copy_n(pixels(static_cast<int>(steps_.maps.size()) - 1, 0), classes, logits + i * classes);
  }
}

void FlatPlan::read_image(const float* image, const Thread& thread) const {
  const MapSize& size = steps_.maps[0];
  const Share all{0, size.channels, part(size.height, thread.number, thread.count),
                  part(size.height, thread.number + 1, thread.count)};
  for (int64_t channel = 0; channel < size.channels; ++channel)
    for (int64_t row = all.first_row; row < all.last_row; ++row) {
      float* to = pixels(0, channel) + row * layouts_[0].pitch;
      std::copy_n(image + (channel * size.height + row) * size.width, size.width, to);
      std::fill(to + size.width, to + layouts_[0].pitch, 0.0f);
    }
  clear_padding(0, all);
}

// Maps with many vectors are shared by rows, others by outputs, so that each thread gets about the same work.
FlatPlan::Share FlatPlan::share_of(size_t index, const Thread& thread) const {
  const ModelStep& step = steps_.steps[index];
  const MapSize& out = steps_.maps[step.out];
  const Convolution& convolution = convolutions_[index];
  const bool convolves = step.kind == ModelStep::Kind::convolve;
  const bool whole_rows = layouts_[step.out].padded || out.width % kernels_.lanes == 0;
  if (!out.flat && whole_rows && layouts_[step.out].run >= least_vectors * kernels_.lanes * thread.count)
    return {0, out.channels, part(out.height, thread.number, thread.count),
            part(out.height, thread.number + 1, thread.count)};
  const auto border = [&](int number) {
    if (!convolves) return part(out.channels, number, thread.count);
    if (convolution.starts.empty()) {
      const int groups = (out.channels + dense_outputs - 1) / dense_outputs;
      return std::min(out.channels, part(groups, number, thread.count) * dense_outputs);
    }
    if (number == thread.count) return out.channels;
    const auto& shares = convolution.shares;
    const auto found = std::lower_bound(shares.begin(), shares.end() - 1, part(shares.back(), number, thread.count));
    return static_cast<int>(found - shares.begin());
  };
  return {border(thread.number), border(thread.number + 1), 0, out.height};
}

void FlatPlan::do_step(size_t index, const Thread& thread) const {
  const ModelStep& step = steps_.steps[index];
  const Share share = share_of(index, thread);
  switch (step.kind) {
    case ModelStep::Kind::convolve:
      convolve(index, share, thread);
      break;
    case ModelStep::Kind::combine:
      combine(step, share);
      break;
    case ModelStep::Kind::operation:
      operate(step, share);
      break;
  }
  clear_padding(step.out, share);
}

void FlatPlan::operate(const ModelStep& step, const Share& share) const {
  const ModelNode& node = spec_.nodes[step.node];
  const MapSize &in = steps_.maps[step.in], &out = steps_.maps[step.out];
  const Layout& layout = layouts_[step.out];
  node.operation->flat({.x = pixels(step.in, 0),
                        .y = pixels(step.out, 0),
                        .residual = step.residual >= 0 ? pixels(step.residual, 0) : nullptr,
                        .weight = node.weight.values.data(),
                        .bias = node.weight.bias.data(),
                        .in = in.size(),
                        .out = out.size(),
                        .x_plane = layouts_[step.in].plane,
                        .y_plane = layout.plane,
                        .x_pitch = layouts_[step.in].pitch,
                        .y_pitch = layout.pitch,
                        .first = share.first,
                        .last = share.last,
                        .first_row = share.first_row,
                        .last_row = share.last_row,
                        .activation = step.activation,
                        .attributes = step.attributes.data()});
  if (!layout.padded) return;
  for (int channel = share.first; channel < share.last; ++channel)
    for (int64_t row = share.first_row; row < share.last_row; ++row)
      pixels(step.out, channel)[row * layout.pitch + out.width] = 0.0f;
}

// The zeros around a padded map, but for those after each row, which belong to the row.
void FlatPlan::clear_padding(int map, const Share& share) const {
  const Layout& layout = layouts_[map];
  if (!layout.padded || share.first == share.last || share.first_row == share.last_row) return;
  if (share.first == 0 && share.first_row == 0) std::fill_n(pixels(map, 0) - layout.margin(), layout.margin(), 0.0f);
  if (share.last_row != steps_.maps[map].height) return;
  for (int channel = share.first; channel < share.last; ++channel)
    std::fill(pixels(map, channel) + layout.run, pixels(map, channel + 1), 0.0f);
}

void FlatPlan::convolve(size_t index, const Share& share, const Thread& thread) const {
  if (share.first == share.last || share.first_row == share.last_row) return;
  const ModelStep& step = steps_.steps[index];
  const Convolution& convolution = convolutions_[index];
  const Copies& copies = convolution.copies;
  const Layout &in = layouts_[step.in], &out = layouts_[step.out];
  const MapSize& size = steps_.maps[step.in];
  const ModelNode& node = spec_.nodes[step.node];
  if (copies.any)
    kernels_.flat->spread({.x = pixels(step.in, 0),
                           .y = thread.copies,
                           .masks = in.mask,
                           .x_plane = in.plane,
                           .y_plane = copies.plane,
                           .channels = size.channels,
                           .height = size.height,
                           .width = size.width,
                           .pitch = in.pitch,
                           .y_pitch = copies.pitch,
                           .first_row = share.first_row,
                           .last_row = share.last_row,
                           .kind = copies.kind,
                           .middle_only = node.kernel == 1});
  const bool narrow = convolution.wide_places.empty();
  const bool to_the_end = share.last_row == steps_.maps[step.out].height;
  kernels_.flat->convolve(
      // Of the map itself, the tap above and to the left of its first pixel is where its places begin.
      {.x = copies.any ? thread.copies : pixels(step.in, 0) - in.pitch - 1,
       .y = pixels(step.out, 0),
       .residual = step.residual >= 0 ? pixels(step.residual, 0) : nullptr,
       .bias = node.weight.bias.data(),
       .weights = convolution.weights.data(),
       .mask = out.padded ? out.mask : nullptr,
       .places = narrow ? convolution.places.data() : nullptr,
       .wide_places = narrow ? nullptr : convolution.wide_places.data(),
       .starts = convolution.starts.empty() ? nullptr : convolution.starts.data(),
       .y_plane = out.plane,
       .residual_plane = step.residual >= 0 ? layouts_[step.residual].plane : 0,
       .begin = share.first_row * out.pitch,
       .end = to_the_end ? out.run : share.last_row * out.pitch,
       .outputs = steps_.maps[step.out].channels,
       .blocks = convolution.blocks,
       .unit = convolution.unit,
       .entries = convolution.entries,
       .activation = step.activation},
      share.first, share.last);
}

void FlatPlan::combine(const ModelStep& step, const Share& share) const {
  const Layout& layout = layouts_[step.out];
  const int first = share.first_row * layout.pitch;
  const int last = std::min(layout.run, share.last_row * layout.pitch);
  for (int channel = share.first; channel < share.last; ++channel) {
    const float* a = pixels(step.in, channel);
    const float* b = step.residual >= 0 ? pixels(step.residual, channel) : nullptr;
    float* y = pixels(step.out, channel);
    const Weight* affine = step.node >= 0 ? &spec_.nodes[step.node].weight : nullptr;
    const float scale = affine != nullptr ? affine->values[channel] : 1.0f;
    const float shift = affine != nullptr ? affine->bias[channel] : 0.0f;
    for (int i = first; i < last; ++i) {
      float value = a[i] * scale + shift;
      if (b != nullptr) value += b[i];
      y[i] = layout.padded && layout.mask[i] == 0 ? 0.0f : activate(value, step.activation);
    }
  }
}

}  // namespace sparcl
