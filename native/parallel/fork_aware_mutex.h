// A mutex that some thread holds while the process is forked stays locked in the child for ever, for that thread is not
// there. Here, locking it in the child is an error instead of an endless wait.
#pragma once

#include <atomic>
#include <mutex>
#include <stdexcept>

#include "parallel_for.h"

namespace sparcl {

class ForkAwareMutex {
 public:
  void lock() {
    const unsigned here = fork_generation() + 1;
    if (!mutex_.try_lock()) {
      const unsigned holder = holder_.load();
      if (holder != 0 && holder != here)
        throw std::runtime_error("another thread was using the network when the process was forked; load it again");
      mutex_.lock();
    }
    holder_.store(here);
  }

  void unlock() {
    holder_.store(0);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::atomic<unsigned> holder_{0};  // in which process it is held, as a generation of forks; 0: not held
};

}  // namespace sparcl
