#include "model_file.h"

#include <cmath>
#include <unordered_map>

#include "container.h"
#include "json.h"
#include "model_error.h"
#include "weights.h"

namespace sparcl {
namespace {

constexpr double version = 2, version_without_checksum = 1;
constexpr size_t most_nodes = 4096;
constexpr int64_t most_channels = 1 << 16;
constexpr int64_t largest_side = 1 << 14;
constexpr int64_t largest_map = int64_t{1} << 26;     // floats
constexpr int64_t largest_weight = int64_t{1} << 26;  // positions

// Whether the character at a place of a UTF-8 text steers a terminal instead of being shown: control characters, other
// line ends, and those that turn the direction of writing.
bool steers(const std::string& text, size_t place) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  const int first = byte(place), second = byte(place + 1), third = byte(place + 2);
  if (first < 0x20 || first == 0x7F) return true;
  if (first == 0xC2) return second < 0xA0;                                     // U+0080 to U+009F
  if (first == 0xE2 && second == 0x80) return third >= 0xA8 && third <= 0xAE;  // U+2028 to U+202E
  return first == 0xE2 && second == 0x81 && third >= 0xA6 && third <= 0xA9;    // U+2066 to U+2069
}

// What a name may look like in a message or a table: shown as it is, not too long.
void check_name(const std::string& name, const char* what) {
  expect(!name.empty() && name.size() <= 1000, std::string("the name of ") + what + " is empty or too long");
  for (size_t place = 0; place < name.size(); ++place)
    expect(!steers(name, place), std::string("the name of ") + what + " has control characters");
}

NodeOp op_of(const std::string& name) {
  static const std::unordered_map<std::string, NodeOp> ops = {
      {"input", NodeOp::input},
      {"conv", NodeOp::conv},
      {"affine", NodeOp::affine},
      {"relu", NodeOp::relu},
      {"add", NodeOp::add},
      {"max_pool", NodeOp::max_pool},
      {"global_average_pool", NodeOp::global_average_pool},
      {"linear", NodeOp::linear},
  };
  const auto found = ops.find(name);
  expect(found != ops.end(), "its graph has the unknown operation '" + name.substr(0, 40) + "'");
  return found->second;
}

size_t inputs_of(NodeOp op) { return op == NodeOp::input ? 0 : op == NodeOp::add ? 2 : 1; }

class GraphReader {
 public:
  GraphReader(const Json& graph, Numbers& numbers) : numbers_(numbers) {
    const auto& entries = graph.array("its graph");
    expect(entries.size() >= 2 && entries.size() <= most_nodes, "its graph has too few or too many nodes");
    for (const Json& entry : entries) add(entry);
    const ModelNode& last = nodes.back();
    expect(last.op == NodeOp::linear, "its graph does not end with a linear layer");
    for (size_t i = 0; i + 1 < nodes.size(); ++i) expect(read_[i], "nothing uses the output of " + nodes[i].name);
  }

  std::vector<ModelNode> nodes;

 private:
  void add(const Json& entry) {
    ModelNode node;
    node.name = entry.at("name").string("the name of a node");
    check_name(node.name, "a node");
    node.op = op_of(entry.at("op").string("an operation"));
    expect((node.op == NodeOp::input) == nodes.empty(), "its graph must have one input, at its start");
    for (const Json& input : entry.at("inputs").array("the inputs of a node")) {
      const auto found = known_.find(input.string("the input of a node"));
      expect(found != known_.end(), node.name + " uses a node that does not come before it");
      node.inputs.push_back(found->second);
      read_[found->second] = true;
    }
    expect(node.inputs.size() == inputs_of(node.op), node.name + " has the wrong number of inputs");
    if (entry.has("kernel")) node.kernel = static_cast<int32_t>(entry.at("kernel").whole("a kernel", 1, largest_side));
    if (entry.has("stride")) node.stride = static_cast<int32_t>(entry.at("stride").whole("a stride", 1, largest_side));
    read_shape(node, entry.at("shape"));
    check(node);
    expect(known_.emplace(node.name, static_cast<int>(nodes.size())).second, "two nodes are called " + node.name);
    nodes.push_back(std::move(node));
    read_.push_back(false);
  }

  static void read_shape(ModelNode& node, const Json& json) {
    const auto& sizes = json.array("a shape");
    expect(sizes.size() == 1 || sizes.size() == 3, node.name + " has an impossible shape");
    node.flat = sizes.size() == 1;
    node.channels = static_cast<int32_t>(sizes[0].whole("a shape", 1, most_channels));
    if (!node.flat) {
      node.height = static_cast<int32_t>(sizes[1].whole("a shape", 1, largest_side));
      node.width = static_cast<int32_t>(sizes[2].whole("a shape", 1, largest_side));
    }
    // The engine needs room for zeros around it, too: of a very narrow map, as many again.
    const int64_t plane = static_cast<int64_t>(node.height) * (node.width + 1) + 16;
    expect(node.floats() <= largest_map && node.channels * plane < 2 * largest_map,
           node.name + " makes maps that are too large");
  }

