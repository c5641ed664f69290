#include "tiles.h"

namespace sparcl {
namespace {

uint8_t edges_of(const TileGrid& grid, int row, TileShape shape) {
  uint8_t edges = 0;
  if (row == 0) edges |= top;
  if ((row + shape.rows - 1) * grid.step + 1 >= grid.input_height) edges |= bottom;
  if (!grid.input_padded) edges |= left | right;
  return edges;
}

void add(std::vector<Tile>& tiles, const TileGrid& grid, int row, int column, int shape) {
  tiles.push_back({static_cast<int16_t>(row), static_cast<int16_t>(column), static_cast<uint8_t>(shape),
                   edges_of(grid, row, tile_shapes[shape])});
}

// One row of pixels from `column` on, by tiles of one row: of the given shape, then ever narrower ones.
void cover_row(std::vector<Tile>& tiles, const TileGrid& grid, int row, int column, int widest) {
  for (int shape = widest; column < grid.columns;) {
    if (column + tile_shapes[shape].columns <= grid.columns) {
      add(tiles, grid, row, column, shape);
      column += tile_shapes[shape].columns;
    } else {
      --shape;
    }
  }
}

}  // namespace

bool fits(const TileGrid& grid, int shape) {
  const TileShape tile = tile_shapes[shape];
  return grid.input_padded || (tile.rows > 1 && tile.columns == 4 && grid.columns == 4 && grid.rows % tile.rows == 0);
}

std::vector<Tile> cover(const TileGrid& grid, int shape) {
  const TileShape tile = tile_shapes[shape];
  const int widest_row = tile.rows == 1 ? shape : 3;  // what a tall tile leaves is covered by tiles of 8 or less
  std::vector<Tile> tiles;
  int row = 0;
  for (; row + tile.rows <= grid.rows; row += tile.rows) {
    int column = 0;
    for (; column + tile.columns <= grid.columns; column += tile.columns) add(tiles, grid, row, column, shape);
    for (int r = row; r < row + tile.rows; ++r) cover_row(tiles, grid, r, column, widest_row);
  }
  for (; row < grid.rows; ++row) cover_row(tiles, grid, row, 0, widest_row);
  return tiles;
}

}  // namespace sparcl
