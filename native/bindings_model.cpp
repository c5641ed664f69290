// The class Model of sparcl._engine: a network or a model file that predicts. Sizes of arrays are checked here, the
// file in inference/.
#include <nanobind/stl/unique_ptr.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  require(logits.shape(0) == images.shape(0) && static_cast<int64_t>(logits.shape(1)) == model.outputs(),
          "the logits do not fit the model");
  check_threads(threads);
}

using FloatArray = Array<const float, 1>;

// A node of a network in memory, as it predicts.
struct PythonNode {
  ModelNode node;
  std::optional<Weight> weight;
};

PythonNode node_of(const std::string& name, const std::string& op, std::vector<int> inputs,
                   const std::vector<int>& shape, const std::map<std::string, int>& attributes,
                   std::optional<FloatArray> values, std::optional<Array<const int32_t, 1>> positions,
                   std::optional<FloatArray> bias) {
  PythonNode result;
  ModelNode& node = result.node;
  node.name = name;
  set_operation(node, op, kernels());
  node.inputs = std::move(inputs);
  require(shape.size() == 1 || shape.size() == 3, "a shape has one number or three");
  node.flat = shape.size() == 1;
  node.channels = shape[0];
  if (!node.flat) node.height = shape[1], node.width = shape[2];
  const auto attribute = [&](const char* key) {
    const auto found = attributes.find(key);
    require(found != attributes.end() && found->second >= 0 && found->second <= max_side,
            "an attribute of a node is missing or out of range");
    return found->second;
  };
  if (node.kind == NodeKind::conv) node.kernel = attribute("kernel"), node.stride = attribute("stride");
  if (node.operation != nullptr && !node.operation->joins)
    for (int i = 0; i < max_attributes && node.operation->attributes[i] != nullptr; ++i)
      node.attributes[i] = attribute(node.operation->attributes[i]);
  if (!values) return result;
  require(bias.has_value(), "a weight needs a bias");
  Weight& weight = result.weight.emplace();
  weight.values.assign(values->data(), values->data() + values->shape(0));
  weight.bias.assign(bias->data(), bias->data() + bias->shape(0));
  weight.full = !positions.has_value();
  if (positions) weight.positions.assign(positions->data(), positions->data() + positions->shape(0));
  return result;
}

// Moves the numbers of the nodes into the model.
std::vector<ModelNode> graph_of(std::vector<PythonNode>& nodes) {
  ModelGraph graph;
  for (PythonNode& each : nodes) {
    graph.add(each.node);
    if (each.weight) graph.set_weight(std::move(*each.weight), false);
  }
  graph.finish();
  return graph.take();
}

std::vector<std::map<std::string, std::string>> described(const Model& model) {
  const ModelSteps& steps = model.steps();
  static constexpr const char* kinds[] = {"convolve", "combine", "operation"};
  std::vector<std::map<std::string, std::string>> result;
  for (const ModelStep& step : steps.steps) {
    const bool named = step.node >= 0;
    const ModelNode* node = named ? &model.spec().nodes[step.node] : nullptr;
    std::map<std::string, std::string> entry{{"op", kinds[static_cast<int>(step.kind)]},
                                             {"node", named ? node->name : ""},
                                             {"activation", activation_names[static_cast<int>(step.activation)].name},
                                             {"in", std::to_string(step.in)},
                                             {"residual", step.residual < 0 ? "" : std::to_string(step.residual)},
                                             {"out", std::to_string(step.out)}};
    if (step.kind == ModelStep::Kind::operation) entry["op"] = node->operation->name;
    const MapSize& map = steps.maps[step.out];
    entry["shape"] = std::to_string(map.channels);
    if (!map.flat) entry["shape"] += "x" + std::to_string(map.height) + "x" + std::to_string(map.width);
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::exception<ModelError>(module, "ModelError", PyExc_ValueError);
  nb::class_<PythonNode>(module, "Node", "A node of a graph that predicts, with its numbers.")
      .def(
          "__init__",
          [](PythonNode* self, const std::string& name, const std::string& op, std::vector<int> inputs,
             const std::vector<int>& shape, const std::map<std::string, int>& attributes,
             std::optional<FloatArray> values, std::optional<Array<const int32_t, 1>> positions,
             std::optional<FloatArray> bias) {
            new (self) PythonNode(node_of(name, op, std::move(inputs), shape, attributes, values, positions, bias));
          },
          "name"_a, "op"_a, "inputs"_a, "shape"_a, "attributes"_a, "values"_a.none().noconvert() = nb::none(),
          "positions"_a.none().noconvert() = nb::none(), "bias"_a.none().noconvert() = nb::none());
  nb::class_<Model>(module, "Model", "A model from a file, ready to predict.")
      .def(
          "__init__",
          [](Model* self, nb::bytes path) {  // as os.fsencode gives it: a name need not be text
            const std::string name(path.c_str(), path.size());
            nb::gil_scoped_release release;
            new (self) Model(kernels(), read_file(name));
          },
          "path"_a)
      .def_static(
          "from_nodes",
          [](std::vector<PythonNode> nodes) {
            nb::gil_scoped_release release;
            return std::make_unique<Model>(kernels(), graph_of(nodes));
          },
          "nodes"_a, "A network in memory, ready to predict.")
      .def_prop_ro("steps", &described, "What is done for an image, step by step.")
      .def_prop_ro("outputs", &Model::outputs)
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
