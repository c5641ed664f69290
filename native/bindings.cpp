// The Python module sparcl._engine. It checks every size and index, releases the GIL, and calls a kernel: no logic
// here.
#include "bindings.h"

#include <malloc.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "dispatch.h"
#include "parallel/usable_cores.h"

namespace nb = nanobind;
using namespace nb::literals;
using sparcl::Array;
using sparcl::require;

namespace {

int thread_count = sparcl::usable_cores();

void augment(Array<const uint8_t, 4> images, Array<const int64_t, 1> positions, Array<const int32_t, 2> shifts,
             Array<const uint8_t, 1> flips, Array<const float, 1> mean, Array<const float, 1> scale,
             Array<float, 4> output) {
  const int64_t batch = static_cast<int64_t>(positions.shape(0));
  const int64_t stored = static_cast<int64_t>(images.shape(0));
  require(output.shape(0) == positions.shape(0), "augment: output and positions differ in length");
  for (size_t d = 1; d < 4; ++d)
    require(output.shape(d) == images.shape(d), "augment: output and images differ in shape");
  require(shifts.shape(0) == positions.shape(0) && shifts.shape(1) == 2, "augment: shifts must be [batch, 2]");
  require(flips.shape(0) == positions.shape(0), "augment: flips must be [batch]");
  require(mean.shape(0) == images.shape(1) && scale.shape(0) == images.shape(1),
          "augment: one mean and scale a channel");
  // A copy: other Python threads may write to the array while the kernel reads.
  const std::vector<int64_t> checked(positions.data(), positions.data() + batch);
  for (const int64_t position : checked)
    require(position >= 0 && position < stored, "augment: a position lies outside the images");
  const sparcl::Augmentation job{images.data(),
                                 checked.data(),
                                 shifts.data(),
                                 flips.data(),
                                 mean.data(),
                                 scale.data(),
                                 output.data(),
                                 batch,
                                 static_cast<int64_t>(images.shape(1)),
                                 static_cast<int64_t>(images.shape(2)),
                                 static_cast<int64_t>(images.shape(3))};
  const int threads = thread_count;
  nb::gil_scoped_release release;
  sparcl::kernels().augment(job, threads);
}

void sgd(Array<float, 1> values, Array<float, 1> gradients, std::optional<Array<float, 1>> velocity,
         float learning_rate, float momentum, float weight_decay, std::optional<Array<const uint8_t, 1>> moves,
         bool nesterov) {
  require(values.shape(0) == gradients.shape(0), "sgd: values and gradients differ in length");
  require(!velocity || velocity->shape(0) == values.shape(0), "sgd: values and velocity differ in length");
  require(!moves || moves->shape(0) == values.shape(0), "sgd: values and moves differ in length");
  const sparcl::SgdStep step{values.data(),
                             gradients.data(),
                             velocity ? velocity->data() : nullptr,
                             moves ? moves->data() : nullptr,
                             static_cast<int64_t>(values.shape(0)),
                             learning_rate,
                             momentum,
                             weight_decay,
                             nesterov};
  const int threads = thread_count;
  nb::gil_scoped_release release;
  sparcl::kernels().sgd(step, threads);
}

uint64_t digest(Array<const float, 1> numbers) {
  return sparcl::kernels().digest(numbers.data(), static_cast<int64_t>(numbers.shape(0)));
}

void adamw(Array<float, 1> values, Array<float, 1> gradients, Array<float, 1> mean, Array<float, 1> square,
           Array<int32_t, 1> steps, std::optional<Array<const uint8_t, 1>> moves, Array<const float, 2> corrections,
           double learning_rate, double beta1, double beta2, double epsilon, double weight_decay) {
  for (const size_t length : {gradients.shape(0), mean.shape(0), square.shape(0), steps.shape(0)})
    require(length == values.shape(0), "adamw: values and what belongs to them differ in length");
  require(!moves || moves->shape(0) == values.shape(0), "adamw: values and moves differ in length");
  require(corrections.shape(0) >= 1 && corrections.shape(0) <= (1u << 30) && corrections.shape(1) == 2,
          "adamw: corrections must be [steps, 2]");
  const sparcl::AdamwStep step{values.data(),
                               gradients.data(),
                               mean.data(),
                               square.data(),
                               steps.data(),
                               moves ? moves->data() : nullptr,
                               corrections.data(),
                               static_cast<int64_t>(values.shape(0)),
                               static_cast<int64_t>(corrections.shape(0)),
                               static_cast<float>(learning_rate),
                               static_cast<float>(1.0 - learning_rate * weight_decay),
                               static_cast<float>(beta1),
                               static_cast<float>(beta2),
                               static_cast<float>(1.0 - beta1),
                               static_cast<float>(1.0 - beta2),
                               static_cast<float>(epsilon)};
  const int threads = thread_count;
  nb::gil_scoped_release release;
  sparcl::kernels().adamw(step, threads);
}

}  // namespace

