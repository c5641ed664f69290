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
#include "activate.inc"
#include "map.inc"
#include "prefetch.inc"
// The kernels.
#include "adamw.inc"
#include "augment.inc"
#include "combine.inc"
#include "conv.inc"
#include "conv_weight.inc"
#include "digest.inc"
#include "pack.inc"
#include "sgd.inc"
#include "winograd.inc"
// The operations that are files of their own.
#include "../operations/table.inc"

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
                                                       digest,
                                                       pack,
                                                       unpack,
                                                       &SPARCL_JOIN(flat_kernels_, SPARCL_ISA),
                                                       operation_table,
                                                       sizeof operation_table / sizeof operation_table[0]};

}  // namespace sparcl
