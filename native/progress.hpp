// How far this process has come with its calls, for the process that watches the ranks of its host: a rank
// that hangs, or was stopped, cannot say it. One cache line, written with plain stores and by the measuring
// thread alone; model/progress.py has the layout of the whole page.
#pragma once

#include "collective_call.hpp"

namespace busbw {

// What a thread does with calls that have returned. Of a stream's calls it knows what is complete only while
// it waits for the stream.
enum CallMode : uint64_t { kIssues = 0, kBlocks = 1, kWaitsForStream = 2 };

struct Progress {
  uint64_t entered;    // calls begun
  uint64_t enqueued;   // calls that have returned: done where they block, else in the stream
  uint64_t completed;  // calls that a stream was seen to have done; of lanes that block, those that are done
  uint64_t mode;       // of CallMode
};

// Where the counts go; null where nobody watches.
extern Progress* progress;

inline void store(uint64_t& word, uint64_t value) { __atomic_store_n(&word, value, __ATOMIC_RELAXED); }

inline CallMode mode_of(const BusbwCall& call) { return call.blocking ? kBlocks : kIssues; }

inline void set_mode(CallMode mode) {
  if (progress != nullptr) store(progress->mode, mode);
}

// Issues one call, counted.
inline int32_t issue_counted(const BusbwCall& call, uint64_t slot) {
  if (progress == nullptr) return call.issue(slot);
  store(progress->mode, mode_of(call));
  store(progress->entered, progress->entered + 1);
  const int32_t status = call.issue(slot);
  store(progress->enqueued, progress->enqueued + 1);
  return status;
}

// Calls of one stream that have ended.
inline void count_completed(uint64_t calls) {
  if (progress != nullptr) store(progress->completed, progress->completed + calls);
}

// Everything that was enqueued has ended.
inline void count_all_completed() {
  if (progress != nullptr) store(progress->completed, progress->enqueued);
}

}  // namespace busbw
