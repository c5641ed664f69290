#include "model.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "batch_plan.h"
#include "flat_plan.h"
#include "model_file.h"

namespace sparcl {
namespace {

constexpr int64_t chunk_blocks = 2;                   // batches beyond are cut: more memory would not make them faster
constexpr int64_t max_batch_maps = int64_t{1} << 29;  // floats; images with larger maps are computed one by one

// Whether the maps of a chunk take a bearable amount of memory, even if all of them lived at once.
bool fit_in_batches(const ModelSteps& steps, int64_t images) {
  int64_t floats = 0;
  for (const MapSize& map : steps.maps) floats += map.channels * map.pixels();
  return floats <= max_batch_maps / images;
}

}  // namespace

Model::Model(const KernelTable& kernels, std::string_view file)
    : kernels_(kernels), spec_(read_model(file, kernels)), steps_(fuse(spec_)) {
  flat_ = std::make_unique<FlatPlan>(kernels_, spec_, steps_);
}

Model::Model(const KernelTable& kernels, std::vector<ModelNode> nodes)
    : kernels_(kernels), spec_{std::move(nodes), {}, {}, {}, "float32"}, steps_(fuse(spec_)) {
  flat_ = std::make_unique<FlatPlan>(kernels_, spec_, steps_);
}

Model::~Model() = default;

void Model::predict(const float* images, int64_t count, float* logits, int threads) {
  const std::lock_guard<ForkAwareMutex> lock(mutex_);
  const int64_t lanes = kernels_.lanes, floats = input().floats();
  while (count > 0) {
    int64_t now = std::min(count, chunk_blocks * lanes);
    // Vectors that are filled with images to three quarters do more than vectors of one image's pixels.
    if (4 * now >= 3 * lanes && fit_in_batches(steps_, chunk_blocks * lanes)) {
      if (4 * (now % lanes) < 3 * lanes && now > lanes) now = now / lanes * lanes;
      if (batch_ == nullptr) batch_ = std::make_unique<BatchPlan>(kernels_, spec_, steps_);
      batch_->run(images, static_cast<int>(now), logits, threads);
    } else {
      flat_->run(images, now, logits, threads);
    }
    images += now * floats;
    logits += now * outputs();
    count -= now;
  }
}

void Model::predict_pixels(const uint8_t* pixels, int64_t count, float* logits, int threads) {
  const int64_t floats = input().floats(), plane = floats / input().channels;
  const int64_t chunk = chunk_blocks * kernels_.lanes;
  std::vector<float> images(std::min(count, chunk) * floats);
  for (int64_t done = 0; done < count; done += chunk) {
    const int64_t now = std::min(chunk, count - done);
    for (int64_t i = 0; i < now * floats; ++i) {
      const int64_t channel = i / plane % input().channels;
      const float mean = spec_.mean[channel] * 255.0f, scale = 1.0f / (255.0f * spec_.deviation[channel]);
      images[i] = (static_cast<float>(pixels[done * floats + i]) - mean) * scale;
    }
    predict(images.data(), now, logits + done * outputs(), threads);
  }
}

}  // namespace sparcl
