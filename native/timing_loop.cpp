// The timed regions. Inside them: the operation, the rotation of slots, two plain stores of how far the calls
// have come (progress.hpp), and one look at the clock (or one event) every k calls. What varies between runs
// was decided before the loop is entered.
#include "clock.hpp"
#include "collective_call.hpp"
#include "device_events.hpp"
#include "progress.hpp"

namespace busbw {

Progress* progress = nullptr;

namespace {

// Issues k calls, walking round the slots.
class Walk {
 public:
  explicit Walk(const BusbwCall& call) : call_(call), slots_(call.slots) {}

  int32_t issue(uint64_t k) { return progress != nullptr ? run<true>(k, *progress) : run<false>(k, unseen_); }

 private:
  template <bool kCounted>
  int32_t run(uint64_t k, Progress& seen) {
    const uint64_t entered = seen.entered, enqueued = seen.enqueued;
    if (kCounted) store(seen.mode, mode_of(call_));
    for (uint64_t i = 0; i < k; ++i) {
      if (kCounted) store(seen.entered, entered + i + 1);
      if (const int32_t status = call_.issue(slot_); status != kOk) return status;
      if (kCounted) store(seen.enqueued, enqueued + i + 1);
      slot_ = slot_ + 1 == slots_ ? 0 : slot_ + 1;
    }
    return kOk;
  }

  Progress unseen_ = {};
  const BusbwCall& call_;
  const uint64_t slots_;
  uint64_t slot_ = 0;
};

// Records samples + 1 events with k calls between neighbours, behind the lead.
int32_t enqueue(const BusbwCall& call, const BusbwStream& s, uint64_t lead, uint64_t samples, uint64_t k,
                int64_t* issue_ns) {
  Walk walk(call);
  if (const int32_t status = walk.issue(lead); status != kOk) return status;
  if (const int32_t status = record(s, s.events[0]); status != kOk) return status;
  int64_t last = now_ns();
  for (uint64_t i = 0; i < samples; ++i) {
    if (const int32_t status = walk.issue(k); status != kOk) return status;
    if (const int32_t status = record(s, s.events[i + 1]); status != kOk) return status;
    const int64_t now = now_ns();
    issue_ns[i] = now - last;
    last = now;
  }
  return kOk;
}

// A busy wait: sleeping would add the scheduler's own delay to the one asked for.
void spin(int64_t duration_ns) {
  const int64_t until = now_ns() + duration_ns;
  while (now_ns() < until) {
  }
}

// One call between two events, behind the barrier in the stream. A delay needs the barrier to have ended
// first, so the host waits for it; otherwise the GPU goes from one to the other without the host.
int32_t isolated_event_sample(const BusbwCall* barrier, const BusbwStream& s, Walk& walk, int64_t delay_ns,
                              int64_t* elapsed_ns, int64_t* issue_ns) {
  if (barrier != nullptr) {
    if (const int32_t status = busbw::issue_counted(*barrier, 0); status != kOk) return status;
  }
  if (delay_ns >= 0) {
    if (const int32_t status = busbw_stream_wait(&s); status != kOk) return status;
    spin(delay_ns);
  }
  if (const int32_t status = record(s, s.events[0]); status != kOk) return status;
  const int64_t start = now_ns();
  if (const int32_t status = walk.issue(1); status != kOk) return status;
  *issue_ns = now_ns() - start;
  if (const int32_t status = record(s, s.events[1]); status != kOk) return status;
  set_mode(kWaitsForStream);
  if (const int32_t status = wait(s, s.events[1]); status != kOk) return status;
  count_all_completed();
  return elapsed_between(s, s.events[0], s.events[1], elapsed_ns);
}

}  // namespace
}  // namespace busbw

int32_t busbw_core_abi() { return kCoreAbi; }

void busbw_call_free(BusbwCall* call) { delete call; }

int32_t busbw_issue(const BusbwCall* call, uint64_t slot) { return busbw::issue_counted(*call, slot); }

