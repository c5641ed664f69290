// The workers behind parallel_for.
//
// A job is a range of items for each participant: the caller (0) and the workers (1, 2, ...). Everyone takes items from
// the front of its own range, and when that is empty from the back of the others'. Taking an item is one compare and
// swap, so a worker that is not running when the job is published (it sleeps, or another process has its core) is not
// waited for: the others take its items. Only an item that somebody has begun must be waited for.
//
//   ranges     [ first item | end | participants ]   one word each, in a cache line of its own
//   unfinished items that are not done; the caller returns when it is 0
//   published  how many jobs there were; workers that find nothing to do wait for it to change
//   sleeping   of each worker, whether it must be woken; workers that do not participate are left asleep
//
// A worker reads what the job is only after it has taken an item of it: from then on the job cannot end without it. So
// a worker that was asleep through any number of jobs does no harm.
//
// Waiting: a little while with the core kept busy, because waking takes longer than most pauses between two jobs, then
// asleep in the kernel. Where others want all cores the little while is next to nothing: a core that is kept busy for
// nothing is taken from somebody, perhaps from the very thread that is waited for.
//
// Every thread measures how much of its time others had its core; from that follows how many participate (crew.h).
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <vector>

#include "crew.h"
#include "item_range.h"
#include "lost_time.h"
#include "parallel_for.h"
#include "usable_cores.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sparcl {
namespace {

constexpr int64_t microsecond = 1000;
constexpr int64_t quiet_wait = 1000 * microsecond;    // before a thread sleeps, where a core is left for it
constexpr int64_t crowded_wait = 5 * microsecond;     // where others want every core
constexpr int64_t usual_waking = 500 * microsecond;   // a thread that takes longer did not get a core
constexpr int64_t cores_for = 1000000 * microsecond;  // how long the number of usable cores is believed
constexpr size_t stack_size = 1 << 20;                // kernels keep up to 64 KB of sums there

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// What was stored past the caches must be seen by the others.
void finish_stores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

struct alignas(64) Participant {
  std::atomic<uint32_t> sleeping{0};
  std::atomic<int64_t> woken{0};  // when it was told to wake
  alignas(64) LostTime time;      // which it changes all the time, and others look at `sleeping` in every loop
};

class Pool {
 public:
  void run(int items, int threads, ItemsFunction function, const void* work);
  void stop();

  // Around fork: no job is under way then, and the child begins without workers.
  void before_fork() { callers_.lock(); }
  void after_fork_in_parent() { callers_.unlock(); }
  void after_fork_in_child();

 private:
  struct Start {
    Pool* pool;
    int worker;
  };
  static void* start(void* given);
  void live(int worker);
  bool help(int worker);
  void sleep(int worker, uint32_t seen);
  void wake_workers(int participants, int64_t time);
  void add_workers(int wanted);
  void begin(int64_t time);
  void wait_for_workers(int64_t begun, int64_t time);
  // Waits until `done` says so, awake; false: nothing has happened since `idle` for too long. 0: now is when it began.
  template <class Done>
  bool wait_awake(const Done& done, int worker, int64_t& idle, int64_t patience);

  std::mutex callers_;  // one job at a time
  int workers_ = 0;
  bool stopped_ = false;
  pthread_t caller_{};
  int64_t cores_read_ = 0;
  int cores_ = 1;
  Crew crew_;
  std::vector<ThreadTime> times_;
  Participant participants_[max_threads];
  Range ranges_[max_threads];

  alignas(64) std::atomic<uint32_t> published_{0};  // with it, in one cache line, what a worker needs to know
  std::atomic<int> participating_{1};
  std::atomic<bool> stopping_{false}, crowded_{false};
  ItemsFunction function_ = nullptr;
  const void* work_ = nullptr;

  alignas(64) std::atomic<uint32_t> unfinished_{0};
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) pthread_t threads_[max_threads];
};

template <class Done>
bool Pool::wait_awake(const Done& done, int worker, int64_t& idle, int64_t patience) {
  while (true) {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause();
    }
    const int64_t time = now();
    participants_[worker].time.running(time);
    if (idle == 0) idle = time;
    if (time - idle >= (crowded_.load(std::memory_order_relaxed) ? crowded_wait : patience)) return false;
  }
}

// Takes items until there are none, and says whether there were any; the last one to finish wakes the caller.
bool Pool::help(int worker) {
  ItemsFunction function = nullptr;
  const void* work = nullptr;
  uint32_t done = 0;
  const int participating = participating_.load(std::memory_order_relaxed);
  if (worker >= participating) return false;
  for (int t = 0; t < participating; ++t) {
    Range& from = ranges_[(worker + t) % participating];
    for (Taken taken; (taken = take(from, t == 0, worker)).first < taken.end;) {
      if (done == 0) {
        function = function_;
        work = work_;
      }
      function(work, taken.first, taken.end, worker);
      done += static_cast<uint32_t>(taken.end - taken.first);
    }
  }
  if (done == 0) return false;
  finish_stores();
  if (unfinished_.fetch_sub(done) == done && worker != 0 && caller_sleeps_.load()) wake(unfinished_);
  return true;
}

void Pool::live(int worker) {
  uint32_t seen = published_.load();
  int64_t idle = 0;
  participants_[worker].time.resume(now());
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (help(worker)) idle = 0;
    if (!wait_awake([&] { return published_.load(std::memory_order_relaxed) != seen; }, worker, idle, quiet_wait)) {
      sleep(worker, seen);
      idle = 0;
    }
    seen = published_.load();
  }
}

