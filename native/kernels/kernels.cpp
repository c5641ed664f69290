// All kernels for one instruction set: compiled once per set with SPARCL_ISA naming it (see CMakeLists.txt).
#include "kernels.h"

#include "../parallel/parallel_for.h"
#include "vector.h"

#define SPARCL_JOIN_(a, b) a##b
#define SPARCL_JOIN(a, b) SPARCL_JOIN_(a, b)
#define SPARCL_TEXT_(a) #a
#define SPARCL_TEXT(a) SPARCL_TEXT_(a)

namespace sparcl {
namespace {

// First what the others use.
#include "map.inc"
// The kernels.
#include "adamw.inc"
#include "ahead.inc"
#include "augment.inc"
#include "combine.inc"
#include "conv.inc"
#include "conv_weight.inc"
#include "linear.inc"
#include "pack.inc"
#include "pool.inc"
#include "sgd.inc"
#include "winograd.inc"

}  // namespace

extern const FlatKernels SPARCL_JOIN(flat_kernels_, SPARCL_ISA);
extern const KernelTable SPARCL_JOIN(kernels_, SPARCL_ISA);
const KernelTable SPARCL_JOIN(kernels_, SPARCL_ISA) = {SPARCL_TEXT(SPARCL_ISA),
                                                       lanes,
                                                       accumulators,
                                                       augment,
                                                       sgd,
                                                       adamw,
                                                       convolve,
                                                       weight_gradient,
                                                       winograd,
                                                       winograd_gradient,
                                                       combine,
                                                       combine_backward,
                                                       max_pool,
                                                       max_pool_backward,
                                                       average_pool,
                                                       average_pool_backward,
                                                       linear,
                                                       linear_backward,
                                                       pack,
                                                       unpack,
                                                       &SPARCL_JOIN(flat_kernels_, SPARCL_ISA)};

}  // namespace sparcl