void busbw_progress_to(void* counts) { busbw::progress = static_cast<busbw::Progress*>(counts); }

int32_t busbw_time_host(const BusbwCall* call, uint64_t lead, uint64_t samples, uint64_t k,
                        int64_t* elapsed_ns) {
  busbw::Walk walk(*call);
  if (const int32_t status = walk.issue(lead); status != kOk) return status;
  int64_t last = busbw::now_ns();
  for (uint64_t i = 0; i < samples; ++i) {
    if (const int32_t status = walk.issue(k); status != kOk) return status;
    const int64_t now = busbw::now_ns();
    elapsed_ns[i] = now - last;
    last = now;
  }
  return kOk;
}

int32_t busbw_time_events(const BusbwCall* call, const BusbwStream* stream, uint64_t lead, uint64_t samples,
                          uint64_t k, int64_t* elapsed_ns, int64_t* issue_ns) {
  const BusbwStream& s = *stream;
  if (const int32_t status = busbw::enqueue(*call, s, lead, samples, k, issue_ns); status != kOk)
    return status;
  busbw::set_mode(busbw::kWaitsForStream);
  for (uint64_t i = 0; i <= samples; ++i) {  // one after the other: the watcher sees how far the stream is
    if (const int32_t status = busbw::wait(s, s.events[i]); status != kOk) return status;
    busbw::count_completed(i == 0 ? lead : k);
  }
  busbw::count_all_completed();  // what was captured into a graph was counted, and did not run then
  for (uint64_t i = 0; i < samples; ++i) {
    const int32_t status = busbw::elapsed_between(s, s.events[i], s.events[i + 1], &elapsed_ns[i]);
    if (status != kOk) return status;
  }
  return kOk;
}

int32_t busbw_time_isolated_host(const BusbwCall* barrier, const BusbwCall* call, uint64_t samples,
                                 const int64_t* delay_ns, int64_t* entry_ns, int64_t* exit_ns) {
  busbw::Walk walk(*call);
  for (uint64_t i = 0; i < samples; ++i) {
    if (barrier != nullptr) {
      if (const int32_t status = busbw::issue_counted(*barrier, 0); status != kOk) return status;
    }
    if (delay_ns != nullptr) busbw::spin(delay_ns[i]);
    entry_ns[i] = busbw::now_ns();
    if (const int32_t status = walk.issue(1); status != kOk) return status;
    exit_ns[i] = busbw::now_ns();
  }
  return kOk;
}

int32_t busbw_time_isolated_events(const BusbwCall* barrier, const BusbwCall* call, const BusbwStream* stream,
                                   uint64_t samples, const int64_t* delay_ns, int64_t* elapsed_ns,
                                   int64_t* issue_ns) {
  busbw::Walk walk(*call);
  for (uint64_t i = 0; i < samples; ++i) {
    const int64_t delay = delay_ns != nullptr ? delay_ns[i] : -1;
    const int32_t status =
        busbw::isolated_event_sample(barrier, *stream, walk, delay, &elapsed_ns[i], &issue_ns[i]);
    if (status != kOk) return status;
  }
  return kOk;
}

int32_t busbw_time_loop(const BusbwCall* call, const BusbwStream* stream, uint64_t calls,
                        int64_t* elapsed_ns) {
  busbw::Walk walk(*call);
  const int64_t start = busbw::now_ns();
  if (const int32_t status = walk.issue(calls); status != kOk) return status;
  if (stream != nullptr) {
    if (const int32_t status = busbw_stream_wait(stream); status != kOk) return status;
  }
  *elapsed_ns = busbw::now_ns() - start;
  return kOk;
}

int32_t busbw_stream_wait(const BusbwStream* stream) {
  if (const int32_t status = busbw::record(*stream, stream->events[0]); status != kOk) return status;
  busbw::set_mode(busbw::kWaitsForStream);
  if (const int32_t status = busbw::wait(*stream, stream->events[0]); status != kOk) return status;
  busbw::count_all_completed();
  return kOk;
}
