// Predicting for one image at a time, pixels in the lanes of the vectors: how a device with a camera uses a model.
#pragma once

#include <cstdint>
#include <vector>

#include "../engine/program.h"
#include "../kernels/flat.h"
#include "../kernels/kernels.h"
#include "steps.h"

namespace sparcl {

class FlatPlan {
 public:
  // Keeps references to the spec and the steps.
  FlatPlan(const KernelTable& kernels, const ModelSpec& spec, const ModelSteps& steps);

  // images [count][channels][height][width], logits [count][classes]
  void run(const float* images, int64_t count, float* logits, int threads);
  int64_t arena_bytes() const { return arena_.size() * static_cast<int64_t>(sizeof(float)); }

 private:
  // Where a map lies. `plain` is its pixels themselves; a copy of them may be part of a spread.
  struct View {
    int64_t offset = -1, plane = 0;
  };
  struct Copy {
    Spread kind;
    int buffer = -1;
    int64_t plane = 0;
    bool holds_plain = false;
    int planes() const { return kind == Spread::rows ? 3 : 9; }
  };
  struct Layout {
    std::vector<Copy> copies;
    int plain_buffer = -1;
    View plain;
  };
  struct Convolution {  // its weight, as the kernel reads it
    std::vector<uint16_t> places;
    std::vector<uint32_t> wide_places;
    std::vector<float> weights;
    std::vector<int32_t> starts;  // empty: dense
    int64_t x_offset = 0;
    int32_t unit = 1, entries = 0;
  };

  Spread spread_for(const MapSize& size) const;
  void lay_out();
  Copy& copy_of(int map, Spread kind);
  void build(const ModelStep& step, Convolution& convolution);
  int64_t place_of(const ModelStep& step, const Copy* copy, int input, int tap) const;
  void do_step(size_t index, float* logits, int thread, int threads) const;
  void spread(int map, int first, int last) const;
  void convolve(size_t index, int thread, int threads) const;
  void combine(const ModelStep& step, int first, int last) const;
  void max_pool(const ModelStep& step, int first, int last) const;
  void average_pool(const ModelStep& step, int first, int last) const;
  const float* plain(int map, int channel) const {
    return arena_.data() + layouts_[map].plain.offset + channel * layouts_[map].plain.plane;
  }
  float* plain_to_write(int map, int channel) const {
    return arena_.data() + layouts_[map].plain.offset + channel * layouts_[map].plain.plane;
  }

  const KernelTable& kernels_;
  const ModelSpec& spec_;
  const ModelSteps& steps_;
  std::vector<Layout> layouts_;  // of each map
  std::vector<Buffer> buffers_;
  std::vector<Convolution> convolutions_;  // of each step; empty where it is none
  Arena arena_{0};
  int64_t work_ = 0;  // vector operations of an image
};

}  // namespace sparcl
