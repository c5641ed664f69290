// How many cores this process may use.
#pragma once

#include <string>

namespace sparcl {

// Its affinity, and the CPU quota of its control group, rounded.
int usable_cores();

constexpr double no_quota = 1e9;

// In cores. `process_groups` is /proc/self/cgroup, `mounted` where control groups are: /sys/fs/cgroup.
double cpu_quota(const std::string& process_groups, const std::string& mounted);

}  // namespace sparcl
