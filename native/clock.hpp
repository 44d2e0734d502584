// The one clock of the host side: monotonic, nanoseconds, not slewed backwards by NTP steps.
#pragma once

#include <time.h>

#include <cstdint>

namespace busbw {

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace busbw
