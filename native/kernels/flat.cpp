// Convolution of a single image, pixels in the lanes (flat.h has the layout).
//
//   for each tile of output pixels (up to 16 vectors: 16 registers)
//     for each output channel                                       registers <- bias
//       for each entry of the weight                                registers += weight * x[place ... place + tile]
//                                                                   y <- relu(registers + residual)
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

template <int Vectors>
SPARCL_INLINE void finish_flat(const FlatConvolution& job, const vec* sums, int output, int first) {
  float* y = job.y + output * job.y_plane + first;
  const float* residual = job.residual != nullptr ? job.residual + output * job.residual_plane + first : nullptr;
  const int left = job.pixels - first;
#pragma GCC unroll 16
  for (int i = 0; i < Vectors; ++i) {
    const int count = left - i * lanes;
    if (count <= 0) break;
    vec v = sums[i];
    if (residual != nullptr) v += load_some(residual + i * lanes, count);
    store_some(y + i * lanes, job.relu ? relu(v) : v, count);
  }
}

template <int Vectors, class Place>
void flat_tile(const FlatConvolution& given, const Place* places, int first_output, int last_output, int first) {
  constexpr int chains = Vectors >= 8 ? 1 : 8 / Vectors;
  const FlatConvolution job = given;
  const float* const x = job.x + first;
  const int64_t unit = job.unit;
  for (int output = first_output; output < last_output; ++output) {
    int32_t i = job.starts[output];
    const int32_t last = job.starts[output + 1];
    vec sums[chains * Vectors];
    const vec bias = broadcast(job.bias[output]);
#pragma GCC unroll 16
    for (int k = 0; k < chains * Vectors; ++k) sums[k] = k < Vectors ? bias : vec{};
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
    finish_flat<Vectors>(job, sums, output, first);
  }
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
      finish_flat<Vectors>(job, sums + o * Vectors, group + o, first);
  }
}

constexpr int most_flat = accumulators;  // vectors in a tile
constexpr int most_flat_dense = accumulators / 4;

template <class Place>
void convolve_flat_by(const FlatConvolution& job, const Place* places, int first, int last) {
  const bool dense = job.starts == nullptr;
  const int most = dense ? most_flat_dense : most_flat;
  int vectors;
  for (int pixel = 0; pixel < job.pixels; pixel += vectors * lanes) {
    const int needed = (job.pixels - pixel + lanes - 1) / lanes;
    vectors = 1;
    while (vectors < needed && vectors < most) vectors *= 2;
    if (4 * needed < 3 * vectors) vectors /= 2;  // a second, smaller tile is better than much that nobody needs
    if (dense) {
      if (vectors == 1) flat_dense_tile<1>(job, places, first, last, pixel);
      if (vectors == 2) flat_dense_tile<2>(job, places, first, last, pixel);
      if constexpr (most_flat_dense >= 4)
        if (vectors == 4) flat_dense_tile<4>(job, places, first, last, pixel);
    } else {
      if (vectors == 1) flat_tile<1>(job, places, first, last, pixel);
      if (vectors == 2) flat_tile<2>(job, places, first, last, pixel);
      if (vectors == 4) flat_tile<4>(job, places, first, last, pixel);
      if (vectors == 8) flat_tile<8>(job, places, first, last, pixel);
      if constexpr (most_flat >= 16)
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

// One row of a shifted plane: every Step-th pixel, from column `shift` on; zero where there is none.
template <int Step>
SPARCL_INLINE void spread_row(const float* row, float* to, int width, int columns, int shift) {
  int c = 0;
  if (shift < 0) to[c++] = 0.0f;
  int inside = (width - shift + Step - 1) / Step;  // columns whose pixel is left of the right edge
  if (inside > columns) inside = columns;
  for (; c < inside; ++c) to[c] = row[c * Step + shift];
  for (; c < columns; ++c) to[c] = 0.0f;
}

template <int Step>
SPARCL_INLINE void spread_taps(const SpreadJob& job, int channel) {
  const int rows = (job.height - 1) / Step + 1, columns = (job.width - 1) / Step + 1;
  const float* x = job.x + channel * job.x_plane;
  for (int tap = 0; tap < 9; ++tap) {
    if (tap == 4 && job.centre_is_there) continue;
    float* to = job.y + (static_cast<int64_t>(channel) * 9 + tap) * job.y_plane;
    for (int r = 0; r < rows; ++r, to += columns) {
      const int row = r * Step + tap / 3 - 1;
      if (row < 0 || row >= job.height) {
        for (int c = 0; c < columns; ++c) to[c] = 0.0f;
      } else {
        spread_row<Step>(x + static_cast<int64_t>(row) * job.width, to, job.width, columns, tap % 3 - 1);
      }
    }
  }
}

SPARCL_INLINE void spread_rows(const SpreadJob& job, int channel) {
  const float* x = job.x + channel * job.x_plane;
  for (int shift = -1; shift <= 1; ++shift) {
    float* to = job.y + (static_cast<int64_t>(channel) * 3 + shift + 1) * job.y_plane;
    for (int c = 0; c < job.width; ++c) to[c] = 0.0f;
    to += job.width;
    for (int r = 0; r < job.height; ++r, to += job.width)
      if (shift != 0 || !job.centre_is_there)
        spread_row<1>(x + static_cast<int64_t>(r) * job.width, to, job.width, job.width, shift);
    for (int c = 0; c < job.width; ++c) to[c] = 0.0f;
  }
}

void spread(const SpreadJob& job, int first, int last) {
  for (int channel = first; channel < last; ++channel) {
    if (job.kind == Spread::rows) {
      spread_rows(job, channel);
    } else if (job.kind == Spread::taps) {
      spread_taps<1>(job, channel);
    } else {
      spread_taps<2>(job, channel);
    }
  }
}

void linear_flat(const FlatLinear& job, int first, int last) {
  for (int output = first; output < last; ++output) {
    const float* weight = job.weight + static_cast<int64_t>(output) * job.features;
    vec sums{};
    int i = 0;
    for (; i + lanes <= job.features; i += lanes) sums += load_anywhere(job.x + i) * load_anywhere(weight + i);
    float total = job.bias[output] + sum(sums);
    for (; i < job.features; ++i) total += job.x[i] * weight[i];
    job.y[output] = total;
  }
}

}  // namespace

extern const FlatKernels SPARCL_JOIN(flat_kernels_, SPARCL_ISA);
const FlatKernels SPARCL_JOIN(flat_kernels_, SPARCL_ISA) = {convolve_flat, spread, linear_flat};

}  // namespace sparcl
