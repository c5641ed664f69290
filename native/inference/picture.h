// From a picture of any size to the pixels a model takes.
#pragma once

#include <cstdint>

#include "model_file.h"

namespace sparcl {

// `rgb` is [height][width][3]; `pixels` becomes [channels][height][width] of the model's input (1 channel: grey).
void prepare_picture(const ModelNode& input, const uint8_t* rgb, int width, int height, uint8_t* pixels);

}  // namespace sparcl
