// How many cores this process may use. A container shows all cores of its machine and lets processes run on a part of
// them: threads beyond that part only wait for each other.
//
//   /proc/self/cgroup            one line for each hierarchy: number:controllers:path
//   version 2   <path>/cpu.max                            "100000 100000", or "max 100000"
//   version 1   <path>/cpu.cfs_quota_us, cpu.cfs_period_us   quota -1: none
//
// Every group above may have a quota of its own; the smallest holds.
#include "usable_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "parallel_for.h"

namespace sparcl {
namespace {

int cores_of_affinity() {
  // Machines with more cores than the usual set has room for need a larger one.
  for (int room = 1024; room <= 1 << 16; room *= 4) {
    cpu_set_t* set = CPU_ALLOC(room);
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(room);
    const bool known = sched_getaffinity(0, size, set) == 0;
    const int count = known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (known) return count;
  }
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

double quota_of(const std::string& group, bool version_2) {
  double quota = -1, period = 0;
  if (version_2) {
    std::string word;
    std::ifstream file(group + "/cpu.max");
    if (!(file >> word >> period) || word == "max") return no_quota;
    quota = std::strtod(word.c_str(), nullptr);
  } else {
    std::ifstream(group + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(group + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : no_quota;
}

// The group itself and all above it. Inside a container the path may be one that only the machine outside knows; then
// the root of what is mounted is the container's own group.
double smallest_quota(const std::string& root, std::string path, bool version_2) {
  double smallest = quota_of(root, version_2);
  while (path.size() > 1) {
    smallest = std::min(smallest, quota_of(root + path, version_2));
    path.erase(path.find_last_of('/'));
  }
  return smallest;
}

bool names_cpu(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

}  // namespace

double cpu_quota(const std::string& process_groups, const std::string& mounted) {
  double smallest = no_quota;
  std::ifstream groups(process_groups);
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (path.empty() || path[0] != '/' || path.find("..") != std::string::npos) continue;
    if (controllers.empty()) {
      for (const char* root : {"", "/unified"})
        smallest = std::min(smallest, smallest_quota(mounted + root, path, true));
    } else if (names_cpu(controllers)) {
      for (const std::string& root : {std::string("cpu"), controllers})
        smallest = std::min(smallest, smallest_quota(mounted + "/" + root, path, false));
    }
  }
  return smallest;
}

int usable_cores() {
  const double quota = std::round(std::min<double>(cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"), max_threads));
  return std::clamp(std::min(cores_of_affinity(), static_cast<int>(quota)), 1, max_threads);
}

}  // namespace sparcl