  void check(ModelNode& node) {
    const bool fits = node.op == NodeOp::input ? !node.flat : shape_follows(node, nodes[node.inputs[0]]);
    expect(fits, node.name + " does not fit its input");
  }

  bool shape_follows(ModelNode& node, const ModelNode& from) {
    const auto halved = [&](int32_t size) { return (size - 1) / node.stride + 1; };
    const bool same = node.channels == from.channels && node.height == from.height && node.width == from.width &&
                      node.flat == from.flat;
    switch (node.op) {
      case NodeOp::conv:
        expect((node.kernel == 1 || node.kernel == 3) && (node.stride == 1 || node.stride == 2),
               node.name + " is a convolution of an unknown kind");
        read_weight(node, from);
        return !from.flat && !node.flat && node.height == halved(from.height) && node.width == halved(from.width);
      case NodeOp::linear:
        read_weight(node, from);
        expect(node.weight.full, node.name + " is a linear layer whose weight is not stored whole");
        return from.flat && node.flat;
      case NodeOp::affine:
        if (!same) return false;
        node.weight.values = numbers_.vector(node.name + ".weight", node.channels);
        node.weight.bias = numbers_.vector(node.name + ".bias", node.channels);
        return true;
      case NodeOp::relu:
        return same;
      case NodeOp::add: {
        const ModelNode& other = nodes[node.inputs[1]];
        return same && other.channels == from.channels && other.height == from.height && other.width == from.width &&
               other.flat == from.flat;
      }
      case NodeOp::max_pool:
        return !from.flat && !node.flat && node.channels == from.channels && node.height == from.height / node.kernel &&
               node.width == from.width / node.kernel;
      case NodeOp::global_average_pool:
        return !from.flat && node.flat && node.channels == from.channels;
      case NodeOp::input:
        break;
    }
    return false;
  }

  void read_weight(ModelNode& node, const ModelNode& from) {
    Weight& weight = node.weight;
    weight.outputs = node.channels;
    weight.inputs = from.channels;
    weight.kernel = node.op == NodeOp::conv ? node.kernel : 1;
    expect(weight.size() <= largest_weight, node.name + " has too many weights");
    numbers_.read(node.name, weight);
  }

  Numbers& numbers_;
  std::unordered_map<std::string, int> known_;
  std::vector<bool> read_;
};

std::vector<float> channel_numbers(const Json& json, const char* what, int channels, bool positive) {
  std::vector<float> numbers;
  for (const Json& number : json.array(what)) numbers.push_back(static_cast<float>(number.number(what)));
  expect(static_cast<int>(numbers.size()) == channels, std::string(what) + " must have one number a channel");
  for (float number : numbers)
    expect(std::isfinite(number) && (!positive || number > 1e-30f), std::string(what) + " has an impossible number");
  return numbers;
}

}  // namespace

ModelSpec read_model(std::string_view file) {
  Container container = open_container(file);
  const Json description = Json::parse(container.description);
  expect(description.at("format").string("the format") == "sparcl-model", "it is not a model");
  const double written = description.at("version").number("the version");
  expect(written == version || written == version_without_checksum,
         "it was written by another version of SparCL; export the model again");
  if (written == version) check_seal(container, file);
  ModelSpec spec;
  spec.precision = description.at("precision").string("the precision");
  check_name(spec.precision, "its precision");
  Numbers numbers(container);
  spec.nodes = GraphReader(description.at("graph"), numbers).nodes;
  numbers.check_all_used();
  for (const Json& name : description.at("classes").array("its classes")) {
    spec.classes.push_back(name.string("the name of a class"));
    check_name(spec.classes.back(), "a class");
  }
  expect(static_cast<int64_t>(spec.classes.size()) == spec.nodes.back().channels,
         "it does not have as many class names as outputs");
  const Json& preprocessing = description.at("preprocessing");
  expect(preprocessing.at("resize").string("resizing") == "centre-fit", "its pictures are resized in an unknown way");
  spec.mean = channel_numbers(preprocessing.at("mean"), "the mean", spec.nodes[0].channels, false);
  spec.deviation = channel_numbers(preprocessing.at("std"), "the deviation", spec.nodes[0].channels, true);
  return spec;
}

}  // namespace sparcl
