// The workers: every item is computed once, whoever is there to compute it, also by several callers and after a fork.
// How many of them there should be is tried on a machine that is only imagined, so no test depends on this one.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../parallel/crew.h"
#include "../parallel/fork_aware_mutex.h"
#include "../parallel/lost_time.h"
#include "../parallel/parallel_for.h"
#include "../parallel/usable_cores.h"
#include "imagined_machine.h"

namespace {

int failures = 0;

void check(bool condition, const char* what) {
  if (condition) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

bool every_item_once(int items, int threads) {
  std::vector<std::atomic<int>> count(static_cast<size_t>(items));
  sparcl::parallel_for(items, threads, [&](int item) { count[item].fetch_add(1); });
  for (const auto& one : count)
    if (one != 1) return false;
  return true;
}

void items() {
  for (int threads : {1, 2, 3, 8, sparcl::max_threads})
    for (int count : {0, 1, 2, 3, 7, 64, 1000, 100000}) check(every_item_once(count, threads), "every item once");
  for (int repeat = 0; repeat < 20000; ++repeat)  // workers fall asleep and wake in between
    check(every_item_once(repeat % 5, 2), "every item of a small loop once");
  std::atomic<int64_t> sum{0};
  sparcl::parallel_for_ranges(100001, 4, [&](int64_t first, int64_t last) {
    int64_t part = 0;
    for (int64_t i = first; i < last; ++i) part += i;
    sum += part;
  });
  check(sum == int64_t{100000} * 100001 / 2, "ranges cover everything");
}

void workers_have_memory_of_their_own() {
  for (int threads : {1, 2, 3, 16}) {
    std::vector<std::atomic<bool>> taken(static_cast<size_t>(threads));
    std::atomic<bool> alone{true};
    sparcl::parallel_for_workers(500, threads, [&](int, int worker) {
      if (worker < 0 || worker >= threads || taken[worker].exchange(true)) alone = false;
      std::this_thread::yield();
      if (worker >= 0 && worker < threads) taken[worker] = false;
    });
    check(alone, "a worker's number belongs to one running item at a time");
  }
}

// Loops with many and with few threads take turns: a worker that knows the one must not help in the other.
void callers_at_once() {
  std::atomic<bool> right{true};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&, caller] {
      for (int repeat = 0; repeat < 2000; ++repeat)
        if (!every_item_once(1 + repeat % 50, 1 + (caller + repeat) % 5)) right = false;
    });
  for (std::thread& caller : callers) caller.join();
  check(right, "several callers at once");
}

bool child_succeeds(int (*work)()) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void forks() {
  check(every_item_once(100, 2), "before a fork");
  check(child_succeeds([] { return every_item_once(1000, 2) ? 0 : 1; }), "loops after a fork");
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) every_item_once(50, 2);
  });
  bool right = true;
  for (int repeat = 0; repeat < 50; ++repeat) right &= child_succeeds([] { return every_item_once(1000, 2) ? 0 : 1; });
  stop = true;
  busy.join();
  check(right, "loops after a fork beside a thread that computes");

  static sparcl::ForkAwareMutex mutex;
  std::atomic<bool> held{false}, release{false};
  std::thread holder([&] {
    mutex.lock();
    held = true;
    while (!release) std::this_thread::yield();
    mutex.unlock();
  });
  while (!held) std::this_thread::yield();
  check(child_succeeds([] {
          try {
            mutex.lock();
            return 1;
          } catch (const std::runtime_error&) {
            return 0;
          }
        }),
        "what a thread held when the process was forked is refused");
  release = true;
  holder.join();
  check(child_succeeds([] {
          mutex.lock();
          mutex.unlock();
          return 0;
        }),
        "what nobody held can be used");
}

