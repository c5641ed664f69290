// Predicting for many images at once, images in the lanes of the vectors: the engine's own programs, whose steps are
// those of the model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "../engine/program.h"
#include "steps.h"

namespace sparcl {

class BatchPlan {
 public:
  BatchPlan(const KernelTable& kernels, const ModelSpec& spec, const ModelSteps& steps);

  // images [count][channels][height][width], logits [count][classes]
  void run(const float* images, int count, float* logits, int threads);

 private:
  struct Compiled {
    std::unique_ptr<Program> program;
    std::unique_ptr<Arena> arena;
  };

  void find_extents();
  void add_layers();
  Compiled& compiled(int images, int threads);
  Compiled compile(int images) const;

  const ModelSpec& spec_;
  const ModelSteps& steps_;
  int lanes_;
  std::shared_ptr<Engine> engine_;
  std::vector<Extent> extents_;      // of each map
  std::vector<int> layers_, norms_;  // of each step; -1: none
  std::vector<float> values_, statistics_;
  std::map<int, Compiled> programs_;  // by images
};

}  // namespace sparcl
