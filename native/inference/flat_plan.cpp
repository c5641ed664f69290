#include "flat_plan.h"

#include <omp.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "model_error.h"

namespace sparcl {
namespace {

constexpr int64_t line = 16;                         // floats in a cache line
constexpr int64_t largest_arena = int64_t{1} << 29;  // floats
constexpr int64_t small_map = 256;                   // pixels: nine copies of it still fit into a cache
constexpr double dense_from = 0.45;                  // from this density on the dense kernel is faster
constexpr int64_t worth_sharing = 100000;            // vector operations: below, waking a thread takes longer

int64_t rounded(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int share(int count, int thread, int threads) {
  return static_cast<int>(static_cast<int64_t>(count) * thread / threads);
}

}  // namespace

FlatPlan::FlatPlan(const KernelTable& kernels, const ModelSpec& spec, const ModelSteps& steps)
    : kernels_(kernels), spec_(spec), steps_(steps), layouts_(steps.maps.size()), convolutions_(steps.steps.size()) {
  lay_out();
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const ModelStep& step = steps.steps[i];
    if (step.kind != ModelStep::Kind::convolve) continue;
    build(step, convolutions_[i]);
    const int64_t vectors = (steps.maps[step.out].pixels() + kernels.lanes - 1) / kernels.lanes;
    work_ += static_cast<int64_t>(convolutions_[i].weights.size()) * vectors;
  }
}

// Shifted rows are enough where all of them begin at a whole vector; else every tap gets its own copy, so that no load
// of a vector crosses a cache line. Large maps would take too much memory that way.
Spread FlatPlan::spread_for(const MapSize& size) const {
  return size.width % kernels_.lanes == 0 || size.pixels() > small_map ? Spread::rows : Spread::taps;
}

FlatPlan::Copy& FlatPlan::copy_of(int map, Spread kind) {
  for (Copy& copy : layouts_[map].copies)
    if (copy.kind == kind) return copy;
  const MapSize& size = steps_.maps[map];
  Copy copy{.kind = kind};
  if (kind == Spread::rows) {
    copy.plane = rounded(static_cast<int64_t>(size.height + 2) * size.width, line);
    if (copy.plane % 1024 == 0) copy.plane += line;  // planes must not all start at the same place in the cache
  } else {
    const int step = kind == Spread::halved ? 2 : 1;
    copy.plane = static_cast<int64_t>((size.height - 1) / step + 1) * ((size.width - 1) / step + 1);
    copy.plane = rounded(copy.plane, kernels_.lanes);
  }
  layouts_[map].copies.push_back(copy);
  return layouts_[map].copies.back();
}

void FlatPlan::lay_out() {
  const int count = static_cast<int>(steps_.steps.size()), maps = static_cast<int>(steps_.maps.size());
  std::vector<int> first(maps, 0), last(maps, 0);
  std::vector<std::vector<int>> last_of_copy(maps, std::vector<int>(3, 0));
  for (int i = 0; i < count; ++i) {
    const ModelStep& step = steps_.steps[i];
    first[step.out] = last[step.out] = i;
    if (step.residual >= 0) last[step.residual] = i;
    const ModelNode* node = step.kind == ModelStep::Kind::convolve ? &spec_.nodes[step.node] : nullptr;
    if (node == nullptr || (node->kernel == 1 && node->stride == 1)) {
      last[step.in] = i;
      continue;
    }
    const Spread kind = node->stride == 2 ? Spread::halved : spread_for(steps_.maps[step.in]);
    copy_of(step.in, kind);
    last_of_copy[step.in][static_cast<int>(kind)] = i;
  }
  for (int map = 0; map < maps; ++map) {
    const MapSize& size = steps_.maps[map];
    Layout& layout = layouts_[map];
    // The middle one of the shifted planes is the map itself.
    Copy* holder = nullptr;
    for (Copy& copy : layout.copies)
      if (copy.kind != Spread::halved) holder = &copy;
    if (holder != nullptr) {
      holder->holds_plain = true;
      int& until = last_of_copy[map][static_cast<int>(holder->kind)];
      until = std::max(until, last[map]);
      layout.plain.plane = holder->plane * holder->planes();
    } else {
      layout.plain.plane = size.flat ? 1 : rounded(size.pixels(), kernels_.lanes);
      layout.plain_buffer = static_cast<int>(buffers_.size());
      buffers_.push_back({.size = size.channels * layout.plain.plane, .first = first[map], .last = last[map]});
    }
    for (Copy& copy : layout.copies) {
      copy.buffer = static_cast<int>(buffers_.size());
      buffers_.push_back({.size = size.channels * copy.planes() * copy.plane,
                          .first = first[map],
                          .last = last_of_copy[map][static_cast<int>(copy.kind)]});
    }
  }
  for (const Buffer& buffer : buffers_) expect(buffer.size <= largest_arena, "its maps are too large");
  const int64_t length = place_buffers(buffers_, line) + flat_slack;
  expect(length <= largest_arena, "its maps are too large");
  for (Layout& layout : layouts_) {
    if (layout.plain_buffer >= 0) layout.plain.offset = buffers_[layout.plain_buffer].offset;
    for (const Copy& copy : layout.copies)
      if (copy.holds_plain)
        layout.plain.offset = buffers_[copy.buffer].offset + (copy.kind == Spread::rows ? copy.plane : 4 * copy.plane);
  }
  for (size_t map = 0; map < layouts_.size(); ++map)
    for (const Copy& copy : layouts_[map].copies)
      if (copy.holds_plain && copy.kind == Spread::rows) layouts_[map].plain.offset += steps_.maps[map].width;
  arena_ = Arena(length);
  std::fill_n(arena_.data(), length, 0.0f);
}

// In floats from where the convolution's input starts.
int64_t FlatPlan::place_of(const ModelStep& step, const Copy* copy, int input, int tap) const {
  const int kernel = spec_.nodes[step.node].kernel;
  if (copy == nullptr) return input * layouts_[step.in].plain.plane;
  if (copy->kind == Spread::rows)
    return (static_cast<int64_t>(input) * 3 + tap % 3) * copy->plane + tap / 3 * steps_.maps[step.in].width;
  return (static_cast<int64_t>(input) * 9 + (kernel == 1 ? 4 : tap)) * copy->plane;
}

void FlatPlan::build(const ModelStep& step, Convolution& convolution) {
  const ModelNode& node = spec_.nodes[step.node];
  const Weight& weight = node.weight;
  const Copy* copy = nullptr;
  if (node.stride == 2) {
    copy = &copy_of(step.in, Spread::halved);
  } else if (node.kernel == 3) {
    copy = &copy_of(step.in, spread_for(steps_.maps[step.in]));
  }
  convolution.x_offset = copy != nullptr ? buffers_[copy->buffer].offset : layouts_[step.in].plain.offset;
  int64_t unit = copy != nullptr ? copy->plane : layouts_[step.in].plain.plane;
  if (copy != nullptr && copy->kind == Spread::rows) unit = std::gcd(unit, int64_t{steps_.maps[step.in].width});
  convolution.unit = static_cast<int32_t>(unit);
  const int taps = node.kernel * node.kernel;
  const int64_t row = static_cast<int64_t>(weight.inputs) * taps;
  std::vector<uint32_t> of_row(row);  // where the input of each position of a row lies
  for (int64_t i = 0; i < row; ++i)
    of_row[i] =
        static_cast<uint32_t>(place_of(step, copy, static_cast<int>(i / taps), static_cast<int>(i % taps)) / unit);
  std::vector<uint32_t> places;
  const bool dense = weight.full || weight.values.size() >= dense_from * static_cast<double>(weight.size());
  if (dense) {
    places = of_row;
    convolution.entries = static_cast<int32_t>(row);
    convolution.weights.assign(rounded(weight.outputs, dense_outputs) * row, 0.0f);
    for (size_t i = 0; i < weight.values.size(); ++i) {
      const int64_t position = weight.full ? static_cast<int64_t>(i) : weight.positions[i];
      const int64_t output = position / row;
      convolution.weights[(output / dense_outputs * row + position % row) * dense_outputs + output % dense_outputs] =
          weight.values[i];
    }
  } else {
    places.reserve(weight.positions.size());
    convolution.starts.assign(weight.outputs + 1, 0);
    for (int32_t position : weight.positions) {
      places.push_back(of_row[position % row]);
      ++convolution.starts[position / row + 1];
    }
    std::partial_sum(convolution.starts.begin(), convolution.starts.end(), convolution.starts.begin());
    convolution.weights = weight.values;
  }
  if (of_row.back() <= std::numeric_limits<uint16_t>::max()) {  // places rise with the position in a row
    convolution.places.assign(places.begin(), places.end());
  } else {
    convolution.wide_places = std::move(places);
  }
}

void FlatPlan::run(const float* images, int64_t count, float* logits, int threads) {
  const MapSize& in = steps_.maps.front();
  const int64_t pixels = in.channels * in.pixels();
  const int64_t classes = steps_.maps.back().channels;
  if (work_ < worth_sharing) threads = 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    const int thread = omp_get_thread_num(), together = omp_get_num_threads();
    for (int64_t i = 0; i < count; ++i) {
      const float* image = images + i * pixels;
      const int first = share(in.channels, thread, together), last = share(in.channels, thread + 1, together);
      for (int channel = first; channel < last; ++channel)
        std::copy_n(image + channel * in.pixels(), in.pixels(), plain_to_write(0, channel));
      spread(0, first, last);
#pragma omp barrier
      for (size_t step = 0; step < steps_.steps.size(); ++step) {
        do_step(step, logits + i * classes, thread, together);
#pragma omp barrier
      }
    }
  }
}

