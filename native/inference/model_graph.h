// A model as it predicts: a graph without batch normalisations (they are folded into the weights), and its weights. It
// comes from a file (model_file.h) or from a network in memory; either way everything is checked here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "../kernels/kernels.h"

namespace sparcl {

// Of a convolution [outputs][inputs][kernel][kernel], of which only some positions may be there; of another operation
// all of them, in the order that its kernel reads.
struct Weight {
  int32_t outputs = 0, inputs = 0, kernel = 1;
  int64_t positions_in_all = 0;
  std::vector<int32_t> positions;  // strictly rising; empty if every position is there
  std::vector<float> values;
  std::vector<float> bias;  // [outputs]
  bool full = false;        // every position is there, in order
  int64_t size() const { return positions_in_all; }
};

enum class NodeKind { input, conv, affine, activation, add, operation };

struct ModelNode {
  std::string name;
  NodeKind kind = NodeKind::input;
  const Operation* operation = nullptr;  // of the kind operation
  Activation activation = Activation::none;
  std::vector<int> inputs;  // earlier nodes
  int32_t channels = 0, height = 1, width = 1;
  bool flat = false;               // a vector
  int32_t kernel = 1, stride = 1;  // of a convolution
  std::array<int32_t, max_attributes> attributes{};
  Weight weight;  // of affine: values [channels] and bias
  int64_t floats() const { return static_cast<int64_t>(channels) * height * width; }
  Size size() const { return {channels, height, width}; }
  // Whether it takes in a residual and an activation that come after it.
  bool epilogue() const { return kind == NodeKind::conv || (operation != nullptr && operation->epilogue); }
};

// What an operation of a graph is called: sets kind, operation and activation. Throws ModelError if there is none.
void set_operation(ModelNode& node, const std::string& name, const KernelTable& kernels);

constexpr int64_t max_side = 1 << 14;
constexpr int64_t max_channels = 1 << 16;

// Nodes in the order in which they run, each checked against those before. Throws ModelError.
class ModelGraph {
 public:
  // Checks everything but the numbers of its weight, and says how large that must be.
  void add(ModelNode node);
  // The weight of the node that was added last; checks what add said. Of a network in memory the numbers may be
  // anything: a training that has run away must show it.
  void set_weight(Weight weight, bool must_be_finite);
  // The last node gives the logits; nothing may be left over.
  void finish() const;

  int find(const std::string& name) const;  // -1: there is none
  const std::vector<ModelNode>& nodes() const { return nodes_; }
  std::vector<ModelNode> take() { return std::move(nodes_); }

 private:
  bool shape_follows(ModelNode& node, const ModelNode& from) const;
  bool operation_fits(ModelNode& node, const ModelNode& from) const;

  std::vector<ModelNode> nodes_;
  std::unordered_map<std::string, int> known_;
  std::vector<bool> read_;
};

struct ModelSpec {
  std::vector<ModelNode> nodes;  // in the order in which they run; the last gives the logits
  std::vector<std::string> classes;
  std::vector<float> mean, deviation;  // of each channel, on a scale from 0 to 1
  std::string precision;
};

}  // namespace sparcl