NB_MODULE(_engine, module) {
#if defined(__GLIBC__)
  // Without this, glibc learns from the first large array that is freed to take later ones from its heap, from which
  // memory rarely returns to the system: tens of MB on a device that has few.
  mallopt(M_MMAP_THRESHOLD, 1 << 19);
  mallopt(M_ARENA_MAX, 1);  // nor does every thread need a heap of its own: all large memory is taken by one
#endif
  module.doc() = "The native engine of SparCL.";
  module.def(
      "instruction_set", [] { return std::string(sparcl::kernels().name); },
      "The instruction set whose kernels are in use.");
  module.def(
      "available_instruction_sets",
      [] {
        std::vector<std::string> names;
        for (auto found = sparcl::available_kernels(); *found != nullptr; ++found) names.emplace_back((*found)->name);
        return names;
      },
      "The instruction sets this processor can run, oldest first.");
  module.def("lanes", [] { return sparcl::kernels().lanes; }, "How many images a vector of the engine holds.");
  module.attr("MAX_THREADS") = sparcl::max_threads;
  nb::list tiles;
  for (const sparcl::TileShape& shape : sparcl::tile_shapes) tiles.append(nb::make_tuple(shape.rows, shape.columns));
  module.attr("TILE_SHAPES") = nb::tuple(tiles);
  module.def(
      "operations",
      [] {
        const sparcl::KernelTable& kernels = sparcl::kernels();
        std::vector<std::string> names;
        for (int i = 0; i < kernels.operation_count; ++i) names.emplace_back(kernels.operations[i]->name);
        return names;
      },
      "The names of the operations that are files of their own.");
  module.def("digest", &digest, "numbers"_a.noconvert(), "A hash that tells whether numbers have changed.");
  module.def("usable_cores", &sparcl::usable_cores,
             "Cores that this process may use: its affinity, and the CPU quota of its control group.");
  module.def("threads", [] { return thread_count; }, "How many threads a kernel uses.");
  module.def(
      "set_threads",
      [](int count) {
        sparcl::check_threads(count);
        thread_count = count;
      },
      "count"_a, "Choose how many threads a kernel uses.");
  module.def("augment", &augment, "images"_a.noconvert(), "positions"_a.noconvert(), "shifts"_a.noconvert(),
             "flips"_a.noconvert(), "mean"_a.noconvert(), "scale"_a.noconvert(), "output"_a.noconvert(),
             "Crop, flip and normalise stored uint8 images into a float32 batch.");
  module.def("sgd", &sgd, "values"_a.noconvert(), "gradients"_a.noconvert(), "velocity"_a.none().noconvert(),
             "learning_rate"_a, "momentum"_a, "weight_decay"_a, "moves"_a.none().noconvert() = nb::none(),
             "nesterov"_a = false, "One step of gradient descent in place; clears the gradients.");
  module.def("adamw", &adamw, "values"_a.noconvert(), "gradients"_a.noconvert(), "mean"_a.noconvert(),
             "square"_a.noconvert(), "steps"_a.noconvert(), "moves"_a.none().noconvert(), "corrections"_a.noconvert(),
             "learning_rate"_a, "beta1"_a, "beta2"_a, "epsilon"_a, "weight_decay"_a,
             "One step of AdamW in place; clears the gradients.");
  sparcl::bind_engine(module);
  sparcl::bind_model(module);
}
