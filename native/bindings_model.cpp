// The class Model of sparcl._engine: a model file that predicts. Sizes of arrays are checked here, the file in
// inference/.
#include "bindings.h"
#include "dispatch.h"
#include "inference/container.h"
#include "inference/model.h"
#include "inference/model_error.h"

namespace sparcl {
namespace {

using namespace nb::literals;

template <typename T>
void check_arrays(const Model& model, const Array<const T, 4>& images, const Array<float, 2>& logits, int threads) {
  const ModelNode& in = model.input();
  require(static_cast<int>(images.shape(1)) == in.channels && static_cast<int>(images.shape(2)) == in.height &&
              static_cast<int>(images.shape(3)) == in.width,
          "the images do not fit the model");
  require(logits.shape(0) == images.shape(0) && logits.shape(1) == model.spec().classes.size(),
          "the logits do not fit the model");
  check_threads(threads);
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::exception<ModelError>(module, "ModelError", PyExc_ValueError);
  nb::class_<Model>(module, "Model", "A model from a file, ready to predict.")
      .def(
          "__init__",
          [](Model* self, nb::bytes path) {  // as os.fsencode gives it: a name need not be text
            const std::string name(path.c_str(), path.size());
            nb::gil_scoped_release release;
            new (self) Model(kernels(), read_file(name));
          },
          "path"_a)
      .def_prop_ro("classes", [](const Model& self) { return self.spec().classes; })
      .def_prop_ro("precision", [](const Model& self) { return self.spec().precision; })
      .def_prop_ro("mean", [](const Model& self) { return self.spec().mean; })
      .def_prop_ro("deviation", [](const Model& self) { return self.spec().deviation; })
      .def_prop_ro("input_shape",
                   [](const Model& self) {
                     return std::make_tuple(self.input().channels, self.input().height, self.input().width);
                   })
      .def(
          "predict",
          [](Model& self, Array<const float, 4> images, Array<float, 2> logits, int threads) {
            check_arrays(self, images, logits, threads);
            nb::gil_scoped_release release;
            self.predict(images.data(), static_cast<int64_t>(images.shape(0)), logits.data(), threads);
          },
          "images"_a.noconvert(), "logits"_a.noconvert(), "threads"_a)
      .def(
          "predict_pixels",
          [](Model& self, Array<const uint8_t, 4> images, Array<float, 2> logits, int threads) {
            check_arrays(self, images, logits, threads);
            nb::gil_scoped_release release;
            self.predict_pixels(images.data(), static_cast<int64_t>(images.shape(0)), logits.data(), threads);
          },
          "images"_a.noconvert(), "logits"_a.noconvert(), "threads"_a);
}

}  // namespace sparcl
