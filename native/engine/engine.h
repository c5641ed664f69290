// The layers of a network: convolutions, norms, and the operations of the table (kernels/operation.h), bound to places
// in the flat parameter store. A Program (program.h) says in which order they are used.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "../parallel/fork_aware_mutex.h"
#include "convolution.h"

namespace sparcl {

// Places in the flat arrays; -1 where a part does not exist.
struct NormLayer {
  int32_t channels;
  bool normalises;  // false: a mere bias
  float epsilon = 0.0f, momentum = 0.0f;
  bool fixed = false;  // its running statistics are used in training too
  int64_t weight = -1, bias = -1, mean = -1, variance = -1;
};

struct OperationLayer {
  const Operation* operation;
  Size in, out;
  std::array<int32_t, max_attributes> attributes{};
  int64_t weights = 0;                              // how many it has
  int64_t weight = -1, bias = -1, statistics = -1;  // where they are
};

struct FlatSizes {
  int64_t values = 0, statistics = 0;
};

// Throws if a map of this extent cannot exist or is too large for the kernels' 32-bit offsets.
void check_extent(const Extent& extent, int lanes);

// The operation of this name; null: there is none.
const Operation* find_operation(const KernelTable& kernels, const std::string& name);

class Engine {
 public:
  explicit Engine(const KernelTable& kernels) : kernels_(kernels) {}

  int add_convolution(const ConvolutionShape& shape);
  int add_norm(int channels, bool normalises, float epsilon, float momentum);
  int add_operation(const std::string& name, const Size& in, const Size& out, const std::vector<int32_t>& attributes);

  // Where the numbers lie. Every place is checked against the sizes of the flat arrays, here and never again.
  void set_sizes(FlatSizes sizes);
  void bind_convolution(int layer, int64_t offset, const int32_t* positions, int64_t count, const int32_t* places);
  // The same active weights, at another place.
  void move_convolution(int layer, int64_t offset);
  void bind_norm(int layer, int64_t weight, int64_t bias, int64_t mean, int64_t variance);
  // Parts that the layer does without are -1.
  void bind_operation(int layer, int64_t weight, int64_t bias, int64_t statistics);
  // Whether a norm keeps its running statistics in training.
  void fix_norm(int layer, bool fixed) { norms_.at(layer).fixed = fixed; }
  void set_updated(int layer, const int32_t* chosen, int64_t count);
  void clear_updated(int layer);
  void set_knobs(int layer, const Knobs& knobs);

  // Takes the current values of all weights into the convolutions' lists.
  void refresh(const float* values, bool for_training, int threads);

  std::vector<float>& scratch() { return scratch_; }
  const KernelTable& kernels() const { return kernels_; }
  FlatSizes sizes() const { return sizes_; }
  ConvolutionLayer& convolution(int layer) { return convolutions_.at(layer); }
  const NormLayer& norm(int layer) const { return norms_.at(layer); }
  const OperationLayer& operation(int layer) const { return operations_.at(layer); }
  int64_t offset(int layer) const { return offsets_.at(layer); }
  int convolutions() const { return static_cast<int>(convolutions_.size()); }
  int norms() const { return static_cast<int>(norms_.size()); }
  int operations() const { return static_cast<int>(operations_.size()); }
  // Whether everything has been bound to the flat arrays as they are now.
  bool bound() const;
  // For whoever lets several threads use it: one at a time.
  ForkAwareMutex& mutex() { return mutex_; }

 private:
  void check_range(int64_t offset, int64_t count, int64_t size) const;

  const KernelTable& kernels_;
  FlatSizes sizes_;
  std::vector<ConvolutionLayer> convolutions_;
  std::vector<int64_t> offsets_;  // of each convolution's weight in the flat array; -1: not bound
  std::vector<NormLayer> norms_;
  std::vector<OperationLayer> operations_;
  std::vector<float> scratch_;
  ForkAwareMutex mutex_;
};

}  // namespace sparcl
