#include "model_file.h"

#include <cmath>
#include <utility>

#include "container.h"
#include "json.h"
#include "model_error.h"
#include "weights.h"

namespace sparcl {
namespace {

constexpr double version = 3, version_with_fewer_operations = 2, version_without_checksum = 1;

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

void read_attributes(ModelNode& node, const Json& entry, bool older) {
  if (node.kind == NodeKind::conv) {
    node.kernel = static_cast<int32_t>(entry.at("kernel").whole("a kernel", 1, max_side));
    node.stride = static_cast<int32_t>(entry.at("stride").whole("a stride", 1, max_side));
  }
  if (node.operation == nullptr || node.operation->joins) return;
  for (int i = 0; i < max_attributes && node.operation->attributes[i] != nullptr; ++i) {
    const char* name = node.operation->attributes[i];
    // Before version 3 windows were never padded.
    if (older && !entry.has(name)) continue;
    node.attributes[i] = static_cast<int32_t>(entry.at(name).whole(name, 0, max_side));
  }
}

void read_shape(ModelNode& node, const Json& json) {
  const auto& sizes = json.array("a shape");
  expect(sizes.size() == 1 || sizes.size() == 3, node.name + " has an impossible shape");
  node.flat = sizes.size() == 1;
  node.channels = static_cast<int32_t>(sizes[0].whole("a shape", 1, max_channels));
  if (node.flat) return;
  node.height = static_cast<int32_t>(sizes[1].whole("a shape", 1, max_side));
  node.width = static_cast<int32_t>(sizes[2].whole("a shape", 1, max_side));
}

std::vector<ModelNode> read_graph(const Json& json, Numbers& numbers, const KernelTable& kernels, bool older) {
  ModelGraph graph;
  for (const Json& entry : json.array("its graph")) {
    ModelNode node;
    node.name = entry.at("name").string("the name of a node");
    check_name(node.name, "a node");
    set_operation(node, entry.at("op").string("an operation"), kernels);
    for (const Json& input : entry.at("inputs").array("the inputs of a node"))
      node.inputs.push_back(graph.find(input.string("the input of a node")));
    read_attributes(node, entry, older);
    read_shape(node, entry.at("shape"));
    const NodeKind kind = node.kind;
    graph.add(std::move(node));
    const ModelNode& added = graph.nodes().back();
    if (added.weight.size() > 0)
      graph.set_weight(numbers.read(added.name, added.weight, kind == NodeKind::affine), true);
  }
  graph.finish();
  return graph.take();
}

std::vector<float> channel_numbers(const Json& json, const char* what, int channels, bool positive) {
  std::vector<float> numbers;
  for (const Json& number : json.array(what)) numbers.push_back(static_cast<float>(number.number(what)));
  expect(static_cast<int>(numbers.size()) == channels, std::string(what) + " must have one number a channel");
  for (float number : numbers)
    expect(std::isfinite(number) && (!positive || number > 1e-30f), std::string(what) + " has an impossible number");
  return numbers;
}

}  // namespace

ModelSpec read_model(std::string_view file, const KernelTable& kernels) {
  Container container = open_container(file);
  const Json description = Json::parse(container.description);
  expect(description.at("format").string("the format") == "sparcl-model", "it is not a model");
  const double written = description.at("version").number("the version");
  expect(written == version || written == version_with_fewer_operations || written == version_without_checksum,
         "it was written by another version of SparCL; export the model again");
  if (written != version_without_checksum) check_seal(container, file);
  ModelSpec spec;
  spec.precision = description.at("precision").string("the precision");
  check_name(spec.precision, "its precision");
  Numbers numbers(container);
  spec.nodes = read_graph(description.at("graph"), numbers, kernels, written != version);
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