void Pool::sleep(int worker, uint32_t seen) {
  Participant& self = participants_[worker];
  self.time.pause();
  self.sleeping.store(1);
  // Whoever publishes looks who sleeps afterwards: one of the two notices the other.
  if (published_.load() == seen) {
    while (self.sleeping.load() == 1) sleep_while(self.sleeping, 1);
    const int64_t late = now() - self.woken.load(std::memory_order_relaxed);
    if (late > usual_waking) self.time.add_lost(late);
  } else {
    self.sleeping.store(0);
  }
  self.time.resume(now());
}

void Pool::wake_workers(int participants, int64_t time) {
  for (int worker = 1; worker < participants; ++worker) {
    Participant& other = participants_[worker];
    if (other.sleeping.load() == 0) continue;
    other.woken.store(time, std::memory_order_relaxed);
    if (other.sleeping.exchange(0) == 1) wake(other.sleeping);
  }
}

void* Pool::start(void* given) {
  const Start begin = *static_cast<Start*>(given);
  delete static_cast<Start*>(given);
  char name[16];
  std::snprintf(name, sizeof name, "sparcl-%d", begin.worker);
  pthread_setname_np(pthread_self(), name);
  begin.pool->live(begin.worker);
  return nullptr;
}

// As many as can be had: with fewer the caller does more itself.
void Pool::add_workers(int wanted) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_size);
  sigset_t every, before;  // signals are for the program's own threads
  sigfillset(&every);
  pthread_sigmask(SIG_BLOCK, &every, &before);
  while (workers_ < wanted) {
    Start* begin = new Start{this, workers_ + 1};
    if (pthread_create(&threads_[workers_], &attributes, start, begin) != 0) {
      delete begin;
      break;
    }
    ++workers_;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

// The caller's time begins to count, and now and then the crew is judged.
void Pool::begin(int64_t time) {
  if (cores_read_ == 0 || time - cores_read_ > cores_for) {
    cores_ = usable_cores();
    cores_read_ = time;
  }
  LostTime& own = participants_[0].time;
  const pthread_t self = pthread_self();
  if (!pthread_equal(caller_, self)) own.pause();
  caller_ = self;
  own.resume(time);
  if (!crew_.due(time, cores_)) return;
  times_.resize(1 + workers_);
  for (int worker = 0; worker <= workers_; ++worker) times_[worker] = participants_[worker].time.total();
  crew_.judge(time, cores_, times_);
  crowded_.store(crew_.crowded(), std::memory_order_relaxed);
}

void run_alone(int items, ItemsFunction function, const void* work) {
  if (items > 0) function(work, 0, items, 0);
  finish_stores();
}

void Pool::run(int items, int threads, ItemsFunction function, const void* work) {
  // Another Python thread's job is under way: its workers are taken.
  const std::unique_lock<std::mutex> lock(callers_, std::try_to_lock);
  if (!lock.owns_lock() || stopped_) return run_alone(items, function, work);
  const int64_t begun = now();
  begin(begun);
  const int wanted = std::min({threads, items, max_threads, crew_.size()});
  if (wanted > 1 + workers_) add_workers(wanted - 1);
  const int participants = std::min(wanted, 1 + workers_);
  LostTime& own = participants_[0].time;
  if (participants < 2 || items > most_items) {
    run_alone(items, function, work);
    return own.running(now());
  }
  function_ = function;
  work_ = work;
  participating_.store(participants, std::memory_order_relaxed);
  unfinished_.store(static_cast<uint32_t>(items), std::memory_order_relaxed);
  for (int64_t t = 0; t < participants; ++t)
    ranges_[t].rest.store(range(items * t / participants, items * (t + 1) / participants, participants),
                          std::memory_order_release);
  published_.fetch_add(1);
  wake_workers(participants, begun);
  help(0);
  const int64_t time = now();
  own.running(time);
  wait_for_workers(begun, time);
}

// Patience grows with the work: items of large loops are large.
void Pool::wait_for_workers(int64_t begun, int64_t time) {
  const auto done = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
  int64_t idle = 0;
  if (wait_awake(done, 0, idle, quiet_wait + (time - begun) / 4)) return;
  participants_[0].time.pause();
  caller_sleeps_.store(true);
  for (uint32_t left; (left = unfinished_.load()) != 0;) sleep_while(unfinished_, left);
  caller_sleeps_.store(false);
}

void Pool::after_fork_in_child() {
  workers_ = 0;
  for (Participant& participant : participants_) {
    participant.sleeping.store(0);
    participant.time.pause();
  }
  caller_sleeps_.store(false);
  callers_.unlock();
}

// When the library is unloaded no thread may be left in its code.
void Pool::stop() {
  const std::unique_lock<std::mutex> lock(callers_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  stopped_ = true;
  stopping_.store(true);
  published_.fetch_add(1);
  wake_workers(1 + workers_, now());
  for (int worker = 0; worker < workers_; ++worker) pthread_join(threads_[worker], nullptr);
  workers_ = 0;
}

Pool* the_pool = nullptr;  // never deleted: threads of a program that ends may still use it
unsigned forks = 0;

Pool& pool() {
  static const bool made = [] {
    the_pool = new Pool;
    pthread_atfork([] { the_pool->before_fork(); }, [] { the_pool->after_fork_in_parent(); },
                   [] {
                     ++forks;
                     the_pool->after_fork_in_child();
                   });
    return true;
  }();
  static_cast<void>(made);
  return *the_pool;
}

struct AtUnload {
  ~AtUnload() {
    if (the_pool != nullptr) the_pool->stop();
  }
} at_unload;

}  // namespace

void run_items(int items, int threads, ItemsFunction function, const void* work) {
  if (threads <= 1 || items <= 1) {
    run_alone(items, function, work);
  } else {
    pool().run(items, threads, function, work);
  }
}

unsigned fork_generation() { return forks; }

}  // namespace sparcl
