// A compiled network for one batch size: a list of steps over one arena of memory.
//
// The compiler (src/sparcl/compiler) decides what the steps are and where in the arena everything lies; here each step
// is checked against the arena and the layers once, so that running needs no checks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine.h"

namespace sparcl {

enum class Op {
  pack,                // images -> out
  convolve,            // layer: a -> out; in inference activation(norm_a(...) + b), the norm folded into the weights
  combine,             // activation(norm_a(a) + norm_b(b)) -> out, where gradients pass -> mask
  operation,           // layer: a -> out; in inference activation(... + bias + b), if the operation has an epilogue
  unpack,              // a -> logits
  pack_gradient,       // d_logits -> out
  operation_backward,  // layer: input a, output b, gradient c -> out (-1: not wanted), gradients of its parameters
  combine_backward,    // gradient a, operand b -> out
  data_gradient,       // layer: gradient a -> out
  weight_gradient,     // layer: input a, gradient b -> the flat gradients
};

struct Map {
  int64_t offset;  // of its first pixel in the arena, in floats; one pixel before it belongs to it too
  Extent extent;
};

struct Step {
  Op op;
  int32_t layer = -1;
  int32_t a = -1, b = -1, c = -1, out = -1;  // maps
  int32_t norm_a = -1, norm_b = -1;          // norms
  int64_t mask = -1;                         // offsets in the arena
  int64_t state_a = -1, state_b = -1;        // of norms; state_a also that of an operation
  Activation activation = Activation::none;
  bool recompute = false, write_gated = false, accumulate = false;
};

struct ProgramSpec {
  int32_t images;
  int64_t arena;  // floats
  int32_t forward_steps;
  std::vector<Map> maps;
  std::vector<Step> steps;
};

// Memory for one pass: what a forward pass leaves for its backward pass lives here.
class Arena {
 public:
  explicit Arena(int64_t floats);
  float* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float, Free> data_;
  int64_t size_;
};

// The arrays a run works on.
struct Arrays {
  const float* images;    // forward
  float* logits;          // forward
  const float* d_logits;  // backward
  const float* values;
  float* gradients;
  float* statistics;
  std::unordered_map<int, float*> dense_gradients;  // by convolution
};

struct Mode {
  bool training;
  float momentum;  // negative: as each norm says
  int threads;
};

class Program {
 public:
  Program(std::shared_ptr<Engine> engine, ProgramSpec spec);

  // Takes the weights' current values into the lists that this program reads.
  void refresh(const float* values, const float* statistics, int threads);
  void forward(Arena& arena, const Arrays& arrays, const Mode& mode);
  void backward(Arena& arena, const Arrays& arrays, const Mode& mode);
  // One step alone, for benchmarks and the tuner.
  void run_step(int step, Arena& arena, const Arrays& arrays, const Mode& mode);

  // Whether the lists have ever been given weights.
  bool refreshed() const { return refreshed_; }
  const ProgramSpec& spec() const { return spec_; }
  bool has_backward() const { return spec_.forward_steps < static_cast<int32_t>(spec_.steps.size()); }
  Engine& engine() const { return *engine_; }
  const Extent& input() const;
  const Extent& output() const;

 private:
  void check(const Step& step) const;
  int threads_for(const Step& step, int available) const;
  const Map& map(int id) const;
  void check_mask(const Step& step, const Extent& extent) const;
  void check_operation(const Step& step) const;
  void check_norm(int norm, int64_t state, const Extent& extent) const;
  Norm norm(int id, int64_t state, Arena& arena, const Arrays& arrays, const Mode& mode) const;
  void run_operation(const Step& step, Arena& arena, const Arrays& arrays, const Mode& mode, int threads) const;

  std::shared_ptr<Engine> engine_;
  ProgramSpec spec_;
  Batch batch_;
  int input_ = -1, output_ = -1;
  bool refreshed_ = false;
  std::vector<std::vector<float>> folded_bias_;  // of each step
};

}  // namespace sparcl
