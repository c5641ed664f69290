// A model that predicts. This is what Python and C programs use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../kernels/kernels.h"
#include "../parallel/fork_aware_mutex.h"
#include "steps.h"

namespace sparcl {

class BatchPlan;
class FlatPlan;

class Model {
 public:
  Model(const KernelTable& kernels, std::string_view file);
  // From a network in memory; it has no class names, and its images are normalised already.
  Model(const KernelTable& kernels, std::vector<ModelNode> nodes);
  ~Model();

  const ModelSpec& spec() const { return spec_; }
  const ModelNode& input() const { return spec_.nodes.front(); }
  int64_t outputs() const { return spec_.nodes.back().channels; }
  const ModelSteps& steps() const { return steps_; }

  // images [count][channels][height][width], normalised; logits [count][outputs]. Several callers wait for each other.
  void predict(const float* images, int64_t count, float* logits, int threads);
  // The same for pixels from 0 to 255, which are normalised here.
  void predict_pixels(const uint8_t* pixels, int64_t count, float* logits, int threads);

 private:
  const KernelTable& kernels_;
  ModelSpec spec_;
  ModelSteps steps_;
  ForkAwareMutex mutex_;
  std::unique_ptr<FlatPlan> flat_;    // for single images
  std::unique_ptr<BatchPlan> batch_;  // made when it is first needed
};

}  // namespace sparcl