void FlatPlan::do_step(size_t index, float* logits, int thread, int threads) const {
  const ModelStep& step = steps_.steps[index];
  const int channels = steps_.maps[step.out].channels;
  const int first = share(channels, thread, threads), last = share(channels, thread + 1, threads);
  switch (step.kind) {
    case ModelStep::Kind::convolve:
      return convolve(index, thread, threads);
    case ModelStep::Kind::combine:
      combine(step, first, last);
      break;
    case ModelStep::Kind::max_pool:
      max_pool(step, first, last);
      break;
    case ModelStep::Kind::average_pool:
      average_pool(step, first, last);
      break;
    case ModelStep::Kind::linear: {
      const Weight& weight = spec_.nodes[step.node].weight;
      float* y = index + 1 == steps_.steps.size() ? logits : plain_to_write(step.out, 0);
      kernels_.flat->linear({plain(step.in, 0), y, weight.values.data(), weight.bias.data(), weight.inputs}, first,
                            last);
      return;
    }
  }
  spread(step.out, first, last);
}

void FlatPlan::spread(int map, int first, int last) const {
  const MapSize& size = steps_.maps[map];
  const Layout& layout = layouts_[map];
  for (const Copy& copy : layout.copies)
    kernels_.flat->spread({.x = plain(map, 0),
                           .y = arena_.data() + buffers_[copy.buffer].offset,
                           .x_plane = layout.plain.plane,
                           .y_plane = copy.plane,
                           .height = size.height,
                           .width = size.width,
                           .kind = copy.kind,
                           .centre_is_there = copy.holds_plain},
                          first, last);
}

