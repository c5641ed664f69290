#include "batch_plan.h"

#include <numeric>

#include "model_error.h"

namespace sparcl {
namespace {

constexpr size_t max_programs = 4;  // each keeps its memory

// Planes of an odd number of half kilobytes: neighbouring channels start at different places in the cache.
Extent extent_of(const MapSize& size, bool bare) {
  if (size.flat) return {size.channels, 1, 1, 1, 1};
  if (bare) return {size.channels, size.height, size.width, size.width, size.height * size.width};
  const int32_t row = size.width + 1;
  int32_t plane = size.height * row;
  if (plane >= 256) plane += (8 - plane % 16 + 16) % 16;
  return {size.channels, size.height, size.width, row, plane};
}

}  // namespace

BatchPlan::BatchPlan(const KernelTable& kernels, const ModelSpec& spec, const ModelSteps& steps)
    : spec_(spec), steps_(steps), lanes_(kernels.lanes), engine_(std::make_shared<Engine>(kernels)) {
  find_extents();
  add_layers();
}

// Maps of 4x4 do without zeros around them, which saves a third of their multiplications, unless a convolution of
// stride 2 needs the zeros. Maps that are added to one another have the same extent.
void BatchPlan::find_extents() {
  const size_t maps = steps_.maps.size();
  std::vector<bool> bare(maps);
  for (size_t map = 0; map < maps; ++map)
    bare[map] = !steps_.maps[map].flat && steps_.maps[map].height == 4 && steps_.maps[map].width == 4;
  for (const ModelStep& step : steps_.steps) {
    if (step.kind != ModelStep::Kind::convolve) continue;
    const ModelNode& node = spec_.nodes[step.node];
    if (node.kernel != 3 || node.stride != 2) continue;
    bare[step.in] = false;
    if (steps_.maps[step.in].height != 8 || steps_.maps[step.in].width != 8) bare[step.out] = false;
  }
  for (bool changed = true; changed;) {
    changed = false;
    const auto join = [&](int a, int b) {
      if (b < 0 || bare[a] == bare[b]) return;
      bare[a] = bare[b] = false;
      changed = true;
    };
    for (const ModelStep& step : steps_.steps) {
      join(step.out, step.residual);
      if (step.kind == ModelStep::Kind::combine) join(step.out, step.in);
    }
  }
  for (size_t map = 0; map < maps; ++map) extents_.push_back(extent_of(steps_.maps[map], bare[map]));
}

void BatchPlan::add_layers() {
  layers_.assign(steps_.steps.size(), -1);
  norms_ = layers_;
  struct Bound {
    int64_t weight, bias;
  };
  std::vector<Bound> bound(steps_.steps.size());
  const auto put = [&](const std::vector<float>& numbers) {
    values_.insert(values_.end(), numbers.begin(), numbers.end());
    return static_cast<int64_t>(values_.size() - numbers.size());
  };
  for (size_t i = 0; i < steps_.steps.size(); ++i) {
    const ModelStep& step = steps_.steps[i];
    if (step.node < 0) continue;
    const ModelNode& node = spec_.nodes[step.node];
    const Extent in = extents_[step.in], out = extents_[step.out];
    if (step.kind == ModelStep::Kind::convolve) {
      layers_[i] = engine_->add_convolution(
          {out.channels, in.channels, node.kernel, node.stride, in, out, in.row > in.width, out.row > out.width});
      norms_[i] = engine_->add_norm(out.channels, false, 0.0f, 0.0f);
    } else if (step.kind == ModelStep::Kind::operation) {
      std::vector<int32_t> attributes;
      for (int k = 0; k < max_attributes && node.operation->attributes[k] != nullptr; ++k)
        attributes.push_back(step.attributes[k]);
      layers_[i] = engine_->add_operation(node.operation->name, steps_.maps[step.in].size(),
                                          steps_.maps[step.out].size(), attributes);
    } else {
      norms_[i] = engine_->add_norm(out.channels, true, 0.0f, 0.0f);
      statistics_.resize(std::max(statistics_.size(), static_cast<size_t>(2 * out.channels)));
    }
    bound[i] = {put(node.weight.values), put(node.weight.bias)};
  }
  // An affine step is a normalisation with mean 0 and variance 1.
  std::fill(statistics_.begin() + static_cast<int64_t>(statistics_.size() / 2), statistics_.end(), 1.0f);
  engine_->set_sizes({static_cast<int64_t>(values_.size()), static_cast<int64_t>(statistics_.size())});
  for (size_t i = 0; i < steps_.steps.size(); ++i) {
    const ModelStep& step = steps_.steps[i];
    if (step.node < 0) continue;
    const Weight& weight = spec_.nodes[step.node].weight;
    if (step.kind == ModelStep::Kind::convolve) {
      std::vector<int32_t> all;
      if (weight.full) {
        all.resize(weight.values.size());
        std::iota(all.begin(), all.end(), 0);
      }
      const std::vector<int32_t>& positions = weight.full ? all : weight.positions;
      engine_->bind_convolution(layers_[i], bound[i].weight, positions.data(), static_cast<int64_t>(positions.size()),
                                nullptr);
      engine_->bind_norm(norms_[i], -1, bound[i].bias, -1, -1);
    } else if (step.kind == ModelStep::Kind::operation) {
      const bool weighs = weight.size() > 0;
      engine_->bind_operation(layers_[i], weighs ? bound[i].weight : -1, weighs ? bound[i].bias : -1, -1);
    } else {
      engine_->bind_norm(norms_[i], bound[i].weight, bound[i].bias, 0, static_cast<int64_t>(statistics_.size() / 2));
    }
  }
}

BatchPlan::Compiled BatchPlan::compile(int images) const {
  const int blocks = (images + lanes_ - 1) / lanes_;
  ProgramSpec spec{};
  spec.images = images;
  std::vector<StepBuffer> buffers;
  for (const Extent& extent : extents_)
    buffers.push_back({.size = lanes_ + blocks * extent.block() * lanes_, .first = 0, .last = 0});
  const int last = static_cast<int>(extents_.size()) - 1;
  spec.steps.push_back({.op = Op::pack, .out = 0});
  for (size_t i = 0; i < steps_.steps.size(); ++i) {
    const ModelStep& from = steps_.steps[i];
    static constexpr Op ops[] = {Op::convolve, Op::combine, Op::operation};
    Step step{.op = ops[static_cast<int>(from.kind)]};
    step.layer = layers_[i];
    step.a = from.in;
    step.b = from.residual;
    step.out = from.out;
    step.norm_a = norms_[i];
    step.activation = from.activation;
    if (from.kind == ModelStep::Kind::combine && norms_[i] >= 0) {  // the scale and shift it works with
      step.state_a = static_cast<int64_t>(buffers.size());          // for now: which buffer
      buffers.push_back({.size = 4 * extents_[from.out].channels, .first = 0, .last = 0});
    }
    spec.steps.push_back(step);
  }
  spec.steps.push_back({.op = Op::unpack, .a = last});
  for (int number = 0; number < static_cast<int>(spec.steps.size()); ++number) {
    const Step& step = spec.steps[number];
    if (step.out >= 0) {
      StepBuffer& out = buffers[step.out];
      if (out.last == 0) out.first = number;  // of maps that are put side by side there are several steps
      out.last = number;
    }
    if (step.state_a >= 0) buffers[step.state_a].first = buffers[step.state_a].last = number;
    for (int map : {step.a, step.b})
      if (map >= 0) buffers[map].last = number;
  }
  spec.arena = place_buffers(buffers, lanes_);
  for (Step& step : spec.steps)
    if (step.state_a >= 0) step.state_a = buffers[step.state_a].offset;
  for (size_t map = 0; map < extents_.size(); ++map) spec.maps.push_back({buffers[map].offset + lanes_, extents_[map]});
  spec.forward_steps = static_cast<int32_t>(spec.steps.size());
  const int64_t arena = spec.arena;
  return {std::make_unique<Program>(engine_, std::move(spec)), std::make_unique<Arena>(arena)};
}

BatchPlan::Compiled& BatchPlan::compiled(int images, int threads) {
  const auto found = programs_.find(images);
  if (found != programs_.end()) return found->second;
  if (programs_.size() >= max_programs) programs_.clear();
  Compiled made = compile(images);
  made.program->refresh(values_.data(), statistics_.data(), threads);
  return programs_[images] = std::move(made);
}

void BatchPlan::run(const float* images, int count, float* logits, int threads) {
  Compiled& found = compiled(count, threads);
  Arrays arrays{};
  arrays.images = images;
  arrays.logits = logits;
  arrays.values = values_.data();
  arrays.statistics = statistics_.data();
  arrays.gradients = values_.data();  // not touched by a forward pass
  found.program->forward(*found.arena, arrays, {false, 0.0f, threads});
}

}  // namespace sparcl
