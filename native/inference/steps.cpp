#include "steps.h"

#include <algorithm>
#include <utility>

namespace sparcl {
namespace {

class Fusing {
 public:
  explicit Fusing(const ModelSpec& spec) : nodes_(spec.nodes), map_of_(spec.nodes.size(), -1) {
    find_waiting();
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i)
      if (!waits_[i]) emit(i);
  }

  ModelSteps result;

 private:
  // A convolution whose only reader is an addition or a ReLU, and an addition whose only reader is a ReLU, wait until
  // their reader comes, and are done together with it.
  void find_waiting() {
    std::vector<int> readers(nodes_.size(), 0), reader(nodes_.size(), -1);
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (int input : nodes_[i].inputs) ++readers[input], reader[input] = static_cast<int>(i);
    waits_.assign(nodes_.size(), false);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (readers[i] != 1) continue;
      const NodeOp by = nodes_[reader[i]].op;
      if (nodes_[i].op == NodeOp::conv) waits_[i] = by == NodeOp::add || by == NodeOp::relu;
      if (nodes_[i].op == NodeOp::add) waits_[i] = by == NodeOp::relu;
    }
  }

  int new_map(int node) {
    const ModelNode& n = nodes_[node];
    result.maps.push_back({n.channels, n.height, n.width, n.flat});
    return static_cast<int>(result.maps.size()) - 1;
  }

  int push(ModelStep step, int node) {
    step.out = new_map(node);
    result.steps.push_back(step);
    return step.out;
  }

  int convolve(int node, int residual, bool relu) {
    return push({.kind = ModelStep::Kind::convolve,
                 .node = node,
                 .in = map_of_[nodes_[node].inputs[0]],
                 .residual = residual,
                 .relu = relu},
                node);
  }

  int combine(int node, int affine, int in, int residual, bool relu) {
    return push({.kind = ModelStep::Kind::combine, .node = affine, .in = in, .residual = residual, .relu = relu}, node);
  }

  int add(int node, bool relu) {
    int first = nodes_[node].inputs[0], last = nodes_[node].inputs[1];
    // The longer convolution of two takes in the sum.
    if (waits_[first] && (!waits_[last] || nodes_[first].kernel > nodes_[last].kernel)) std::swap(first, last);
    if (waits_[first]) map_of_[first] = convolve(first, -1, false);
    if (waits_[last]) return convolve(last, map_of_[first], relu);
    return combine(node, -1, map_of_[first], map_of_[last], relu);
  }

  void emit(int node) {
    const ModelNode& n = nodes_[node];
    const int source = n.inputs.empty() ? -1 : n.inputs[0];
    int& map = map_of_[node];
    switch (n.op) {
      case NodeOp::input:
        map = new_map(node);
        break;
      case NodeOp::conv:
        map = convolve(node, -1, false);
        break;
      case NodeOp::affine:
        map = combine(node, node, map_of_[source], -1, false);
        break;
      case NodeOp::add:
        map = add(node, false);
        break;
      case NodeOp::relu:
        if (!waits_[source]) {
          map = combine(node, -1, map_of_[source], -1, true);
        } else {
          map = nodes_[source].op == NodeOp::add ? add(source, true) : convolve(source, -1, true);
        }
        break;
      case NodeOp::max_pool:
        map = push({.kind = ModelStep::Kind::max_pool, .in = map_of_[source], .kernel = n.kernel}, node);
        break;
      case NodeOp::global_average_pool:
        map = push({.kind = ModelStep::Kind::average_pool, .in = map_of_[source]}, node);
        break;
      case NodeOp::linear:
        map = push({.kind = ModelStep::Kind::linear, .node = node, .in = map_of_[source]}, node);
        break;
    }
  }

  const std::vector<ModelNode>& nodes_;
  std::vector<int> map_of_;
  std::vector<bool> waits_;
};

}  // namespace

ModelSteps fuse(const ModelSpec& spec) { return std::move(Fusing(spec).result); }

int64_t place_buffers(std::vector<Buffer>& buffers, int64_t unit) {
  std::vector<Buffer*> placed;
  int64_t length = 0;
  for (Buffer& buffer : buffers) {
    buffer.size = (buffer.size + unit - 1) / unit * unit;
    buffer.offset = 0;
    // `placed` is in the order of offsets: the first gap that is large enough is taken.
    for (const Buffer* other : placed) {
      if (other->last < buffer.first || buffer.last < other->first) continue;
      if (buffer.offset + buffer.size <= other->offset) break;
      buffer.offset = std::max(buffer.offset, other->offset + other->size);
    }
    const auto after = [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &buffer, after), &buffer);
    length = std::max(length, buffer.offset + buffer.size);
  }
  return length;
}

}  // namespace sparcl
