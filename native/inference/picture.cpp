#include "picture.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model_error.h"

namespace sparcl {
namespace {

constexpr int max_picture_side = 1 << 15;
constexpr int64_t max_pixels = int64_t{1} << 27;

// One output pixel is a weighted sum of input pixels first, first + 1, ...
struct Taps {
  int first;
  std::vector<float> weights;
};

// A triangle filter over `size` pixels from `start` on: as wide as one output pixel, but not narrower than one input
// pixel, so that shrinking smooths and enlarging interpolates.
std::vector<Taps> triangle(double start, double size, int inputs, int outputs) {
  const double scale = size / outputs, support = std::max(scale, 1.0);
  std::vector<Taps> taps(outputs);
  for (int i = 0; i < outputs; ++i) {
    const double centre = start + (i + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(centre - support + 0.5), 0, inputs - 1);
    const int last = std::clamp(static_cast<int>(centre + support + 0.5), first + 1, inputs);
    Taps& tap = taps[i];
    tap.first = first;
    double total = 0.0;
    for (int k = first; k < last; ++k) {
      const double weight = std::max(0.0, 1.0 - std::abs(k + 0.5 - centre) / support);
      tap.weights.push_back(static_cast<float>(weight));
      total += weight;
    }
    if (total <= 0.0) tap.weights.front() = 1.0f, total = 1.0;
    for (float& weight : tap.weights) weight = static_cast<float>(weight / total);
  }
  return taps;
}

uint8_t rounded(float value) { return static_cast<uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f)); }

}  // namespace

void prepare_picture(const ModelNode& input, const uint8_t* rgb, int width, int height, uint8_t* pixels) {
  expect(input.channels == 3 || input.channels == 1,
         "the model does not take pictures: it has neither 1 nor 3 channels");
  expect(width > 0 && height > 0 && width <= max_picture_side && height <= max_picture_side &&
             static_cast<int64_t>(width) * height <= max_pixels,
         "the picture is empty or too large");
  double cut_width = width, cut_height = height;
  const double proportion = static_cast<double>(input.width) / input.height;
  if (cut_width > cut_height * proportion) {
    cut_width = cut_height * proportion;
  } else {
    cut_height = cut_width / proportion;
  }
  const std::vector<Taps> across = triangle((width - cut_width) / 2, cut_width, width, input.width);
  const std::vector<Taps> down = triangle((height - cut_height) / 2, cut_height, height, input.height);
  const int first_row = down.front().first;
  const int rows = down.back().first + static_cast<int>(down.back().weights.size()) - first_row;
  std::vector<uint8_t> narrow(static_cast<size_t>(rows) * input.width * 3);
  for (int r = 0; r < rows; ++r) {
    const uint8_t* row = rgb + static_cast<int64_t>(first_row + r) * width * 3;
    for (int c = 0; c < input.width; ++c) {
      for (int colour = 0; colour < 3; ++colour) {
        float total = 0.0f;
        for (size_t k = 0; k < across[c].weights.size(); ++k)
          total += across[c].weights[k] * row[(across[c].first + k) * 3 + colour];
        narrow[(static_cast<size_t>(r) * input.width + c) * 3 + colour] = rounded(total);
      }
    }
  }
  const int64_t plane = static_cast<int64_t>(input.height) * input.width;
  for (int r = 0; r < input.height; ++r) {
    for (int c = 0; c < input.width; ++c) {
      uint8_t colours[3];
      for (int colour = 0; colour < 3; ++colour) {
        float total = 0.0f;
        for (size_t k = 0; k < down[r].weights.size(); ++k)
          total += down[r].weights[k] *
                   narrow[((down[r].first - first_row + k) * input.width + c) * 3 + static_cast<size_t>(colour)];
        colours[colour] = rounded(total);
      }
      uint8_t* to = pixels + static_cast<int64_t>(r) * input.width + c;
      if (input.channels == 1) {  // how bright it looks
        *to = static_cast<uint8_t>((colours[0] * 19595 + colours[1] * 38470 + colours[2] * 7471 + 0x8000) >> 16);
      } else {
        for (int colour = 0; colour < 3; ++colour) to[colour * plane] = colours[colour];
      }
    }
  }
}

}  // namespace sparcl
