#include "crew.h"

#include <algorithm>
#include <cmath>

namespace sparcl {
namespace {

constexpr int64_t ms = 1000000;
constexpr int64_t between_judgements = 2 * ms;

// Schedulers give a thread some milliseconds at a time, and many tasks are short: what is seen in less time is chance.
constexpr int64_t short_window = 100 * ms, long_window = 250 * ms;
constexpr int64_t seen_enough = 5 * ms;  // of a thread, to say what it lost
constexpr double displaced = 0.35;       // of a thread's time, when it shares its core with somebody
constexpr double everywhere = 0.33;      // of all threads' time, when every core is shared with somebody
constexpr double undisturbed = 0.1;
constexpr int64_t noticeable = 40 * ms;  // lost in a short window by one thread; half of it while all are being tried

constexpr int64_t fewer_at_first = 100 * ms, fewer_at_most = 2000 * ms;
constexpr int64_t steady = 300 * ms;  // after which trying all has succeeded

// Crowded processes try fewer threads when the clock that they share shows a multiple of this, so all at once: if they
// are in nobody's way but each other's, they find that out.
constexpr int64_t between_trials = 4000 * ms;

}  // namespace

Crew::Loss Crew::loss(const std::vector<ThreadTime>& threads) const {
  Loss found;
  for (size_t t = 0; t < std::min<size_t>(size_, threads.size()); ++t) {
    const ThreadTime before = t < before_.size() ? before_[t] : ThreadTime{};
    const int64_t awake = threads[t].awake - before.awake, lost = threads[t].lost - before.lost;
    if (awake < seen_enough) continue;
    const double part = static_cast<double>(lost) / static_cast<double>(awake);
    found.cores += part;
    found.worst = std::max(found.worst, part);
    found.longest = std::max(found.longest, lost);
  }
  found.average = found.cores / size_;
  return found;
}

// Nobody can be done without in part.
int Crew::Loss::whole_cores() const { return static_cast<int>(std::ceil(cores)); }

int64_t Crew::window_length() const { return mode_ == Mode::all ? short_window : long_window; }

void Crew::change(Mode mode, int size, int64_t time, int64_t until) {
  mode_ = mode;
  size_ = std::max(size, 1);
  since_ = time;
  until_ = until;
  window_ = 0;
}

void Crew::judge(int64_t time, int cores, const std::vector<ThreadTime>& threads) {
  next_ = time + between_judgements;
  if (cores != cores_) {
    cores_ = cores;
    fewer_for_ = fewer_at_first;
    change(Mode::all, cores, time, 0);
  }
  if (window_ != 0 && cores > 1) judge_window(time, loss(threads));
  if (window_ != 0 && time - window_ < window_length()) return;
  window_ = time;
  before_ = threads;
}

void Crew::judge_window(int64_t time, const Loss& lost) {
  const bool whole = time - window_ >= window_length(), others = lost.worst >= displaced;
  switch (mode_) {
    case Mode::all:
      if (!others || lost.longest < (time - since_ < short_window ? noticeable / 2 : noticeable)) return;
      fewer_for_ = time - since_ < steady ? std::min(2 * fewer_for_, fewer_at_most) : fewer_at_first;
      return change(Mode::fewer, size_ - lost.whole_cores(), time, time + fewer_for_);
    case Mode::fewer:
      if (whole && lost.average >= everywhere) {
        change(Mode::crowded, cores_, time, (time / between_trials + 1) * between_trials);
      } else if (whole && others && size_ > 1) {
        change(Mode::fewer, size_ - lost.whole_cores(), time, until_);
      } else if (time >= until_ && (whole || !others)) {
        change(Mode::all, cores_, time, 0);
      }
      return;
    case Mode::crowded:
      if (whole && lost.worst < undisturbed) {
        change(Mode::all, cores_, time, 0);
      } else if (time >= until_) {
        change(Mode::fewer, cores_ / 2, time, time + fewer_at_most);
      }
  }
}

}  // namespace sparcl
