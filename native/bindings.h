// What the parts of the Python module share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "parallel/parallel_for.h"

namespace sparcl {

namespace nb = nanobind;

template <typename T, int Dimensions>
using Array = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

inline void check_threads(int threads) {
  require(threads >= 1 && threads <= max_threads, "between 1 and 512 threads are needed");
}

void bind_engine(nb::module_& module);
void bind_model(nb::module_& module);

}  // namespace sparcl
