// One vector type for every instruction set: as many float lanes as its widest register holds.
//
// Activations are stored with `lanes` images innermost (see Extent in kernels.h), so kernels load and multiply whole
// vectors and never look inside one, except to sum a vector up (weight gradients, batch statistics).
#pragma once

#include <cstdint>
#if defined(__SSE__)
#include <immintrin.h>
#endif

#define SPARCL_INLINE inline __attribute__((always_inline))

namespace sparcl {
namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16;
constexpr int accumulators = 16;  // of 32 registers: beyond 16 the tiles only grow, the speed does not
constexpr int gradient_sums = 8;
constexpr int dense_columns = 6;  // of sums of a product of matrices with 4 rows; a row and a number need room too
#elif defined(__AVX__)
constexpr int lanes = 8;
constexpr int accumulators = 8;  // of 16 registers: a weight and a loaded pixel need room too
constexpr int gradient_sums = 8;
constexpr int dense_columns = 3;
#elif defined(__aarch64__)
constexpr int lanes = 4;
constexpr int accumulators = 16;
constexpr int gradient_sums = 8;
constexpr int dense_columns = 6;
#else
constexpr int lanes = 4;
constexpr int accumulators = 8;
constexpr int gradient_sums = 4;  // products need registers of their own: no multiply-add here
constexpr int dense_columns = 2;
#endif

typedef float vec __attribute__((vector_size(4 * lanes)));
typedef int32_t ivec __attribute__((vector_size(4 * lanes)));
typedef float vec4 __attribute__((vector_size(16)));
typedef float vec4_unaligned __attribute__((vector_size(16), aligned(4)));

SPARCL_INLINE vec load(const float* p) { return *reinterpret_cast<const vec*>(p); }
SPARCL_INLINE void store(float* p, vec v) { *reinterpret_cast<vec*>(p) = v; }
// For what will have left the caches before it is read: the line is not fetched first, and drives nothing else out.
// Other threads see it after `finish_stores`.
SPARCL_INLINE void store_nontemporal(float* p, vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, reinterpret_cast<__m512>(v));
#elif defined(__AVX__)
  _mm256_stream_ps(p, reinterpret_cast<__m256>(v));
#elif defined(__SSE__)
  _mm_stream_ps(p, reinterpret_cast<__m128>(v));
#else
  store(p, v);
#endif
}
SPARCL_INLINE void finish_stores() {
#if defined(__SSE__)
  _mm_sfence();
#endif
}
constexpr bool vector_is_line = sizeof(vec) == 64;
// Not a sum: 0 + f is not f where f is -0, so compilers would really add.
SPARCL_INLINE vec broadcast(float f) { return f - vec{}; }
SPARCL_INLINE vec select(ivec where, vec v) { return reinterpret_cast<vec>(reinterpret_cast<ivec>(v) & where); }
// Lanes 0..count-1 are ones (all bits), the rest zeros: the images that exist in the last block of a batch.
SPARCL_INLINE ivec first_lanes(int count) {
  ivec where;
  for (int i = 0; i < lanes; ++i) where[i] = i < count ? -1 : 0;
  return where;
}

// One bit a lane: which lanes are positive.
SPARCL_INLINE uint16_t positive_bits(vec v) {
#if defined(__AVX512F__)
  return static_cast<uint16_t>(_mm512_cmp_ps_mask(reinterpret_cast<__m512>(v), _mm512_setzero_ps(), _CMP_GT_OQ));
#elif defined(__AVX__)
  return static_cast<uint16_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(v > vec{})));
#elif defined(__SSE__)
  return static_cast<uint16_t>(_mm_movemask_ps(reinterpret_cast<__m128>(v > vec{})));
#else
  const ivec where = v > vec{};
  return static_cast<uint16_t>((where[0] & 1) | (where[1] & 2) | (where[2] & 4) | (where[3] & 8));
#endif
}

SPARCL_INLINE ivec from_bits(uint16_t bits) {
#if defined(__AVX512F__)
  return reinterpret_cast<ivec>(_mm512_maskz_set1_epi32(bits, -1));
#else
  ivec lane_bit;
  for (int i = 0; i < lanes; ++i) lane_bit[i] = 1 << i;
  return (lane_bit & static_cast<int32_t>(bits)) != ivec{};
#endif
}

// Sums of four vectors at once: {sum a, sum b, sum c, sum d}. Shuffles mix the vectors while they are wide, which takes
// half the instructions of summing them one by one.
#if defined(__AVX512F__)
SPARCL_INLINE vec4 sum4(vec a, vec b, vec c, vec d) {
  const vec ab = __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
                 __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  const vec cd = __builtin_shufflevector(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
                 __builtin_shufflevector(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  const vec s = __builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
                __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  typedef float vec8 __attribute__((vector_size(32)));
  const vec8 h = __builtin_shufflevector(s, s, 0, 1, 2, 3, 4, 5, 6, 7) +
                 __builtin_shufflevector(s, s, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
}
#elif defined(__AVX__)
SPARCL_INLINE vec4 sum4(vec a, vec b, vec c, vec d) {
  const vec ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) +
                 __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  const vec cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13) +
                 __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
  const vec s = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
  return __builtin_shufflevector(s, s, 0, 1, 2, 3) + __builtin_shufflevector(s, s, 4, 5, 6, 7);
}
#else
SPARCL_INLINE vec4 sum4(vec a, vec b, vec c, vec d) {
  const vec ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const vec cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
#endif

SPARCL_INLINE float sum(vec v) { return sum4(v, vec{}, vec{}, vec{})[0]; }

}  // namespace
}  // namespace sparcl
