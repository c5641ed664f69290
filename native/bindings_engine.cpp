// The classes Engine, Program and Arena of sparcl._engine. Sizes of arrays are checked here, everything else in
// engine/.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "dispatch.h"
#include "engine/program.h"

namespace sparcl {
namespace {

using namespace nb::literals;
using ExtentTuple = std::tuple<int, int, int, int, int>;  // channels, height, width, row, plane

using SizeTuple = std::tuple<int, int, int>;  // channels, height, width

Size size_of(const SizeTuple& t) { return {std::get<0>(t), std::get<1>(t), std::get<2>(t)}; }

Extent extent_of(const ExtentTuple& t) {
  return {std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t), std::get<4>(t)};
}

// Python threads that share an engine take turns. They wait without Python's lock, for whoever has the engine needs it.
class Turn {
 public:
  explicit Turn(Engine& engine) : lock_(engine.mutex(), std::defer_lock) {
    nb::gil_scoped_release release;
    lock_.lock();
  }

 private:
  std::unique_lock<ForkAwareMutex> lock_;
};

template <class Result, class... Given>
auto in_turn(Result (Engine::*method)(Given...)) {
  return [method](Engine& self, Given... given) {
    const Turn turn(self);
    return (self.*method)(given...);
  };
}

Op op_of(const std::string& name) {
  static const std::map<std::string, Op> ops = {
      {"pack", Op::pack},
      {"convolve", Op::convolve},
      {"combine", Op::combine},
      {"operation", Op::operation},
      {"unpack", Op::unpack},
      {"pack_gradient", Op::pack_gradient},
      {"operation_backward", Op::operation_backward},
      {"combine_backward", Op::combine_backward},
      {"data_gradient", Op::data_gradient},
      {"weight_gradient", Op::weight_gradient},
  };
  const auto found = ops.find(name);
  require(found != ops.end(), "there is no such operation");
  return found->second;
}

Activation activation_of(const std::string& name) {
  for (int i = 0; i < activation_count; ++i)
    if (name == activation_names[i].name && activation_names[i].gates) return static_cast<Activation>(i);
  throw nb::value_error("there is no such activation");
}

using FloatArray = Array<float, 1>;
using DenseGradients = std::map<int, FloatArray>;

Arrays arrays_of(const Program& program, Array<const float, 1> values, FloatArray gradients, FloatArray statistics) {
  const FlatSizes sizes = program.engine().sizes();
  require(program.engine().bound(), "the layers are not bound to the parameters");
  require(static_cast<int64_t>(values.shape(0)) == sizes.values &&
              static_cast<int64_t>(gradients.shape(0)) == sizes.values &&
              static_cast<int64_t>(statistics.shape(0)) == sizes.statistics,
          "the flat arrays are not those the layers were bound to");
  return {nullptr, nullptr, nullptr, values.data(), gradients.data(), statistics.data(), {}};
}

void check_arena(const Program& program, const Arena& arena) {
  require(arena.size() >= program.spec().arena, "the arena is too small for this program");
}

void forward(Program& program, Arena& arena, Array<const float, 4> images, Array<float, 2> logits,
             Array<const float, 1> values, FloatArray gradients, FloatArray statistics, bool training, float momentum,
             int threads) {
  const Turn turn(program.engine());
  Arrays arrays = arrays_of(program, values, gradients, statistics);
  check_arena(program, arena);
  const Extent in = program.input(), out = program.output();
  require(static_cast<int>(images.shape(0)) == program.spec().images &&
              static_cast<int>(images.shape(1)) == in.channels && static_cast<int>(images.shape(2)) == in.height &&
              static_cast<int>(images.shape(3)) == in.width,
          "the images do not fit the program");
  require(logits.shape(0) == images.shape(0) && static_cast<int>(logits.shape(1)) == out.channels,
          "the logits do not fit the program");
  check_threads(threads);
  arrays.images = images.data();
  arrays.logits = logits.data();
  nb::gil_scoped_release release;
  program.refresh(arrays.values, arrays.statistics, threads);
  program.forward(arena, arrays, {training, momentum, threads});
}

void backward(Program& program, Arena& arena, Array<const float, 2> d_logits, Array<const float, 1> values,
              FloatArray gradients, FloatArray statistics, bool training, const DenseGradients& dense, int threads) {
  const Turn turn(program.engine());
  Arrays arrays = arrays_of(program, values, gradients, statistics);
  check_arena(program, arena);
  require(static_cast<int>(d_logits.shape(0)) == program.spec().images &&
              static_cast<int>(d_logits.shape(1)) == program.output().channels,
          "the gradients do not fit the program");
  check_threads(threads);
  require(program.refreshed(), "there has been no forward pass");
  for (const auto& [layer, array] : dense) {
    require(layer >= 0 && layer < program.engine().convolutions() &&
                static_cast<int64_t>(array.shape(0)) == program.engine().convolution(layer).shape().weights(),
            "a dense gradient does not fit its weight");
    arrays.dense_gradients[layer] = array.data();
  }
  arrays.d_logits = d_logits.data();
  nb::gil_scoped_release release;
  program.backward(arena, arrays, {training, 0.0f, threads});
}

// Runs the steps of one kind over and over, for benchmarks and the tuner: their inputs are whatever the arena holds.
void run_steps(Program& program, Arena& arena, const std::vector<int>& steps, Array<const float, 1> values,
               FloatArray gradients, FloatArray statistics, int threads) {
  const Turn turn(program.engine());
  const Arrays arrays = arrays_of(program, values, gradients, statistics);
  check_arena(program, arena);
  check_threads(threads);
  require(program.refreshed(), "the program has not been given its weights yet");
  for (int step : steps) {
    require(step >= 0 && step < static_cast<int>(program.spec().steps.size()), "there is no such step");
    const Op op = program.spec().steps[step].op;
    require(op != Op::pack && op != Op::unpack && op != Op::pack_gradient, "this step needs arrays from outside");
  }
  nb::gil_scoped_release release;
  for (int step : steps) program.run_step(step, arena, arrays, {true, 0.0f, threads});
}

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "Engine", "The layers of a network.")
      .def("__init__", [](Engine* self) { new (self) Engine(kernels()); })
      .def(
          "add_convolution",
          [](Engine& self, int kernel, int stride, const ExtentTuple& in, const ExtentTuple& out) {
            const Turn turn(self);
            const Extent from = extent_of(in), to = extent_of(out);
            return self.add_convolution(
                {to.channels, from.channels, kernel, stride, from, to, from.row > from.width, to.row > to.width});
          },
          "kernel"_a, "stride"_a, "input"_a, "output"_a)
      .def("add_norm", in_turn(&Engine::add_norm), "channels"_a, "normalises"_a, "epsilon"_a = 0.0f,
           "momentum"_a = 0.0f)
      .def(
          "add_operation",
          [](Engine& self, const std::string& name, const SizeTuple& in, const SizeTuple& out,
             const std::vector<int32_t>& attributes) {
            const Turn turn(self);
            return self.add_operation(name, size_of(in), size_of(out), attributes);
          },
          "name"_a, "input"_a, "output"_a, "attributes"_a)
      .def(
          "set_sizes",
          [](Engine& self, int64_t values, int64_t statistics) {
            const Turn turn(self);
            self.set_sizes({values, statistics});
          },
          "values"_a, "statistics"_a)
      .def(
          "bind_convolution",
          [](Engine& self, int layer, int64_t offset, Array<const int32_t, 1> positions,
             std::optional<Array<const int32_t, 1>> places) {
            const Turn turn(self);
            require(!places || places->shape(0) == positions.shape(0), "positions and places differ in length");
            self.bind_convolution(layer, offset, positions.data(), static_cast<int64_t>(positions.shape(0)),
                                  places ? places->data() : nullptr);
          },
          "layer"_a, "offset"_a, "positions"_a.noconvert(), "places"_a.none() = nb::none())
      .def("move_convolution", in_turn(&Engine::move_convolution), "layer"_a, "offset"_a)
      .def("bind_norm", in_turn(&Engine::bind_norm), "layer"_a, "weight"_a, "bias"_a, "mean"_a, "variance"_a)
      .def("bind_operation", in_turn(&Engine::bind_operation), "layer"_a, "weight"_a, "bias"_a, "statistics"_a)
      .def("fix_norm", in_turn(&Engine::fix_norm), "layer"_a, "fixed"_a)
      .def(
          "set_updated",
          [](Engine& self, int layer, std::optional<Array<const int32_t, 1>> chosen) {
            const Turn turn(self);
            if (chosen) {
              self.set_updated(layer, chosen->data(), static_cast<int64_t>(chosen->shape(0)));
            } else {
              self.clear_updated(layer);
            }
          },
          "layer"_a, "chosen"_a.none())
      .def(
          "set_knobs",
          [](Engine& self, int layer, std::pair<int, int> forward, std::pair<int, int> data,
             std::pair<int, bool> gradient) {
            const Turn turn(self);
            self.set_knobs(
                layer, {{forward.first, forward.second}, {data.first, data.second}, {gradient.first, gradient.second}});
          },
          "layer"_a, "forward"_a, "data"_a, "gradient"_a)
      .def(
          "knobs",
          [](Engine& self, int layer) {
            const Turn turn(self);
            require(layer >= 0 && layer < self.convolutions(), "there is no such layer");
            const Knobs k = self.convolution(layer).knobs();
            return std::make_tuple(std::make_pair(k.forward.shape, k.forward.channels),
                                   std::make_pair(k.data.shape, k.data.channels),
                                   std::make_pair(k.gradient.shape, k.gradient.over_batch));
          },
          "layer"_a)
      .def(
          "uses_winograd",
          [](Engine& self, int layer) {
            const Turn turn(self);
            require(layer >= 0 && layer < self.convolutions(), "there is no such layer");
            return self.convolution(layer).uses_winograd();
          },
          "layer"_a)
      .def(
          "refresh",
          [](Engine& self, Array<const float, 1> values, bool for_training, int threads) {
            const Turn turn(self);
            require(self.bound() && static_cast<int64_t>(values.shape(0)) == self.sizes().values,
                    "the layers are not bound to these parameters");
            check_threads(threads);
            nb::gil_scoped_release release;
            self.refresh(values.data(), for_training, threads);
          },
          "values"_a.noconvert(), "for_training"_a, "threads"_a);

  nb::class_<Arena>(module, "Arena", "Memory for one pass of a program.")
      .def(nb::init<int64_t>(), "floats"_a)
      .def_prop_ro("size", &Arena::size);

  nb::class_<Step>(module, "Step", "One step of a program.")
      .def(
          "__init__",
          [](Step* self, const std::string& op, int layer, int a, int b, int c, int out, int norm_a, int norm_b,
             int64_t mask, int64_t state_a, int64_t state_b, const std::string& activation, bool recompute,
             bool write_gated, bool accumulate) {
            new (self) Step{op_of(op), layer,       a,         b,       c,       out,
                            norm_a,    norm_b,      mask,      state_a, state_b, activation_of(activation),
                            recompute, write_gated, accumulate};
          },
          "op"_a, "layer"_a = -1, "a"_a = -1, "b"_a = -1, "c"_a = -1, "out"_a = -1, "norm_a"_a = -1, "norm_b"_a = -1,
          "mask"_a = -1, "state_a"_a = -1, "state_b"_a = -1, "activation"_a = "none", "recompute"_a = false,
          "write_gated"_a = false, "accumulate"_a = false);

  nb::class_<Program>(module, "Program", "A compiled network for one batch size.")
      .def(
          "__init__",
          [](Program* self, std::shared_ptr<Engine> engine, int images, int64_t arena, int forward_steps,
             const std::vector<std::pair<int64_t, ExtentTuple>>& maps, const std::vector<Step>& steps) {
            const Turn turn(*engine);
            ProgramSpec spec{images, arena, forward_steps, {}, steps};
            for (const auto& [offset, extent] : maps) spec.maps.push_back({offset, extent_of(extent)});
            new (self) Program(std::move(engine), std::move(spec));
          },
          "engine"_a, "images"_a, "arena"_a, "forward_steps"_a, "maps"_a, "steps"_a)
      .def("forward", &forward, "arena"_a, "images"_a.noconvert(), "logits"_a.noconvert(), "values"_a.noconvert(),
           "gradients"_a.noconvert(), "statistics"_a.noconvert(), "training"_a, "momentum"_a, "threads"_a)
      .def("backward", &backward, "arena"_a, "d_logits"_a.noconvert(), "values"_a.noconvert(),
           "gradients"_a.noconvert(), "statistics"_a.noconvert(), "training"_a, "dense_gradients"_a.noconvert(),
           "threads"_a)
      .def("run_steps", &run_steps, "arena"_a, "steps"_a, "values"_a.noconvert(), "gradients"_a.noconvert(),
           "statistics"_a.noconvert(), "threads"_a);
}

}  // namespace sparcl
