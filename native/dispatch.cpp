#include "dispatch.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace sparcl {

#if defined(__x86_64__)
extern const KernelTable kernels_v2, kernels_v3, kernels_v4;
#else
extern const KernelTable kernels_native_baseline;
#endif

const KernelTable* const* available_kernels() {
  static const std::array<const KernelTable*, 4> all = [] {  // filled once, however many threads ask
    std::array<const KernelTable*, 4> found{};
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v2")) found[count++] = &kernels_v2;
    if (__builtin_cpu_supports("x86-64-v3")) found[count++] = &kernels_v3;
    if (__builtin_cpu_supports("x86-64-v4")) found[count++] = &kernels_v4;
#else
    found[count++] = &kernels_native_baseline;
#endif
    if (count == 0) throw std::runtime_error("this processor is older than x86-64-v2, which SparCL needs");
    return found;
  }();
  return all.data();
}

static const KernelTable& choose() {
  const KernelTable* const* found = available_kernels();
  const char* wanted = std::getenv("SPARCL_ISA");
  const KernelTable* newest = nullptr;
  std::string names;
  for (; *found != nullptr; ++found) {
    newest = *found;
    names += std::string(names.empty() ? "" : ", ") + newest->name;
    if (wanted != nullptr && std::strcmp(wanted, newest->name) == 0) return *newest;
  }
  if (wanted != nullptr && *wanted != '\0') {
    throw std::runtime_error("SPARCL_ISA=" + std::string(wanted) + " is not available here; choose one of: " + names);
  }
  return *newest;
}

const KernelTable& kernels() {
  static const KernelTable& chosen = choose();
  return chosen;
}

}  // namespace sparcl
