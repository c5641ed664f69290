// How long a thread was ready to run and another thread had its core: wall time that is missing from its CPU time.
//
// Asking for the CPU time is a system call, so it is asked for about once per millisecond of work, however short the
// loops are. Only the thread itself calls `resume`, `running` and `pause`; anyone may read the totals.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "crew.h"

namespace sparcl {

inline int64_t time_of(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

inline int64_t now() { return time_of(CLOCK_MONOTONIC); }

class LostTime {
 public:
  // The thread begins to work. Where it stopped only a moment ago, it is as if it had not stopped at all.
  void resume(int64_t time) {
    if (time - seen_ <= a_moment) return running(time);
    pause();
    anchor_ = time;
    anchor_cpu_ = time_of(CLOCK_THREAD_CPUTIME_ID);
    seen_ = time;
  }

  // The thread works, and has done so ever since it was last seen here.
  void running(int64_t time) {
    seen_ = time;
    if (time - anchor_ < between_readings) return;
    const int64_t cpu = time_of(CLOCK_THREAD_CPUTIME_ID), passed = time - anchor_;
    add(passed, std::clamp<int64_t>(passed - (cpu - anchor_cpu_), 0, passed));
    anchor_ = time;
    anchor_cpu_ = cpu;
  }

  // What comes next is not work: the thread sleeps, or it is another thread.
  void pause() {
    if (seen_ > anchor_) add(seen_ - anchor_, 0);  // since the last reading, so too little to have lost much
    anchor_ = seen_ = 0;
  }

  // It was to work for so long and did not get a core.
  void add_lost(int64_t time) { add(time, time); }

  ThreadTime total() const { return {awake_.load(std::memory_order_relaxed), lost_.load(std::memory_order_relaxed)}; }

 private:
  static constexpr int64_t a_moment = 50000;            // nanoseconds
  static constexpr int64_t between_readings = 1000000;  // the system takes a core away for longer than this

  void add(int64_t awake, int64_t lost) {  // only one thread writes
    awake_.store(awake_.load(std::memory_order_relaxed) + awake, std::memory_order_relaxed);
    lost_.store(lost_.load(std::memory_order_relaxed) + lost, std::memory_order_relaxed);
  }

  std::atomic<int64_t> awake_{0}, lost_{0};
  int64_t anchor_ = 0, anchor_cpu_ = 0, seen_ = 0;
};

}  // namespace sparcl