// Control groups as they look in a folder of our own.
void quotas() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("sparcl-quota-" + std::to_string(getpid()));
  const auto write = [&](const char* path, const char* content) {
    fs::create_directories((folder / path).parent_path());
    std::ofstream(folder / path) << content;
  };
  const auto quota = [&] { return sparcl::cpu_quota(folder / "groups", folder / "mounted"); };
  check(quota() == sparcl::no_quota, "no control groups, no quota");
  write("groups", "0::/a/b\n");
  write("mounted/a/b/cpu.max", "max 100000\n");
  check(quota() == sparcl::no_quota, "version 2 without a limit");
  write("mounted/a/cpu.max", "150000 100000\n");
  check(quota() == 1.5, "version 2, a limit of the group above");
  write("mounted/a/b/cpu.max", "50000 100000\n");
  check(quota() == 0.5, "version 2, the smallest limit holds");
  write("groups", "0::/outside/of/the/container\n");
  write("mounted/cpu.max", "200000 100000\n");
  check(quota() == 2, "version 2, a path that only the machine knows");
  write("groups", "12:memory:/x\n3:cpu,cpuacct:/x\n");
  check(quota() == sparcl::no_quota, "version 1 without a limit");
  write("mounted/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  write("mounted/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  check(quota() == sparcl::no_quota, "version 1 with -1 for none");
  write("mounted/cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n");
  check(quota() == 3, "version 1 with a limit");
  write("groups", "3:cpu\nnonsense\n:::\n5:cpu:relative\n6:cpu:/../..\n");
  check(quota() == sparcl::no_quota, "lines that make no sense");
  fs::remove_all(folder);
  check(sparcl::usable_cores() >= 1 && sparcl::usable_cores() <= sparcl::max_threads, "at least one core");
}

void crews() {
  {
    ImaginedMachine machine(2, 1);
    check(machine.run(10000, [&] { return machine.size(0) == 2; }) == 1, "a quiet machine: all cores, always");
    machine.every = 10;
    check(machine.run(10000, [&] { return machine.size(0) == 2; }) == 1, "a host takes a core now and then: all cores");
  }
  {
    ImaginedMachine machine(2, 1);
    machine.hogs = 1;
    machine.run(1000, [] { return true; });
    check(machine.run(10000, [&] { return machine.size(0) == 1; }) > 0.9, "one core of two taken: one thread");
    machine.hogs = 0;
    machine.run(2500, [] { return true; });
    check(machine.run(3000, [&] { return machine.size(0) == 2; }) == 1, "the core is free again: all cores");
    machine.hogs = 2;
    machine.run(1000, [] { return true; });
    check(machine.run(7000, [&] { return machine.size(0) == 2 && machine.crowded(0); }) > 0.85,
          "both cores taken: a share of each");
    machine.hogs = 0;
    machine.run(600, [] { return true; });  // that is before fewer are tried again
    check(machine.run(1000, [&] { return machine.size(0) == 2 && !machine.crowded(0); }) == 1,
          "both cores are free again: all cores");
  }
  {
    ImaginedMachine machine(2, 2);
    const auto one_each = [&] { return machine.size(0) == 1 && machine.size(1) == 1; };
    machine.run(1000, [] { return true; });
    check(machine.run(10000, one_each) > 0.85, "two processes: a core for each");
  }
  {
    ImaginedMachine machine(2, 2);
    const auto one_each = [&] { return machine.size(0) == 1 && machine.size(1) == 1; };
    machine.hogs = 2;
    machine.computing = 1;
    machine.run(900, [] { return true; });
    machine.computing = 2;
    machine.run(1000, [] { return true; });
    check(machine.crowded(0) && machine.crowded(1), "two processes and two hogs: crowded");
    machine.hogs = 0;
    machine.run(9000, [] { return true; });
    check(machine.run(10000, one_each) > 0.85, "two processes, crowded before: a core for each");
  }
  {
    ImaginedMachine machine(8, 1);
    machine.hogs = 2;
    machine.run(1000, [] { return true; });
    check(machine.run(10000, [&] { return machine.size(0) >= 5 && machine.size(0) <= 7; }) > 0.8,
          "two cores of eight taken: about six threads");
  }
  {
    ImaginedMachine machine(64, 1);
    machine.hogs = 32;
    machine.run(600, [] { return true; });
    check(machine.run(500, [&] { return machine.size(0) >= 24 && machine.size(0) <= 40; }) > 0.8,
          "half of many cores taken: about half of the threads, and soon");
  }
  sparcl::Crew crew;
  check(crew.due(0, 4), "a new crew");
  crew.judge(1, 4, {});
  check(crew.size() == 4 && crew.due(2, 1) && !crew.due(2, 4), "a change of the usable cores is judged at once");
  crew.judge(2, 1, {});
  check(crew.size() == 1, "one usable core");
}

void lost_time() {
  const auto lost = [](bool working) {
    sparcl::LostTime time;
    time.resume(sparcl::now());
    if (!working) time.pause();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // without a core, as if it had been taken away
    if (working) time.running(sparcl::now());
    time.pause();
    return time.total().lost;
  };
  check(lost(true) > 15000000, "time without a core is lost");
  check(lost(false) == 0, "time asleep is not");
}

}  // namespace

int main() {
  crews();
  lost_time();
  items();
  workers_have_memory_of_their_own();
  callers_at_once();
  forks();
  quotas();
  std::printf("parallel_test: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
