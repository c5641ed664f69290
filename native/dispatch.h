// The choice of the instruction set, made once when the engine is loaded.
#pragma once

#include "kernels/kernels.h"

namespace sparcl {

// The kernels in use: the newest instruction set this processor has, or the one SPARCL_ISA names.
const KernelTable& kernels();

// The instruction sets that were compiled in and that this processor can run, oldest first; null-terminated.
const KernelTable* const* available_kernels();

}  // namespace sparcl
