// How many threads a process computes with while others want the cores.
//
// Two processes with two threads each on two cores get in each other's way: a thread that loses its core in the middle
// of an item keeps all the others waiting. With one thread each they do not notice each other. So:
//
//   all      every core. A thread loses its core for a good part of the time -> fewer
//   fewer    as many threads less as cores were lost. From time to time all are tried again, less and less often.
//            Threads still lose much of their time, so somebody is on every core -> crowded
//   crowded  every core, each for the share of its time that is left. From time to time fewer are tried again.
//
// A machine that takes a core away for a few milliseconds now and then is not a competitor.
// Nothing here reads a clock or knows a thread, so tests can invent both.
#pragma once

#include <cstdint>
#include <vector>

namespace sparcl {

struct ThreadTime {  // nanoseconds, totals since the thread began
  int64_t awake = 0;
  int64_t lost = 0;  // of these, how long it waited for a core
};

class Crew {
 public:
  // How many threads should compute, and whether a core that is kept busy by waiting is missed by somebody.
  int size() const { return size_; }
  bool crowded() const { return mode_ == Mode::crowded; }

  // Whether it is time to judge again; that is seldom.
  bool due(int64_t time, int cores) const { return time >= next_ || cores != cores_; }

  // `threads` are the totals of the first threads, at least size() of them; missing ones have lost nothing.
  void judge(int64_t time, int cores, const std::vector<ThreadTime>& threads);

 private:
  enum class Mode { all, fewer, crowded };
  struct Loss {
    double cores = 0;    // that were lost, of all that were used
    double average = 0;  // of a thread's time
    double worst = 0;
    int64_t longest = 0;  // nanoseconds that one thread lost
    int whole_cores() const;
  };

  Loss loss(const std::vector<ThreadTime>& threads) const;
  void change(Mode mode, int size, int64_t time, int64_t until);
  void judge_window(int64_t time, const Loss& lost);
  int64_t window_length() const;

  Mode mode_ = Mode::all;
  int cores_ = 0, size_ = 1;
  int64_t next_ = 0;
  int64_t since_ = 0, until_ = 0;  // of the mode
  int64_t fewer_for_ = 0;
  int64_t window_ = 0;  // when the times before_ were taken
  std::vector<ThreadTime> before_;
};

}  // namespace sparcl
