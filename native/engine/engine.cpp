#include "engine.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "on_threads.h"

namespace sparcl {
namespace {

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

constexpr int64_t int32_limit = std::numeric_limits<int32_t>::max();

// Whether all numbers are in 0..limit-1, each larger than the one before. No early end: so compilers use vectors.
bool rising_below(const int32_t* numbers, int64_t count, int64_t limit) {
  if (count == 0) return true;
  bool rising = true;
  for (int64_t i = 1; i < count; ++i) rising &= numbers[i] > numbers[i - 1];
  return rising && numbers[0] >= 0 && numbers[count - 1] < limit;
}

}  // namespace

void check_extent(const Extent& e, int lanes) {
  require(e.channels > 0 && e.height > 0 && e.width > 0, "a map needs channels, rows and columns");
  require(e.height < 32768 && e.width < 32767, "a map is too high or too wide");
  require(e.row >= e.width && e.row <= e.width + 1, "a row of a map has at most one column of padding");
  require(static_cast<int64_t>(e.height) * e.row <= e.plane, "a channel of a map is smaller than its rows");
  require(static_cast<int64_t>(e.channels) * e.plane < int32_limit / lanes, "a map is too large for 32-bit offsets");
}

int Engine::add_convolution(const ConvolutionShape& s) {
  require(s.kernel == 1 || s.kernel == 3, "a convolution must be 1x1 or 3x3");
  require(s.stride == 1 || s.stride == 2, "a convolution must have stride 1 or 2");
  check_extent(s.in, kernels_.lanes);
  check_extent(s.out, kernels_.lanes);
  require(s.outputs == s.out.channels && s.inputs == s.in.channels, "a convolution does not fit its maps' channels");
  require(s.out.height == (s.in.height - 1) / s.stride + 1 && s.out.width == (s.in.width - 1) / s.stride + 1,
          "a convolution does not fit its maps' sizes");
  require(s.in_padded == (s.in.row > s.in.width) && s.out_padded == (s.out.row > s.out.width), "padding is unclear");
  const bool small = s.in.height == 4 && s.in.width == 4 && s.out.height == 4 && s.out.width == 4;
  require(s.kernel == 1 || s.in_padded || small, "only 4x4 maps may be without padding before a 3x3 convolution");
  const bool halved = s.in.height == 8 && s.in.width == 8 && s.out.height == 4 && s.out.width == 4;
  require(s.kernel == 1 || s.out_padded || small || halved,
          "only 4x4 maps may be without padding after a 3x3 convolution");
  require(s.weights() < int32_limit, "a weight is too large for 32-bit positions");
  convolutions_.emplace_back(s, kernels_.lanes, kernels_.accumulators);
  offsets_.push_back(-1);
  return convolutions() - 1;
}

int Engine::add_norm(int channels, bool normalises, float epsilon, float momentum) {
  require(channels > 0, "a norm needs channels");
  require(!normalises || (epsilon >= 0.0f && epsilon <= 1.0f && momentum >= 0.0f && momentum <= 1.0f),
          "epsilon and momentum of a norm are between 0 and 1");
  norms_.push_back({channels, normalises, epsilon, momentum});
  return norms() - 1;
}

const Operation* find_operation(const KernelTable& kernels, const std::string& name) {
  for (int i = 0; i < kernels.operation_count; ++i)
    if (name == kernels.operations[i]->name) return kernels.operations[i];
  return nullptr;
}

int Engine::add_operation(const std::string& name, const Size& in, const Size& out,
                          const std::vector<int32_t>& attributes) {
  OperationLayer layer{find_operation(kernels_, name), in, out};
  require(layer.operation != nullptr, "there is no such operation");
  size_t expected = 0;
  while (expected < max_attributes && layer.operation->attributes[expected] != nullptr) ++expected;
  require(attributes.size() == expected, "an operation has other attributes");
  std::copy(attributes.begin(), attributes.end(), layer.attributes.begin());
  for (const Size& size : {in, out})
    require(size.channels > 0 && size.height > 0 && size.width > 0 && size.height < 32768 && size.width < 32767,
            "a map needs channels, rows and columns, and not too many");
  require(layer.operation->fits(in, out, layer.attributes.data()), "an operation does not fit its maps");
  if (layer.operation->weights != nullptr) layer.weights = layer.operation->weights(in, out, layer.attributes.data());
  operations_.push_back(layer);
  return operations() - 1;
}

void Engine::set_sizes(FlatSizes sizes) {
  sizes_ = sizes;
  for (int64_t& offset : offsets_) offset = -1;
  for (NormLayer& norm : norms_) norm.weight = norm.bias = norm.mean = norm.variance = -1;
  for (OperationLayer& layer : operations_) layer.weight = layer.bias = layer.statistics = -1;
}

void Engine::check_range(int64_t offset, int64_t count, int64_t size) const {
  require(offset >= 0 && count >= 0 && offset <= size && count <= size - offset,
          "a parameter lies outside of the flat store");
}

void Engine::bind_convolution(int layer, int64_t offset, const int32_t* positions, int64_t count,
                              const int32_t* places) {
  ConvolutionLayer& convolution = convolutions_.at(layer);
  check_range(offset, count, sizes_.values);
  require(rising_below(positions, count, convolution.shape().weights()),
          "the positions of a sparse weight are not sorted, or outside of it");
  std::vector<bool> taken(places == nullptr ? 0 : static_cast<size_t>(count), false);
  for (int64_t i = 0; places != nullptr && i < count; ++i) {
    require(places[i] >= 0 && places[i] < count, "a place lies outside of the stored weight");
    require(!taken[places[i]], "two weights have the same place");
    taken[places[i]] = true;
  }
  convolution.set_active(positions, places, count);
  offsets_[layer] = offset;
}

void Engine::move_convolution(int layer, int64_t offset) {
  check_range(offset, convolutions_.at(layer).active(), sizes_.values);
  offsets_[layer] = offset;
}

void Engine::bind_norm(int layer, int64_t weight, int64_t bias, int64_t mean, int64_t variance) {
  NormLayer& norm = norms_.at(layer);
  check_range(bias, norm.channels, sizes_.values);
  if (norm.normalises) {
    check_range(weight, norm.channels, sizes_.values);
    check_range(mean, norm.channels, sizes_.statistics);
    check_range(variance, norm.channels, sizes_.statistics);
  }
  norm.weight = weight;
  norm.bias = bias;
  norm.mean = mean;
  norm.variance = variance;
}

void Engine::bind_operation(int layer, int64_t weight, int64_t bias, int64_t statistics) {
  OperationLayer& bound = operations_.at(layer);
  require((bound.weights > 0) == (weight >= 0) && (bound.operation->statistics > 0) == (statistics >= 0),
          "an operation has other parameters");
  require(bias < 0 ? !bound.operation->needs_bias : bound.weights > 0, "an operation has other parameters");
  if (weight >= 0) check_range(weight, bound.weights, sizes_.values);
  if (bias >= 0) check_range(bias, bound.out.channels, sizes_.values);
  if (statistics >= 0) check_range(statistics, bound.operation->statistics, sizes_.statistics);
  bound.weight = weight;
  bound.bias = bias;
  bound.statistics = statistics;
}

void Engine::set_updated(int layer, const int32_t* chosen, int64_t count) {
  ConvolutionLayer& convolution = convolutions_.at(layer);
  require(rising_below(chosen, count, convolution.active()),
          "the updated weights are not sorted, or not among the active ones");
  convolution.set_updated(chosen, count);
}

void Engine::clear_updated(int layer) { convolutions_.at(layer).clear_updated(); }

void Engine::set_knobs(int layer, const Knobs& knobs) {
  for (const ConvolveKnobs& k : {knobs.forward, knobs.data})
    require(k.shape >= 0 && k.shape < tile_shape_count && k.channels > 0, "there is no such tile or channel block");
  require(knobs.gradient.shape >= 0 && knobs.gradient.shape < tile_shape_count, "there is no such tile");
  convolutions_.at(layer).set_knobs(knobs);
}

bool Engine::bound() const {
  for (int64_t offset : offsets_)
    if (offset < 0) return false;
  for (const NormLayer& norm : norms_)
    if (norm.bias < 0) return false;
  for (const OperationLayer& layer : operations_)
    if ((layer.weights > 0 && layer.weight < 0) || (layer.operation->statistics > 0 && layer.statistics < 0))
      return false;
  return true;
}

void Engine::refresh(const float* values, bool for_training, int threads) {
  // In most networks the last convolutions are the largest.
  on_threads(convolutions(), threads, [&](int i) { convolutions_[i].refresh(values + offsets_[i], for_training); });
}

}  // namespace sparcl
