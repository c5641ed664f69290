// Work that may throw, shared by threads.
#pragma once

#include <exception>

namespace sparcl {

// Calls work(i) for every i below `count`, the last first. An exception must not leave a parallel region: it is thrown
// when all are done.
template <class Work>
void on_threads(int count, int threads, const Work& work) {
  std::exception_ptr failure;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
  for (int i = count - 1; i >= 0; --i) {
    try {
      work(i);
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sparcl
