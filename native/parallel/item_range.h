// Items of a loop that nobody has taken yet, in one word: [ first | end | participants of the loop ].
//
// The number of participants is part of it because a worker may come late, to a loop that it has no part in.
#pragma once

#include <atomic>
#include <cstdint>

namespace sparcl {

constexpr int most_items = (1 << 24) - 1;

struct alignas(64) Range {
  std::atomic<uint64_t> rest{0};
};

constexpr uint64_t range(uint64_t first, uint64_t end, uint64_t participants) {
  return first | end << 24 | participants << 48;
}

struct Taken {
  int first, end;
};

// Takes an eighth of what is left, at least one item, from the front or the back; nothing where there is nothing for
// this worker. Small items are taken many at a time, and nobody ever holds much that others wait for.
inline Taken take(Range& from, bool front, int worker) {
  uint64_t rest = from.rest.load(std::memory_order_relaxed);
  while (true) {
    const uint64_t first = rest & most_items, end = rest >> 24 & most_items, participants = rest >> 48;
    if (first >= end || static_cast<uint64_t>(worker) >= participants) return {0, 0};
    const uint64_t count = (end - first + 7) / 8;
    const uint64_t left = front ? range(first + count, end, participants) : range(first, end - count, participants);
    if (from.rest.compare_exchange_weak(rest, left, std::memory_order_acquire, std::memory_order_relaxed)) {
      const int start = static_cast<int>(front ? first : end - count);
      return {start, start + static_cast<int>(count)};
    }
  }
}

}  // namespace sparcl
