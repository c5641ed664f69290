#include "model_graph.h"

#include <cmath>
#include <utility>

#include "../engine/engine.h"
#include "model_error.h"

namespace sparcl {
namespace {

constexpr size_t max_nodes = 4096;
constexpr int64_t max_map = int64_t{1} << 26;     // floats
constexpr int64_t max_weight = int64_t{1} << 27;  // positions

bool same_shape(const ModelNode& a, const ModelNode& b) {
  return a.channels == b.channels && a.height == b.height && a.width == b.width && a.flat == b.flat;
}

void check_shape(const ModelNode& node) {
  expect(node.channels >= 1 && node.channels <= max_channels && node.height >= 1 && node.height <= max_side &&
             node.width >= 1 && node.width <= max_side && (!node.flat || (node.height == 1 && node.width == 1)),
         node.name + " has an impossible shape");
  // The engine needs room for zeros around it, too: of a very narrow map, as many again.
  const int64_t plane = static_cast<int64_t>(node.height) * (node.width + 1) + 16;
  expect(node.floats() <= max_map && node.channels * plane < 2 * max_map, node.name + " makes maps that are too large");
}

void check_finite(const std::vector<float>& values, const std::string& name) {
  bool finite = true;
  for (float value : values) finite &= std::isfinite(value);
  expect(finite, name + " holds a number that is not finite");
}

}  // namespace

void set_operation(ModelNode& node, const std::string& name, const KernelTable& kernels) {
  if (name == "input") return;
  if (name == "conv") node.kind = NodeKind::conv;
  if (name == "affine") node.kind = NodeKind::affine;
  if (name == "add") node.kind = NodeKind::add;
  for (int i = 1; i < activation_count; ++i) {
    if (name != activation_names[i].name) continue;
    node.kind = NodeKind::activation;
    node.activation = static_cast<Activation>(i);
  }
  if (node.kind != NodeKind::input) return;
  node.operation = find_operation(kernels, name);
  expect(node.operation != nullptr && node.operation->flat != nullptr,
         "its graph has the unknown operation '" + name.substr(0, 40) + "'");
  node.kind = NodeKind::operation;
}

int ModelGraph::find(const std::string& name) const {
  const auto found = known_.find(name);
  return found == known_.end() ? -1 : found->second;
}

void ModelGraph::add(ModelNode node) {
  expect(nodes_.size() < max_nodes, "its graph has too many nodes");
  expect((node.kind == NodeKind::input) == nodes_.empty(), "its graph must have one input, at its start");
  const size_t wanted = node.kind == NodeKind::input ? 0 : node.kind == NodeKind::add ? 2 : 1;
  const bool joins = node.operation != nullptr && node.operation->joins;
  expect(joins ? !node.inputs.empty() : node.inputs.size() == wanted, node.name + " has the wrong number of inputs");
  for (int input : node.inputs) {
    expect(input >= 0 && input < static_cast<int>(nodes_.size()),
           node.name + " uses a node that does not come before it");
    read_[input] = true;
  }
  check_shape(node);
  const bool fits = node.kind == NodeKind::input ? !node.flat : shape_follows(node, nodes_[node.inputs[0]]);
  expect(fits, node.name + " does not fit its input");
  expect(known_.emplace(node.name, static_cast<int>(nodes_.size())).second, "two nodes are called " + node.name);
  nodes_.push_back(std::move(node));
  read_.push_back(false);
}

bool ModelGraph::shape_follows(ModelNode& node, const ModelNode& from) const {
  const auto halved = [&](int32_t size) { return (size - 1) / node.stride + 1; };
  switch (node.kind) {
    case NodeKind::conv:
      expect((node.kernel == 1 || node.kernel == 3) && (node.stride == 1 || node.stride == 2),
             node.name + " is a convolution of an unknown kind");
      node.weight.outputs = node.channels;
      node.weight.inputs = from.channels;
      node.weight.kernel = node.kernel;
      node.weight.positions_in_all = static_cast<int64_t>(node.channels) * from.channels * node.kernel * node.kernel;
      expect(node.weight.size() <= max_weight, node.name + " has too many weights");
      return !from.flat && !node.flat && node.height == halved(from.height) && node.width == halved(from.width);
    case NodeKind::affine:
      node.weight.outputs = node.channels;
      node.weight.positions_in_all = node.channels;
      return same_shape(node, from);
    case NodeKind::activation:
      return same_shape(node, from);
    case NodeKind::add:
      return same_shape(node, from) && same_shape(node, nodes_[node.inputs[1]]);
    case NodeKind::operation:
      return operation_fits(node, from);
    case NodeKind::input:
      break;
  }
  return false;
}

bool ModelGraph::operation_fits(ModelNode& node, const ModelNode& from) const {
  const Operation& operation = *node.operation;
  if (operation.joins) {  // every part is checked when its step is made; here, that they are the whole
    int64_t channels = 0;
    for (int input : node.inputs) {
      const ModelNode& part = nodes_[input];
      if (part.height != node.height || part.width != node.width || part.flat != node.flat) return false;
      channels += part.channels;
    }
    return channels == node.channels;
  }
  if (node.flat != (node.height == 1 && node.width == 1 && (from.flat || operation.flattens))) return false;
  if (!operation.fits(from.size(), node.size(), node.attributes.data())) return false;
  if (operation.weights == nullptr) return true;
  node.weight.outputs = node.channels;
  node.weight.positions_in_all = operation.weights(from.size(), node.size(), node.attributes.data());
  expect(node.weight.size() >= 1 && node.weight.size() <= max_weight, node.name + " has too many weights");
  return true;
}

void ModelGraph::set_weight(Weight weight, bool must_be_finite) {
  ModelNode& node = nodes_.back();
  const Weight& wanted = node.weight;
  weight.outputs = wanted.outputs;
  weight.inputs = wanted.inputs;
  weight.kernel = wanted.kernel;
  weight.positions_in_all = wanted.positions_in_all;
  expect(wanted.size() > 0, node.name + " has no weight");
  expect(static_cast<int64_t>(weight.bias.size()) == wanted.outputs, node.name + " has a bias of the wrong length");
  if (weight.full) {
    expect(static_cast<int64_t>(weight.values.size()) == wanted.size(), node.name + " has a weight of the wrong shape");
  } else {
    expect(node.kind == NodeKind::conv, node.name + " must have its weight stored whole");
    expect(weight.positions.size() == weight.values.size(), node.name + " has not as many positions as values");
    int64_t before = -1;
    for (int32_t position : weight.positions) {
      expect(position > before && position < wanted.size(), node.name + " has positions outside of its weight");
      before = position;
    }
  }
  if (must_be_finite) {
    check_finite(weight.values, node.name);
    check_finite(weight.bias, node.name);
  }
  node.weight = std::move(weight);
}

void ModelGraph::finish() const {
  expect(nodes_.size() >= 2, "its graph has too few nodes");
  expect(nodes_.back().flat, "its graph does not end with one number for each class");
  for (size_t i = 0; i + 1 < nodes_.size(); ++i) expect(read_[i], "nothing uses the output of " + nodes_[i].name);
  for (const ModelNode& node : nodes_)
    expect(node.weight.size() == 0 || !node.weight.bias.empty(), node.name + " has no numbers");
}

}  // namespace sparcl
