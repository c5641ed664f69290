// Loops whose items are shared by the cores.
//
// How work is cut into items, and so the order of every sum, follows the setting `threads` and is decided by whoever
// calls. Who computes an item is decided here, from moment to moment, and never changes a result.
#pragma once

#include <cstdint>

namespace sparcl {

constexpr int max_threads = 512;  // that may be asked for

// Some neighbouring items. `worker` is below the `threads` of the loop and belongs to one running item at a time: for
// memory of its own.
using ItemsFunction = void (*)(const void* work, int first, int end, int worker);

// Computes all items and returns when the last one is done. Items must not throw. Kernels are compiled once for each
// instruction set, so they may share nothing inline with the rest: this is a plain function.
void run_items(int items, int threads, ItemsFunction function, const void* work);

template <class Work>  // work(item, worker)
void parallel_for_workers(int items, int threads, const Work& work) {
  const auto function = [](const void* given, int first, int end, int worker) {
    const Work local = *static_cast<const Work*>(given);  // what is read from it need not be read again for each item
    for (int item = first; item < end; ++item) local(item, worker);
  };
  run_items(items, threads, function, &work);
}

template <class Work>  // work(item)
void parallel_for(int items, int threads, const Work& work) {
  parallel_for_workers(items, threads, [work](int item, int) { work(item); });
}

// For many small things, such as the numbers of an array: an item is a range of them.
template <class Work>  // work(first, last)
void parallel_for_ranges(int64_t count, int threads, const Work& work) {
  constexpr int64_t together = 1 << 14;
  parallel_for(static_cast<int>((count + together - 1) / together), threads, [&](int item) {
    const int64_t first = item * together;
    work(first, first + together < count ? first + together : count);
  });
}

// How often this process has been forked from one that had used the engine.
unsigned fork_generation();

}  // namespace sparcl
