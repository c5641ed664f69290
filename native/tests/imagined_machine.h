// A machine for tests of Crew, whose time passes as fast as one likes.
//
// Cores that are given to a thread for 4 ms at a time, to the one that had least of all that want it. Hogs stay on the
// core of their number; the threads of processes go where the fewest are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../parallel/crew.h"

class ImaginedMachine {
 public:
  ImaginedMachine(int cores, int processes)
      : computing(processes), cores_(cores), processes_(static_cast<size_t>(processes)) {
    for (Process& process : processes_) process.threads.resize(static_cast<size_t>(cores));
    had_.resize(static_cast<size_t>(cores));
  }

  int hogs = 0;
  int computing;      // so many of the processes; the others are idle
  int64_t every = 0;  // a host that takes a core away: for one turn in so many; 0: never

  int size(int process) const { return processes_[process].crew.size(); }
  bool crowded(int process) const { return processes_[process].crew.crowded(); }

  // Lets time pass, and says in which part of it a condition held.
  template <class Condition>
  double run(int milliseconds, const Condition& condition) {
    int turns = 0, met = 0;
    for (; turns * 4 < milliseconds; ++turns) {
      turn();
      met += condition() ? 1 : 0;
    }
    return static_cast<double>(met) / turns;
  }

 private:
  struct Thread {
    sparcl::ThreadTime time;
    int64_t had = 0;
  };
  struct Process {
    sparcl::Crew crew;
    std::vector<Thread> threads;
  };

  void turn() {
    constexpr int64_t length = 4000000;
    std::vector<std::vector<int64_t*>> wanted(static_cast<size_t>(cores_));  // what each of its threads has had
    for (int hog = 0; hog < hogs; ++hog) wanted[hog % cores_].push_back(&had_[hog % cores_]);
    for (int p = 0; p < computing; ++p)
      for (int t = 0; t < processes_[p].crew.size(); ++t) {
        // Threads of the same crew are moved about, as a real scheduler does from time to time.
        auto place = wanted.begin();
        for (int i = 0; i < cores_; ++i)
          if (const auto core = wanted.begin() + (i + turn_ / 4) % cores_; core->size() < place->size()) place = core;
        Thread& thread = processes_[p].threads[t];
        thread.time.awake += length;
        thread.time.lost += length;
        place->push_back(&thread.had);
      }
    for (int core = 0; core < cores_; ++core) {
      if (wanted[core].empty() || (every != 0 && turn_ % every == 0 && core == 0)) continue;
      int64_t& next = **std::min_element(wanted[core].begin(), wanted[core].end(),
                                         [](const int64_t* a, const int64_t* b) { return *a < *b; });
      next += length;
      for (Process& process : processes_)
        for (Thread& thread : process.threads)
          if (&thread.had == &next) thread.time.lost -= length;
    }
    ++turn_;
    for (int p = 0; p < computing; ++p) {
      Process& process = processes_[p];
      std::vector<sparcl::ThreadTime> times;
      for (const Thread& thread : process.threads) times.push_back(thread.time);
      process.crew.judge(turn_ * length, cores_, times);
      int64_t most = 0;  // who did not want a core meanwhile may not have more of it later
      for (const Thread& thread : process.threads) most = std::max(most, thread.had);
      for (size_t t = static_cast<size_t>(process.crew.size()); t < process.threads.size(); ++t)
        process.threads[t].had = most;
    }
  }

  int cores_;
  int64_t turn_ = 0;
  std::vector<int64_t> had_;
  std::vector<Process> processes_;
};
