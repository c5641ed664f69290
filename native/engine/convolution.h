// One convolution of a network: its weight in every order that is needed, and its three passes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "entry_lists.h"
#include "tiles.h"
#include "winograd.h"

namespace sparcl {

// What can be tuned of a pass. Every setting gives the same numbers up to rounding.
struct ConvolveKnobs {
  int32_t shape;     // of the tiles: index into tile_shapes
  int32_t channels;  // in a block
};

struct GradientKnobs {  // the blocks of channels are those of the forward pass, whose list it shares
  int32_t shape;
  bool over_batch;
};

struct Knobs {
  ConvolveKnobs forward, data;
  GradientKnobs gradient;
};

class ConvolutionLayer {
 public:
  ConvolutionLayer(const ConvolutionShape& shape, int lanes, int accumulators);

  const ConvolutionShape& shape() const { return shape_; }
  const Knobs& knobs() const { return knobs_; }
  int64_t active() const { return static_cast<int64_t>(positions_.size()); }
  // Whether the weight is dense and computed after Winograd. Lists, tiles and knobs then serve only gradients at chosen
  // weights.
  bool uses_winograd() const { return winograd_.has_value(); }

  // The active weights changed. `places` (null: in order) tells where in the stored weight each one lies.
  void set_active(const int32_t* positions, const int32_t* places, int64_t count);
  // Which of the active weights get gradients: places in the order of `positions`, rising. All of them: clear.
  void set_updated(const int32_t* chosen, int64_t count);
  void clear_updated();
  void set_knobs(const Knobs& knobs);

  // Takes over the weights' current values.
  void refresh(const float* values, bool with_data_lists);

  // The same for inference: every output channel's weights are multiplied by its scale.
  void refresh_scaled(const float* values, const std::vector<float>& scale);

  // `scratch` is working memory that layers share.
  void forward(const KernelTable& kernels, const float* x, float* y, Batch batch, const Epilogue& epilogue,
               std::vector<float>& scratch, int threads);
  void data_gradient(const KernelTable& kernels, const float* dy, float* dx, Batch batch, bool accumulate,
                     std::vector<float>& scratch, int threads);
  // Adds to `gradients` (in the order of the stored weight).
  void weight_gradient(const KernelTable& kernels, const float* x, const float* dy, float* gradients, Batch batch,
                       std::vector<float>& scratch, int threads);
  // Adds the gradients of all positions to `dense` [weights], and those of the active ones to `gradients`.
  void dense_weight_gradient(const KernelTable& kernels, const float* x, const float* dy, float* gradients,
                             float* dense, Batch batch, std::vector<float>& scratch, int threads);

 private:
  struct Pass {  // of a convolution: one list and the tiles it is applied to
    Ordered list;
    bool dense = false;  // the kernel for dense weights is used
    std::vector<Tile> tiles;
    std::vector<int32_t> ranges;
    int64_t first_pixel = 0;
  };

  struct Side {  // a map that is read, or written
    const float* data;
    Extent extent;
  };
  struct Steps {  // pixels between neighbouring tile positions
    int32_t in, out;
  };

  Active active_weights() const;
  bool dense() const { return active() == shape_.weights(); }
  void use(const Knobs& knobs);
  void build_forward(const float* values);
  void build_data(const float* values);
  void build_masked_gradient();
  void fill(Pass& pass, const float* values);
  void split(Pass& pass, int blocks, int threads);
  void run(const KernelTable& kernels, Pass& pass, const Side& from, const Side& to, Steps steps, Batch batch,
           bool accumulate, const Epilogue& epilogue, int threads);
  int sum_gradient(const KernelTable& kernels, const Ordered& list, const float* x, const float* dy, Batch batch,
                   std::vector<float>& scratch, int threads);

  ConvolutionShape shape_;
  int lanes_, accumulators_;
  Knobs knobs_;
  bool tuned_ = false;  // else the knobs follow the density
  std::vector<int32_t> positions_, places_;
  std::vector<bool> updated_;  // one an active weight
  bool all_updated_ = true;
  Pass forward_;
  std::vector<Pass> data_;
  Ordered masked_gradient_;  // of the updated weights, when these are not all
  std::vector<Tile> gradient_tiles_;
  bool forward_built_ = false, data_built_ = false, masked_built_ = false;
  std::optional<WinogradWeight> winograd_;
};

// Sensible knobs for a layer: what the tuner starts from, and what is used without it.
Knobs default_knobs(const ConvolutionShape& shape, double density, int accumulators);

}  // namespace sparcl
