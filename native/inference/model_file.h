// A model as its file describes it: a graph without batch normalisations (they are folded into the weights), the
// weights, the names of the classes, and how pictures become inputs. docs/model-file.md specifies the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sparcl {

// [outputs][inputs][kernel][kernel], of which only some positions may be there.
struct Weight {
  int32_t outputs = 0, inputs = 0, kernel = 1;
  std::vector<int32_t> positions;  // strictly rising; empty if every position is there
  std::vector<float> values;
  std::vector<float> bias;  // [outputs]
  bool full = false;        // every position is there, in order
  int64_t size() const { return static_cast<int64_t>(outputs) * inputs * kernel * kernel; }
};

enum class NodeOp { input, conv, affine, relu, add, max_pool, global_average_pool, linear };

struct ModelNode {
  std::string name;
  NodeOp op = NodeOp::input;
  std::vector<int> inputs;  // earlier nodes
  int32_t channels = 0, height = 1, width = 1;
  bool flat = false;  // a vector: after global average pooling
  int32_t kernel = 1, stride = 1;
  Weight weight;  // conv, linear; of affine: values [channels] and bias
  int64_t floats() const { return static_cast<int64_t>(channels) * height * width; }
};

struct ModelSpec {
  std::vector<ModelNode> nodes;  // in the order in which they run; the last gives the logits
  std::vector<std::string> classes;
  std::vector<float> mean, deviation;  // of each channel, on a scale from 0 to 1
  std::string precision;
};

// Throws ModelError unless everything in the file is consistent and finite. Whatever comes out of here can be run.
ModelSpec read_model(std::string_view file);

}  // namespace sparcl
