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
  // Whatever has an epilogue and is read only by an addition or an activation, and an addition that is read only by an
  // activation, wait until their reader comes, and are done together with it.
  void find_waiting() {
    std::vector<int> readers(nodes_.size(), 0), reader(nodes_.size(), -1);
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (int input : nodes_[i].inputs) ++readers[input], reader[input] = static_cast<int>(i);
    waits_.assign(nodes_.size(), false);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (readers[i] != 1) continue;
      const NodeKind by = nodes_[reader[i]].kind;
      if (nodes_[i].epilogue()) waits_[i] = by == NodeKind::add || by == NodeKind::activation;
      if (nodes_[i].kind == NodeKind::add) waits_[i] = by == NodeKind::activation;
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

  int compute(int node, int residual, Activation activation) {
    const ModelNode& n = nodes_[node];
    const bool convolves = n.kind == NodeKind::conv;
    return push({.kind = convolves ? ModelStep::Kind::convolve : ModelStep::Kind::operation,
                 .node = node,
                 .in = map_of_[n.inputs[0]],
                 .residual = residual,
                 .activation = activation,
                 .attributes = n.attributes},
                node);
  }

  int combine(int node, int affine, int in, int residual, Activation activation) {
    return push(
        {.kind = ModelStep::Kind::combine, .node = affine, .in = in, .residual = residual, .activation = activation},
        node);
  }

  int64_t weights_of_output(int node) const { return nodes_[node].weight.size() / nodes_[node].channels; }

  int add(int node, Activation activation) {
    int first = nodes_[node].inputs[0], last = nodes_[node].inputs[1];
    // Of two that wait the longer one takes in the sum.
    if (waits_[first] && (!waits_[last] || weights_of_output(first) > weights_of_output(last))) std::swap(first, last);
    if (waits_[first]) map_of_[first] = compute(first, -1, Activation::none);
    if (waits_[last]) return compute(last, map_of_[first], activation);
    return combine(node, -1, map_of_[first], map_of_[last], activation);
  }

  // Several maps side by side: a step for each.
  int join(int node) {
    const ModelNode& n = nodes_[node];
    const int out = new_map(node);
    int32_t channel = 0;
    for (int input : n.inputs) {
      result.steps.push_back({.kind = ModelStep::Kind::operation,
                              .node = node,
                              .in = map_of_[input],
                              .out = out,
                              .attributes = {channel}});
      channel += nodes_[input].channels;
    }
    return out;
  }

  void emit(int node) {
    const ModelNode& n = nodes_[node];
    const int source = n.inputs.empty() ? -1 : n.inputs[0];
    int& map = map_of_[node];
    switch (n.kind) {
      case NodeKind::input:
        map = new_map(node);
        break;
      case NodeKind::conv:
        map = compute(node, -1, Activation::none);
        break;
      case NodeKind::affine:
        map = combine(node, node, map_of_[source], -1, Activation::none);
        break;
      case NodeKind::add:
        map = add(node, Activation::none);
        break;
      case NodeKind::activation:
        if (!waits_[source]) {
          map = combine(node, -1, map_of_[source], -1, n.activation);
        } else {
          map = nodes_[source].kind == NodeKind::add ? add(source, n.activation) : compute(source, -1, n.activation);
        }
        break;
      case NodeKind::operation:
        map = n.operation->joins ? join(node) : compute(node, -1, Activation::none);
        break;
    }
  }

  const std::vector<ModelNode>& nodes_;
  std::vector<int> map_of_;
  std::vector<bool> waits_;
};

}  // namespace

ModelSteps fuse(const ModelSpec& spec) { return std::move(Fusing(spec).result); }

int64_t place_buffers(std::vector<StepBuffer>& buffers, int64_t unit) {
  std::vector<StepBuffer*> placed;
  int64_t length = 0;
  for (StepBuffer& buffer : buffers) {
    buffer.size = (buffer.size + unit - 1) / unit * unit;
    buffer.offset = 0;
    // `placed` is in the order of offsets: the first gap that is large enough is taken.
    for (const StepBuffer* other : placed) {
      if (other->last < buffer.first || buffer.last < other->first) continue;
      if (buffer.offset + buffer.size <= other->offset) break;
      buffer.offset = std::max(buffer.offset, other->offset + other->size);
    }
    const auto after = [](const StepBuffer* a, const StepBuffer* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &buffer, after), &buffer);
    length = std::max(length, buffer.offset + buffer.size);
  }
  return length;
}

}  // namespace sparcl
