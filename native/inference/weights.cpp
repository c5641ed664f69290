#include "weights.h"

#include <cmath>
#include <cstring>

#include "model_error.h"

namespace sparcl {
namespace {

constexpr unsigned char no_weight = 255;

float from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1F, fraction = half & 0x3FF;
  if (exponent == 0) {
    const float small = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -small : small;
  }
  const uint32_t bits =
      exponent == 31 ? sign | 0x7F800000 | fraction << 13 : sign | (exponent + 112) << 23 | fraction << 13;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

std::vector<float> decoded(const Tensor& tensor, const std::string& name) {
  std::vector<float> values(tensor.count());
  if (tensor.type == Type::float32) {
    if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  } else if (tensor.type == Type::float16) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half;
      std::memcpy(&half, tensor.bytes.data() + 2 * i, sizeof half);
      values[i] = from_half(half);
    }
  } else {
    expect(tensor.type == Type::int8, "the numbers of " + name + " have the wrong type");
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<signed char>(tensor.bytes[i]);
  }
  for (float value : values) expect(std::isfinite(value), name + " holds a number that is not finite");
  return values;
}

// Each byte moves on by itself plus one to the next weight; 255 only moves on by 255.
std::vector<int32_t> positions_of(const Tensor& gaps, const Weight& weight, const std::string& name) {
  expect(gaps.type == Type::uint8 && gaps.shape.size() == 1, name + " has the wrong type");
  std::vector<int32_t> positions;
  positions.reserve(weight.values.size());
  int64_t position = -1;
  for (char byte : gaps.bytes) {
    const auto gap = static_cast<unsigned char>(byte);
    position += gap == no_weight ? no_weight : gap + 1;
    expect(position < weight.size(), name + " leads outside of the weight");
    if (gap == no_weight) continue;
    expect(positions.size() < weight.values.size(), name + " has more positions than there are values");
    positions.push_back(static_cast<int32_t>(position));
  }
  expect(positions.size() == weight.values.size(), name + " has fewer positions than there are values");
  return positions;
}

}  // namespace

const Tensor& Numbers::take(const std::string& name) {
  const auto found = container_.tensors.find(name);
  expect(found != container_.tensors.end(), name + " is missing");
  ++used_;
  return found->second;
}

std::vector<float> Numbers::vector(const std::string& name, int64_t length) {
  const Tensor& tensor = take(name);
  expect(tensor.type == Type::float32 && tensor.shape == std::vector<int64_t>{length},
         name + " has the wrong type or shape");
  return decoded(tensor, name);
}

Weight Numbers::read(const std::string& layer, const Weight& wanted, bool exact) {
  Weight weight = wanted;
  weight.bias = vector(layer + ".bias", weight.outputs);
  weight.full = exact || has(layer + ".weight");
  const std::string name = layer + (weight.full ? ".weight" : ".values");
  if (exact) {
    weight.values = vector(name, weight.size());
    return weight;
  }
  const Tensor& values = take(name);
  if (weight.full) {
    expect(values.count() == weight.size() && !values.shape.empty() && values.shape[0] == weight.outputs,
           name + " has the wrong shape");
  } else {
    expect(values.shape.size() == 1 && values.count() <= weight.size(), name + " has the wrong shape");
  }
  weight.values = decoded(values, name);
  if (!weight.full) weight.positions = positions_of(take(layer + ".gaps"), weight, layer + ".gaps");
  if (values.type != Type::int8) return weight;
  const std::vector<float> scale = vector(layer + ".scale", weight.outputs);
  const int64_t row = weight.size() / weight.outputs;
  for (size_t i = 0; i < weight.values.size(); ++i) {
    weight.values[i] *= scale[(weight.full ? static_cast<int64_t>(i) : weight.positions[i]) / row];
    expect(std::isfinite(weight.values[i]), layer + ".scale is too large");
  }
  return weight;
}

void Numbers::check_all_used() const {
  expect(used_ == container_.tensors.size(), "it holds tensors that no layer uses, or uses one twice");
}

}  // namespace sparcl
