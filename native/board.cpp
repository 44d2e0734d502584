// Where the ranks of one host meet, in memory that they share (src/busbw/rank/world/board.py). Each writes
// what the others shall read, arrives, and waits for the rest; no rank can be more than one meeting ahead.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "clock.hpp"
#include "core_api.h"

namespace busbw {
namespace {

// Numbers of 32 bits, since futex(2) takes no others; they may wrap. All ranks write the first and read the
// second, so each has a cache line.
struct Board {
  alignas(64) uint32_t arrivals;  // at all meetings together
  alignas(64) uint32_t complete;  // the last meeting to which all ranks have come
};
static_assert(sizeof(Board) == kBoardBytes);

// A futex of memory that processes share.
void futex(const uint32_t* word, int operation, uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

}  // namespace
}  // namespace busbw

void busbw_board_arrive(void* memory, uint32_t ranks, uint32_t meeting) {
  auto* board = static_cast<busbw::Board*>(memory);
  // Acquires what all others have released by arriving before: the last one passes it on with `complete`.
  const uint32_t arrivals = __atomic_add_fetch(&board->arrivals, 1, __ATOMIC_ACQ_REL);
  if (arrivals != meeting * ranks) return;
  __atomic_store_n(&board->complete, meeting, __ATOMIC_RELEASE);
  busbw::futex(&board->complete, FUTEX_WAKE, INT_MAX, nullptr);
}

int32_t busbw_board_wait(const void* memory, uint32_t meeting, int64_t spin_ns, int64_t sleep_ns) {
  const auto* board = static_cast<const busbw::Board*>(memory);
  const int64_t start_ns = busbw::now_ns();
  while (true) {
    const uint32_t complete = __atomic_load_n(&board->complete, __ATOMIC_ACQUIRE);
    if (static_cast<int32_t>(complete - meeting) >= 0) return kOk;
    const int64_t waited_ns = busbw::now_ns() - start_ns;
    if (waited_ns < spin_ns) continue;
    const int64_t left_ns = spin_ns + sleep_ns - waited_ns;
    if (left_ns <= 0) return kTimedOut;
    const timespec left = {static_cast<time_t>(left_ns / 1'000'000'000),
                           static_cast<long>(left_ns % 1'000'000'000)};
    busbw::futex(&board->complete, FUTEX_WAIT, complete, &left);
  }
}
