// Predicting for one image at a time, pixels in the lanes of the vectors: how a device with a camera uses a model.
//
// Every step is shared by all threads, with a barrier after it. What one thread writes and another reads has to move
// from core to core, which is slow; so a thread computes rows of the image, of all channels, and the next step finds
// most of what it reads where it is. Only maps of a few vectors are shared by channels.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
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

 private:
  struct Layout {  // of a map (flat.h)
    bool padded = false;
    int32_t pitch = 1, run = 1;
    int64_t offset = -1, plane = 1;  // in the arena
    const int32_t* mask = nullptr;   // padded: of the run; else those of copies (see SpreadJob), if there are any
    // Zeros before the first channel.
    int64_t margin() const { return padded ? pitch + 1 : 0; }
  };
  struct Copies {  // that a convolution reads
    bool any = false;
    Spread kind = Spread::rows;
    int32_t pitch = 0;
    int64_t plane = 0;
    int planes() const { return kind == Spread::rows ? 3 : 9; }
  };
  struct Convolution {  // its weight, as the kernel reads it
    Copies copies;
    std::vector<uint16_t> places;
    std::vector<uint32_t> wide_places;
    std::vector<float> weights;
    std::vector<int32_t> starts;  // empty: dense
    std::vector<int32_t> shares;  // [outputs + 1] entries of all outputs before
    int32_t unit = 1, entries = 0, blocks = 1;
  };
  struct Share {  // what a thread does of a step: some outputs, some rows
    int first, last, first_row, last_row;
  };
  struct Thread {  // whose part of a step may be done by any of them
    int number, count;
    float* copies;  // memory of this part
  };

  Layout layout_for(const MapSize& size) const;
  Spread copies_for(const MapSize& size) const;
  Copies copies_of(const ModelStep& step) const;
  void need_mask(int map);
  void lay_out();
  void build(const ModelStep& step, Convolution& convolution);
  void build_dense(const Weight& weight, Convolution& convolution) const;
  void build_sparse(const ModelStep& step, const std::vector<uint32_t>& of_row, Convolution& convolution) const;
  int channels_in_block(const ModelStep& step, const Copies& copies, int64_t entries) const;
  int64_t place_of(const ModelStep& step, const Copies& copies, int64_t input, int tap) const;
  Share share_of(size_t step, const Thread& thread) const;
  void read_image(const float* image, const Thread& thread) const;
  void do_step(size_t index, const Thread& thread) const;
  void convolve(size_t index, const Share& share, const Thread& thread) const;
  void combine(const ModelStep& step, const Share& share) const;
  void operate(const ModelStep& step, const Share& share) const;
  void clear_padding(int map, const Share& share) const;
  float* pixels(int map, int64_t channel) const {
    return arena_.data() + layouts_[map].offset + channel * layouts_[map].plane;
  }

  const KernelTable& kernels_;
  const ModelSpec& spec_;
  const ModelSteps& steps_;
  std::vector<Layout> layouts_;                                // of each map
  std::map<std::pair<int, int>, std::vector<int32_t>> masks_;  // by height and width
  int64_t masks_size_ = 0;
  std::vector<Convolution> convolutions_;  // of each step; empty where it is none
  int64_t copies_size_ = 0;                // floats, of one thread
  Arena arena_{0};
  std::vector<Arena> copies_;  // of each thread
  int64_t work_ = 0;           // vector operations of an image
};

}  // namespace sparcl
