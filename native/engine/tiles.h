// Covering an image with tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "../kernels/kernels.h"

namespace sparcl {

// The output pixels to cover, and the map they are computed from: output pixel (r, c) looks at input pixels around
// (r * step, c * step).
struct TileGrid {
  int32_t rows, columns;
  int32_t input_height, step;
  bool input_padded;
};

// Tiles of the wanted shape, and of smaller shapes where it does not fit.
std::vector<Tile> cover(const TileGrid& grid, int shape);

// Whether a shape can be used: an unpadded map needs tiles as wide as itself.
bool fits(const TileGrid& grid, int shape);

}  // namespace sparcl