void FlatPlan::convolve(size_t index, int thread, int threads) const {
  const ModelStep& step = steps_.steps[index];
  const Convolution& convolution = convolutions_[index];
  const int outputs = steps_.maps[step.out].channels;
  const bool dense = convolution.starts.empty();
  // Each thread gets about the same number of entries.
  const auto border = [&](int number) {
    if (dense) {
      const int groups = (outputs + dense_outputs - 1) / dense_outputs;
      return std::min(outputs, share(groups, number, threads) * dense_outputs);
    }
    if (number == threads) return outputs;
    const int32_t wanted = share(convolution.starts.back(), number, threads);
    const auto found = std::lower_bound(convolution.starts.begin(), convolution.starts.end() - 1, wanted);
    return static_cast<int>(found - convolution.starts.begin());
  };
  const int first = border(thread), last = border(thread + 1);
  const bool narrow = convolution.wide_places.empty();
  kernels_.flat->convolve({.x = arena_.data() + convolution.x_offset,
                           .y = plain_to_write(step.out, 0),
                           .residual = step.residual >= 0 ? plain(step.residual, 0) : nullptr,
                           .bias = spec_.nodes[step.node].weight.bias.data(),
                           .weights = convolution.weights.data(),
                           .places = narrow ? convolution.places.data() : nullptr,
                           .wide_places = narrow ? nullptr : convolution.wide_places.data(),
                           .starts = dense ? nullptr : convolution.starts.data(),
                           .y_plane = layouts_[step.out].plain.plane,
                           .residual_plane = step.residual >= 0 ? layouts_[step.residual].plain.plane : 0,
                           .pixels = static_cast<int32_t>(steps_.maps[step.out].pixels()),
                           .outputs = outputs,
                           .unit = convolution.unit,
                           .entries = convolution.entries,
                           .relu = step.relu},
                          first, last);
  spread(step.out, first, last);
}

void FlatPlan::combine(const ModelStep& step, int first, int last) const {
  const int64_t pixels = steps_.maps[step.out].pixels();
  for (int channel = first; channel < last; ++channel) {
    const float* a = plain(step.in, channel);
    const float* b = step.residual >= 0 ? plain(step.residual, channel) : nullptr;
    float* y = plain_to_write(step.out, channel);
    const Weight* affine = step.node >= 0 ? &spec_.nodes[step.node].weight : nullptr;
    const float scale = affine != nullptr ? affine->values[channel] : 1.0f;
    const float shift = affine != nullptr ? affine->bias[channel] : 0.0f;
    for (int64_t i = 0; i < pixels; ++i) {
      float value = a[i] * scale + shift;
      if (b != nullptr) value += b[i];
      y[i] = step.relu && !(value > 0.0f) ? 0.0f : value;
    }
  }
}

void FlatPlan::max_pool(const ModelStep& step, int first, int last) const {
  const MapSize &in = steps_.maps[step.in], &out = steps_.maps[step.out];
  for (int channel = first; channel < last; ++channel) {
    const float* x = plain(step.in, channel);
    float* y = plain_to_write(step.out, channel);
    for (int64_t i = 0; i < out.pixels(); ++i) {
      const float* window = x + i / out.width * step.kernel * in.width + i % out.width * step.kernel;
      float best = *window;
      for (int r = 0; r < step.kernel; ++r)
        for (int c = 0; c < step.kernel; ++c) best = std::max(best, window[r * in.width + c]);
      y[i] = best;
    }
  }
}

void FlatPlan::average_pool(const ModelStep& step, int first, int last) const {
  const int64_t pixels = steps_.maps[step.in].pixels();
  for (int channel = first; channel < last; ++channel) {
    const float* x = plain(step.in, channel);
    *plain_to_write(step.out, channel) = std::accumulate(x, x + pixels, 0.0f) / static_cast<float>(pixels);
  }
}

}  // namespace sparcl
