#include "program.h"

#include <cmath>
#include <cstdlib>
#include <new>
#include <stdexcept>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "on_threads.h"

namespace sparcl {
namespace {

constexpr size_t cache_line = 64;
// Neighbouring channels of a map lie many kilobytes apart, and a tile visits all of them: with pages of 4 KB the
// processor looks up addresses all the time.
constexpr size_t huge_page = size_t{2} << 20;

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

bool same(const Extent& a, const Extent& b) {
  return a.channels == b.channels && a.height == b.height && a.width == b.width && a.row == b.row && a.plane == b.plane;
}

}  // namespace

Arena::Arena(int64_t floats) : size_(floats) {
  require(floats >= 0 && floats < (int64_t{1} << 40), "an arena of this size makes no sense");
  const size_t needed = static_cast<size_t>(floats) * sizeof(float) + cache_line;
  const size_t unit = needed >= huge_page ? huge_page : cache_line;
  const size_t bytes = (needed + unit - 1) / unit * unit;
  data_.reset(static_cast<float*>(std::aligned_alloc(unit, bytes)));
  if (data_ == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (unit == huge_page) madvise(data_.get(), bytes, MADV_HUGEPAGE);  // a wish: without it everything works as well
#endif
}

void Arena::Free::operator()(float* p) const { std::free(p); }

Program::Program(std::shared_ptr<Engine> engine, ProgramSpec spec)
    : engine_(std::move(engine)), spec_(std::move(spec)) {
  const int lanes = engine_->kernels().lanes;
  require(spec_.images > 0 && spec_.images < (1 << 24), "a batch needs images");
  require(spec_.arena > 0 && spec_.arena < (int64_t{1} << 40), "an arena of this size makes no sense");
  batch_ = {spec_.images, (spec_.images + lanes - 1) / lanes};
  for (const Map& m : spec_.maps) {
    const Extent& e = m.extent;
    check_extent(e, lanes);
    // At most 2^31 floats a block and 2^24 blocks: no overflow.
    const int64_t floats = static_cast<int64_t>(batch_.blocks) * e.channels * e.plane * lanes;
    require(m.offset >= lanes && m.offset % lanes == 0 && m.offset <= spec_.arena && floats <= spec_.arena - m.offset,
            "a map lies outside of the arena");
  }
  require(spec_.forward_steps >= 0 && spec_.forward_steps <= static_cast<int32_t>(spec_.steps.size()),
          "there are fewer steps than forward steps");
  for (size_t i = 0; i < spec_.steps.size(); ++i) {
    const Step& step = spec_.steps[i];
    check(step);
    const bool forward = static_cast<int32_t>(i) < spec_.forward_steps;
    if (step.op == Op::pack || step.op == Op::unpack) {
      require(forward, "images and logits belong to the forward pass");
      int& end = step.op == Op::pack ? input_ : output_;
      const int id = step.op == Op::pack ? step.out : step.a;
      require(end < 0 || same(map(end).extent, map(id).extent), "a program has one input and one output");
      end = id;
    } else if (step.op == Op::pack_gradient) {
      require(!forward, "gradients of logits belong to the backward pass");
    }
  }
  require(input_ >= 0 && output_ >= 0, "a program needs an input and an output");
  require(output().height == 1 && output().width == 1, "logits have one number a class");
  std::vector<bool> used(engine_->convolutions(), false);
  for (const Step& step : spec_.steps) {
    if (step.op != Op::convolve || has_backward()) continue;
    require(!used[step.layer], "norms can be folded into a convolution only once");
    used[step.layer] = true;
  }
  for (const Step& step : spec_.steps)
    if (step.op == Op::pack_gradient) require(same(map(step.out).extent, output()), "gradients do not fit the output");
}

const Map& Program::map(int id) const {
  require(id >= 0 && id < static_cast<int>(spec_.maps.size()), "a step uses a map that does not exist");
  return spec_.maps[id];
}

const Extent& Program::input() const { return spec_.maps[input_].extent; }
const Extent& Program::output() const { return spec_.maps[output_].extent; }

void Program::check_mask(const Step& step, const Extent& extent) const {
  if (step.mask < 0) return;
  const int64_t count = static_cast<int64_t>(batch_.blocks) * extent.channels * extent.height * extent.width;
  require(step.mask <= spec_.arena && (count + 1) / 2 <= spec_.arena - step.mask,
          "the mask of a step lies outside of the arena");
}

void Program::check_norm(int id, int64_t state, const Extent& extent) const {
  if (id < 0) return;
  const NormLayer& norm = engine_->norm(id);
  require(norm.channels == extent.channels, "a norm does not fit its map");
  if (norm.normalises)
    require(state >= 0 && state <= spec_.arena && 4 * static_cast<int64_t>(norm.channels) <= spec_.arena - state,
            "the state of a norm lies outside of the arena");
}

void Program::check(const Step& step) const {
  for (int32_t id : {step.a, step.b, step.c, step.out})
    if (id >= 0) map(id);
  switch (step.op) {
    case Op::pack:
    case Op::pack_gradient:
      map(step.out);
      break;
    case Op::unpack:
      map(step.a);
      break;
    case Op::convolve:
    case Op::data_gradient:
    case Op::weight_gradient: {
      const ConvolutionShape& shape = engine_->convolution(step.layer).shape();
      const int in = step.op == Op::data_gradient ? step.out : step.a;
      const int out = step.op == Op::convolve ? step.out : step.op == Op::data_gradient ? step.a : step.b;
      require(same(map(in).extent, shape.in) && same(map(out).extent, shape.out),
              "a convolution does not fit its maps");
      if (step.op == Op::convolve) {
        require(step.b < 0 || same(map(step.b).extent, shape.out), "a residual does not fit its convolution");
        require(step.norm_a < 0 || engine_->norm(step.norm_a).channels == shape.outputs,
                "a norm does not fit its convolution");
        require(step.norm_a >= 0 || (step.b < 0 && step.activation == Activation::none),
                "a convolution without a norm has no epilogue");
        require(step.norm_a < 0 || !has_backward(), "norms are folded into convolutions only in inference");
      }
      break;
    }
    case Op::combine: {
      const Extent& extent = map(step.out).extent;
      require(same(map(step.a).extent, extent) && (step.b < 0 || same(map(step.b).extent, extent)),
              "the maps that are combined differ");
      check_norm(step.norm_a, step.state_a, extent);
      check_norm(step.norm_b, step.state_b, extent);
      check_mask(step, extent);
      break;
    }
    case Op::combine_backward: {
      const Extent& extent = map(step.a).extent;
      require(same(map(step.out).extent, extent), "a gradient does not fit its map");
      if (step.norm_a >= 0 && engine_->norm(step.norm_a).normalises)
        require(same(map(step.b).extent, extent), "a gradient does not fit its operand");
      check_norm(step.norm_a, step.state_a, extent);
      check_mask(step, extent);
      break;
    }
    case Op::operation:
    case Op::operation_backward:
      check_operation(step);
      break;
  }
}

void Program::check_operation(const Step& step) const {
  const OperationLayer& layer = engine_->operation(step.layer);
  const Operation& operation = *layer.operation;
  const auto fits = [&](int id, const Size& size) {
    const Extent& extent = map(id).extent;
    return extent.channels == size.channels && extent.height == size.height && extent.width == size.width;
  };
  if (operation.state > 0)
    require(step.state_a >= 0 && step.state_a <= spec_.arena && operation.state <= spec_.arena - step.state_a,
            "the state of an operation lies outside of the arena");
  if (step.op == Op::operation) {
    require(fits(step.a, layer.in) && fits(step.out, layer.out), "an operation does not fit its maps");
    require(step.b < 0 || (operation.epilogue && same(map(step.b).extent, map(step.out).extent)),
            "a residual does not fit its operation");
    require(step.activation == Activation::none || operation.epilogue, "an operation has no activation");
    return;
  }
  require(operation.backward != nullptr, "an operation has no backward pass");
  require(fits(step.c, layer.out) && (step.out < 0 || fits(step.out, layer.in)),
          "an operation's gradients do not fit its maps");
  require(step.a < 0 ? !operation.reads_input : fits(step.a, layer.in), "an operation needs its input");
  require(step.b < 0 ? !operation.reads_output : same(map(step.b).extent, map(step.c).extent),
          "an operation needs its output");
  require(step.out >= 0 || (layer.weights > 0 && step.a >= 0), "a backward pass has nothing to do");
  require(step.a < 0 || step.out < 0 || same(map(step.a).extent, map(step.out).extent),
          "an operation's gradient does not fit its input");
}

Norm Program::norm(int id, int64_t state, Arena& arena, const Arrays& arrays, const Mode& mode) const {
  Norm result{};
  if (id < 0) return result;
  const NormLayer& layer = engine_->norm(id);
  result.bias = arrays.values + layer.bias;
  result.d_bias = arrays.gradients + layer.bias;
  if (layer.normalises) {
    result.weight = arrays.values + layer.weight;
    result.d_weight = arrays.gradients + layer.weight;
    result.running_mean = arrays.statistics + layer.mean;
    result.running_var = arrays.statistics + layer.variance;
    result.state = arena.data() + state;
    result.epsilon = layer.epsilon;
    result.momentum = mode.momentum < 0.0f ? layer.momentum : mode.momentum;
    result.fixed = layer.fixed;
  }
  return result;
}

void Program::refresh(const float* values, const float* statistics, int threads) {
  if (has_backward()) {
    engine_->refresh(values, true, threads);
    refreshed_ = true;
    return;
  }
  folded_bias_.resize(spec_.steps.size());
  on_threads(static_cast<int>(spec_.steps.size()), threads, [&](int i) {
    const Step& step = spec_.steps[i];
    if (step.op != Op::convolve) return;
    ConvolutionLayer& layer = engine_->convolution(step.layer);
    const float* weights = values + engine_->offset(step.layer);
    std::vector<float> scale(layer.shape().outputs, 1.0f);
    if (step.norm_a >= 0) {
      const NormLayer& norm = engine_->norm(step.norm_a);
      folded_bias_[i].resize(norm.channels);
      for (int c = 0; c < norm.channels; ++c) {
        folded_bias_[i][c] = values[norm.bias + c];
        if (!norm.normalises) continue;
        scale[c] = values[norm.weight + c] / std::sqrt(statistics[norm.variance + c] + norm.epsilon);
        folded_bias_[i][c] -= statistics[norm.mean + c] * scale[c];
      }
    }
    layer.refresh_scaled(weights, scale);
  });
  refreshed_ = true;
}

void Program::forward(Arena& arena, const Arrays& arrays, const Mode& mode) {
  for (int i = 0; i < spec_.forward_steps; ++i) run_step(i, arena, arrays, mode);
}

void Program::backward(Arena& arena, const Arrays& arrays, const Mode& mode) {
  for (int i = spec_.forward_steps; i < static_cast<int>(spec_.steps.size()); ++i) run_step(i, arena, arrays, mode);
}

// Waking threads takes some microseconds; a step of fewer vector operations than this is done sooner by one thread.
constexpr int64_t worth_sharing = 20000;

int Program::threads_for(const Step& step, int available) const {
  const Extent& extent = spec_.maps[step.out >= 0 ? step.out : step.a].extent;
  int64_t vectors = static_cast<int64_t>(batch_.blocks) * extent.height * extent.width;
  if (step.op == Op::convolve || step.op == Op::data_gradient || step.op == Op::weight_gradient) {
    vectors *= engine_->convolution(step.layer).active();
  } else if ((step.op == Op::operation || step.op == Op::operation_backward) &&
             engine_->operation(step.layer).weights > 0) {
    vectors *= engine_->operation(step.layer).weights;
  } else {
    vectors *= extent.channels;
  }
  return vectors < worth_sharing ? 1 : available;
}

void Program::run_step(int index, Arena& arena, const Arrays& arrays, const Mode& mode) {
  const Step& step = spec_.steps[index];
  const KernelTable& kernels = engine_->kernels();
  const int threads = threads_for(step, mode.threads);
  const auto data = [&](int id) { return id < 0 ? nullptr : arena.data() + spec_.maps[id].offset; };
  const auto extent = [&](int id) { return spec_.maps[id].extent; };
  const auto mask = [&] { return step.mask < 0 ? nullptr : reinterpret_cast<uint16_t*>(arena.data() + step.mask); };
  switch (step.op) {
    case Op::pack:
      kernels.pack({arrays.images, nullptr, data(step.out), extent(step.out), batch_}, threads);
      break;
    case Op::pack_gradient:
      kernels.pack({arrays.d_logits, nullptr, data(step.out), extent(step.out), batch_}, threads);
      break;
    case Op::unpack:
      kernels.unpack({nullptr, arrays.logits, data(step.a), extent(step.a), batch_}, threads);
      break;
    case Op::convolve: {
      ConvolutionLayer& layer = engine_->convolution(step.layer);
      // A prediction since the forward pass has left weights with its norms folded in.
      if (step.recompute && !layer.uses_winograd()) layer.refresh(arrays.values + engine_->offset(step.layer), false);
      layer.forward(kernels, data(step.a), data(step.out), batch_,
                    {step.norm_a < 0 ? nullptr : folded_bias_[index].data(), data(step.b), step.activation},
                    engine_->scratch(), threads);
      break;
    }
    case Op::data_gradient:
      engine_->convolution(step.layer)
          .data_gradient(kernels, data(step.a), data(step.out), batch_, step.accumulate, engine_->scratch(), threads);
      break;
    case Op::weight_gradient: {
      ConvolutionLayer& layer = engine_->convolution(step.layer);
      float* gradients = arrays.gradients + engine_->offset(step.layer);
      const auto dense = arrays.dense_gradients.find(step.layer);
      if (dense == arrays.dense_gradients.end()) {
        layer.weight_gradient(kernels, data(step.a), data(step.b), gradients, batch_, engine_->scratch(), threads);
      } else {
        layer.dense_weight_gradient(kernels, data(step.a), data(step.b), gradients, dense->second, batch_,
                                    engine_->scratch(), threads);
      }
      break;
    }
    case Op::combine:
      kernels.combine({.a = data(step.a),
                       .b = data(step.b),
                       .out = data(step.out),
                       .mask = mask(),
                       .norm_a = norm(step.norm_a, step.state_a, arena, arrays, mode),
                       .norm_b = norm(step.norm_b, step.state_b, arena, arrays, mode),
                       .extent = extent(step.out),
                       .batch = batch_,
                       .activation = step.activation,
                       .recompute = step.recompute,
                       .training = mode.training},
                      threads);
      break;
    case Op::combine_backward:
      kernels.combine_backward({.d_out = data(step.a),
                                .operand = data(step.b),
                                .d_operand = data(step.out),
                                .mask = mask(),
                                .write_gated = step.write_gated,
                                .accumulate = step.accumulate,
                                .norm = norm(step.norm_a, step.state_a, arena, arrays, mode),
                                .extent = extent(step.a),
                                .batch = batch_,
                                .training = mode.training},
                               threads);
      break;
    case Op::operation:
    case Op::operation_backward:
      run_operation(step, arena, arrays, mode, threads);
      break;
  }
}

void Program::run_operation(const Step& step, Arena& arena, const Arrays& arrays, const Mode& mode, int threads) const {
  const OperationLayer& layer = engine_->operation(step.layer);
  const auto data = [&](int id) { return id < 0 ? nullptr : arena.data() + spec_.maps[id].offset; };
  const bool forward = step.op == Op::operation;
  const int in = forward || step.out < 0 ? step.a : step.out, out = forward ? step.out : step.c;
  OperationCall call{};
  call.x = data(step.a);
  if (forward) {
    call.y = data(step.out);
    call.residual = data(step.b);
  } else {
    call.y = data(step.b);
    call.dy = data(step.c);
    call.dx = data(step.out);
  }
  if (layer.weight >= 0) {
    call.weight = arrays.values + layer.weight;
    call.d_weight = arrays.gradients + layer.weight;
  }
  if (layer.bias >= 0) {
    call.bias = arrays.values + layer.bias;
    call.d_bias = arrays.gradients + layer.bias;
  }
  if (layer.statistics >= 0) call.statistics = arrays.statistics + layer.statistics;
  if (layer.operation->state > 0) call.state = arena.data() + step.state_a;
  call.activation = step.activation;
  call.in = &spec_.maps[in].extent;
  call.out = &spec_.maps[out].extent;
  call.batch = &batch_;
  call.attributes = layer.attributes.data();
  call.training = mode.training;
  call.momentum = mode.momentum;
  (forward ? layer.operation->forward : layer.operation->backward)(call, threads);
}

}  // namespace sparcl
