// Work that may throw, shared by threads.
#pragma once

#include <exception>
#include <mutex>

#include "../parallel/parallel_for.h"

namespace sparcl {

// Calls work(i) for every i below `count`, the last first. An exception is thrown when all are done.
template <class Work>
void on_threads(int count, int threads, const Work& work) {
  std::exception_ptr failure;
  std::mutex failing;
  parallel_for(count, threads, [&](int item) {
    try {
      work(count - 1 - item);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failing);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sparcl
