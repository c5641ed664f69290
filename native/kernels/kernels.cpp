// All kernels for one instruction set: compiled once per set with SPARCL_ISA naming it (see CMakeLists.txt).
#include "kernels.h"

#define SPARCL_JOIN_(a, b) a##b
#define SPARCL_JOIN(a, b) SPARCL_JOIN_(a, b)
#define SPARCL_TEXT_(a) #a
#define SPARCL_TEXT(a) SPARCL_TEXT_(a)

namespace sparcl {
namespace {

#include "augment.inc"
#include "sgd.inc"

}  // namespace

extern const KernelTable SPARCL_JOIN(kernels_, SPARCL_ISA);
const KernelTable SPARCL_JOIN(kernels_, SPARCL_ISA) = {SPARCL_TEXT(SPARCL_ISA), augment, sgd};

}  // namespace sparcl
