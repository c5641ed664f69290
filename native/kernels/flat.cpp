// Convolution of a single image, pixels in the lanes (flat.h has the layout).
//
//   for each tile of the run (up to 16 vectors: 16 registers)
//     for each block of input channels                              its part of the input stays in L1
//       for each output channel                                     registers <- bias, or y so far
//         for each entry of the weight                              registers += weight * x[place ... place + tile]
//                                                                   y <- registers; in the last block with residual
//                                                                   and activation
//
// One broadcast of a weight serves the whole tile. Maps of a few vectors have tiles of 1, 2 or 4, which alone would
// wait for the multiply-add before: there, several sums are kept for each pixel and added in the end.
//
// Compiled once for each instruction set, as kernels.cpp is, and under the same rules (kernels.h).
#include "flat.h"

#include "vector.h"

#define SPARCL_JOIN_(a, b) a##b
#define SPARCL_JOIN(a, b) SPARCL_JOIN_(a, b)

namespace sparcl {
namespace {

#include "activate.inc"

typedef float vec_anywhere __attribute__((vector_size(4 * lanes), aligned(4)));

SPARCL_INLINE vec load_anywhere(const float* p) { return *reinterpret_cast<const vec_anywhere*>(p); }

// Stores the first `count` lanes.
SPARCL_INLINE void store_some(float* p, vec v, int count) {
  if (count >= lanes) {
    *reinterpret_cast<vec_anywhere*>(p) = v;
  } else {
    for (int i = 0; i < count; ++i) p[i] = v[i];
  }
}

SPARCL_INLINE vec load_some(const float* p, int count) {
  if (count >= lanes) return load_anywhere(p);
  vec v{};
  for (int i = 0; i < count; ++i) v[i] = p[i];
  return v;
}

template <int Vectors, bool Last>
SPARCL_INLINE void store_flat(const FlatConvolution& job, const vec* sums, int output, int first) {
  float* y = job.y + output * job.y_plane + first;
  const float* residual = job.residual != nullptr ? job.residual + output * job.residual_plane + first : nullptr;
  const float* mask = job.mask != nullptr ? reinterpret_cast<const float*>(job.mask) + first : nullptr;
  const int left = job.end - first;
#pragma GCC unroll 16
  for (int i = 0; i < Vectors; ++i) {
    const int count = left - i * lanes;
    if (count <= 0) break;
    vec v = sums[i];
    if constexpr (Last) {
      if (residual != nullptr) v += load_some(residual + i * lanes, count);
      v = activate(v, job.activation);
      if (mask != nullptr) v = select(reinterpret_cast<ivec>(load_anywhere(mask + i * lanes)), v);
    }
    store_some(y + i * lanes, v, count);
  }
}

template <int Vectors>
SPARCL_INLINE void begin_flat(const FlatConvolution& job, vec* sums, int output, int first, bool begun) {
  const float* y = job.y + output * job.y_plane + first;
  const int left = job.end - first;
#pragma GCC unroll 16
  for (int i = 0; i < Vectors; ++i)
    sums[i] = begun ? load_some(y + i * lanes, left - i * lanes) : broadcast(job.bias[output]);
}

// One block of input channels.
template <int Vectors, bool Last, class Place>
void flat_block(const FlatConvolution& given, const Place* places, int first_output, int last_output, int first,
                int block) {
  constexpr int chains = Vectors >= 8 ? 1 : 8 / Vectors;
  const FlatConvolution job = given;
  const float* const x = job.x + first;
  const int64_t unit = job.unit;
  const int32_t* const starts = job.starts + static_cast<int64_t>(block) * job.outputs;
  for (int output = first_output; output < last_output; ++output) {
    int32_t i = starts[output];
    const int32_t last = starts[output + 1];
    vec sums[chains * Vectors];
    begin_flat<Vectors>(job, sums, output, first, block > 0);
#pragma GCC unroll 16
    for (int k = Vectors; k < chains * Vectors; ++k) sums[k] = vec{};
    for (; i + chains <= last; i += chains) {
#pragma GCC unroll 8
      for (int c = 0; c < chains; ++c) {
        const float* from = x + places[i + c] * unit;
        const vec weight = broadcast(job.weights[i + c]);
#pragma GCC unroll 16
        for (int k = 0; k < Vectors; ++k) sums[c * Vectors + k] += load_anywhere(from + k * lanes) * weight;
      }
    }
    for (; i < last; ++i) {
      const float* from = x + places[i] * unit;
      const vec weight = broadcast(job.weights[i]);
#pragma GCC unroll 16
      for (int k = 0; k < Vectors; ++k) sums[k] += load_anywhere(from + k * lanes) * weight;
    }
#pragma GCC unroll 8
    for (int c = 1; c < chains; ++c)
#pragma GCC unroll 16
      for (int k = 0; k < Vectors; ++k) sums[k] += sums[c * Vectors + k];
    store_flat<Vectors, Last>(job, sums, output, first);
  }
}

template <int Vectors, class Place>
void flat_tile(const FlatConvolution& job, const Place* places, int first_output, int last_output, int first) {
  int block = 0;
  for (; block + 1 < job.blocks; ++block)
    flat_block<Vectors, false>(job, places, first_output, last_output, first, block);
  flat_block<Vectors, true>(job, places, first_output, last_output, first, block);
}

// All outputs of a dense weight read the same places, so an input is loaded once for several of them.
template <int Vectors, class Place>
void flat_dense_tile(const FlatConvolution& given, const Place* places, int first_output, int last_output, int first) {
  const FlatConvolution job = given;
  const float* const x = job.x + first;
  const int64_t unit = job.unit;
  for (int group = first_output; group < last_output; group += dense_outputs) {
    const float* weights = job.weights + static_cast<int64_t>(group) * job.entries;
    vec sums[dense_outputs * Vectors];
#pragma GCC unroll 4
    for (int o = 0; o < dense_outputs; ++o)
#pragma GCC unroll 4
      for (int k = 0; k < Vectors; ++k)
        sums[o * Vectors + k] = broadcast(group + o < job.outputs ? job.bias[group + o] : 0.0f);
    for (int32_t i = 0; i < job.entries; ++i, weights += dense_outputs) {
      const float* from = x + places[i] * unit;
      vec in[Vectors];
#pragma GCC unroll 4
      for (int k = 0; k < Vectors; ++k) in[k] = load_anywhere(from + k * lanes);
#pragma GCC unroll 4
      for (int o = 0; o < dense_outputs; ++o) {
        const vec weight = broadcast(weights[o]);
#pragma GCC unroll 4
        for (int k = 0; k < Vectors; ++k) sums[o * Vectors + k] += in[k] * weight;
      }
    }
    for (int o = 0; o < dense_outputs && group + o < last_output; ++o)
      store_flat<Vectors, true>(job, sums + o * Vectors, group + o, first);
  }
}

constexpr int max_flat = accumulators;  // vectors in a tile
constexpr int max_flat_dense = accumulators / 4;

template <class Place>
void convolve_flat_by(const FlatConvolution& job, const Place* places, int first, int last) {
  const bool dense = job.starts == nullptr;
  const int most = dense ? max_flat_dense : max_flat;
  int vectors;
  for (int pixel = job.begin; pixel < job.end; pixel += vectors * lanes) {
    const int needed = (job.end - pixel + lanes - 1) / lanes;
    vectors = 1;
    while (vectors < needed && vectors < most) vectors *= 2;
    if (4 * needed < 3 * vectors) vectors /= 2;  // a second, smaller tile is better than much that nobody needs
    if (dense) {
      if (vectors == 1) flat_dense_tile<1>(job, places, first, last, pixel);
      if (vectors == 2) flat_dense_tile<2>(job, places, first, last, pixel);
      if constexpr (max_flat_dense >= 4)
        if (vectors == 4) flat_dense_tile<4>(job, places, first, last, pixel);
    } else {
      if (vectors == 1) flat_tile<1>(job, places, first, last, pixel);
      if (vectors == 2) flat_tile<2>(job, places, first, last, pixel);
      if (vectors == 4) flat_tile<4>(job, places, first, last, pixel);
      if (vectors == 8) flat_tile<8>(job, places, first, last, pixel);
      if constexpr (max_flat >= 16)
        if (vectors == 16) flat_tile<16>(job, places, first, last, pixel);
    }
  }
}

void convolve_flat(const FlatConvolution& job, int first, int last) {
  if (job.places != nullptr) {
    convolve_flat_by(job, job.places, first, last);
  } else {
    convolve_flat_by(job, job.wide_places, first, last);
  }
}

// A channel moved by `shift` floats, zero where the mask says so.
SPARCL_INLINE void move(const float* x, float* y, const int32_t* mask, int run, int shift) {
  const float* bits = reinterpret_cast<const float*>(mask);
  for (int i = 0; i < run; i += lanes) {
    const vec v = load_anywhere(x + i + shift);  // reads beside the map, but within its memory
    store_some(y + i, select(reinterpret_cast<ivec>(load_some(bits + i, run - i)), v), run - i);
  }
}

SPARCL_INLINE void spread_rows(const SpreadJob& job, int channel) {
  const int run = job.height * job.width;
  // The rows above and below the wanted ones are read, too.
  const int first = job.first_row > 0 ? (job.first_row - 1) * job.width : 0;
  const int last = job.last_row < job.height ? (job.last_row + 1) * job.width : run;
  const float* x = job.x + channel * job.x_plane + first;
  for (int column = 0; column < 3; ++column) {
    float* y = job.y + (static_cast<int64_t>(channel) * 3 + column) * job.y_plane;
    for (int c = 0; c < job.width; ++c) {
      if (job.first_row == 0) y[c] = 0.0f;
      if (job.last_row == job.height) y[job.width + run + c] = 0.0f;
    }
    move(x, y + job.width + first, job.masks + column * run + first, last - first, column - 1);
  }
}

SPARCL_INLINE void spread_taps(const SpreadJob& job, int channel) {
  const int run = job.height * job.width;
  const float* x = job.x + channel * job.x_plane;
  for (int tap = 0; tap < 9; ++tap) {
    float* y = job.y + (static_cast<int64_t>(channel) * 9 + tap) * job.y_plane;
    move(x, y, job.masks + tap * run, run, (tap / 3 - 1) * job.width + tap % 3 - 1);
  }
}

// Every other pixel of a row, from column `shift` on; zero where there is none. Columns: how many, 0 if not known when
// this is compiled.
template <int Columns>
SPARCL_INLINE void halve_row(const float* row, float* to, int width, int shift) {
  if constexpr (Columns > 0) {  // the width is even
    to[0] = shift < 0 ? 0.0f : row[shift];
#pragma GCC unroll 16
    for (int c = 1; c < Columns; ++c) to[c] = row[2 * c + shift];
  } else {
    const int columns = (width + 1) / 2;
    for (int c = 0; c < columns; ++c) {
      const int from = 2 * c + shift;
      to[c] = from >= 0 && from < width ? row[from] : 0.0f;
    }
  }
}

template <int Columns>
void spread_halved(const SpreadJob& job) {
  const int columns = (job.width + 1) / 2;
  for (int64_t channel = 0; channel < job.channels; ++channel) {
    const float* x = job.x + channel * job.x_plane;
    for (int tap = job.middle_only ? 4 : 0; tap < (job.middle_only ? 5 : 9); ++tap) {
      float* to = job.y + (channel * 9 + tap) * job.y_plane + job.first_row * job.y_pitch;
      for (int r = job.first_row; r < job.last_row; ++r, to += job.y_pitch) {
        const int row = 2 * r + tap / 3 - 1;
        if (row < 0 || row >= job.height) {
          for (int c = 0; c < columns; ++c) to[c] = 0.0f;
        } else {
          halve_row<Columns>(x + static_cast<int64_t>(row) * job.pitch, to, job.width, tap % 3 - 1);
        }
      }
    }
  }
}

void halve(const SpreadJob& job) {
  if (job.width == 8) {
    spread_halved<4>(job);
  } else if (job.width == 16) {
    spread_halved<8>(job);
  } else if (job.width == 32) {
    spread_halved<16>(job);
  } else {
    spread_halved<0>(job);
  }
}

void spread(const SpreadJob& job) {
  if (job.kind == Spread::halved) return halve(job);
  for (int channel = 0; channel < job.channels; ++channel)
    job.kind == Spread::rows ? spread_rows(job, channel) : spread_taps(job, channel);
}

}  // namespace

extern const FlatKernels SPARCL_JOIN(flat_kernels_, SPARCL_ISA);
const FlatKernels SPARCL_JOIN(flat_kernels_, SPARCL_ISA) = {convolve_flat, spread};

}  // namespace sparcl
