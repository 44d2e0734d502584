// The timed regions. Inside them: the operation, the rotation of slots, and one look at the clock (or one
// event) every k calls. What varies between runs was decided before the loop is entered.
#include <sched.h>

#include <cmath>

#include "clock.hpp"
#include "collective_call.hpp"

namespace busbw {
namespace {

// Issues k calls, walking round the slots.
class Walk {
 public:
  explicit Walk(const BusbwCall& call) : call_(call), slots_(call.slots) {}

  int32_t issue(uint64_t k) {
    for (uint64_t i = 0; i < k; ++i) {
      if (const int32_t status = call_.issue(slot_); status != kOk) return status;
      slot_ = slot_ + 1 == slots_ ? 0 : slot_ + 1;
    }
    return kOk;
  }

 private:
  const BusbwCall& call_;
  const uint64_t slots_;
  uint64_t slot_ = 0;
};

using EventRecord = int (*)(void* event, void* stream);
using EventQuery = int (*)(void* event);
using EventElapsedTime = int (*)(float* milliseconds, void* start, void* end);
using GetAsyncError = int (*)(void* comm, int* error);

constexpr int kCudaNotReady = 600;   // CUDA_ERROR_NOT_READY
constexpr int kNcclInProgress = 7;   // ncclInProgress: a non-blocking call is under way, no error
constexpr int kPollsPerLook = 1024;  // the rare checks cost more than a poll

int32_t record(const BusbwStream& s, void* event) {
  return tagged(kCudaError, as_function<EventRecord>(s.cuda->event_record)(event, s.stream));
}

// A failed peer shows up here (network transports) or not at all (NVLink kernels spin for ever), which is
// why the interrupt flag exists beside it.
int32_t async_error(const BusbwStream& s) {
  if (s.nccl == nullptr) return kOk;
  int error = 0;
  const int code = as_function<GetAsyncError>(s.nccl->get_async_error)(s.comm, &error);
  if (code != 0) return tagged(kNcclError, code);
  return error == kNcclInProgress ? kOk : tagged(kNcclError, error);
}

int32_t wait(const BusbwStream& s, void* event) {
  const auto query = as_function<EventQuery>(s.cuda->event_query);
  const int64_t deadline = s.timeout_ns > 0 ? now_ns() + s.timeout_ns : INT64_MAX;
  for (int64_t polls = 1;; ++polls) {
    const int code = query(event);
    if (code != kCudaNotReady) return tagged(kCudaError, code);
    if (*s.interrupt != 0) return kInterrupted;
    if (polls % kPollsPerLook == 0) {
      if (const int32_t status = async_error(s); status != kOk) return status;
      if (now_ns() > deadline) return kTimedOut;
    }
    sched_yield();
  }
}

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

}  // namespace
}  // namespace busbw

int32_t busbw_core_abi() { return kCoreAbi; }

int64_t busbw_now_ns() { return busbw::now_ns(); }

void busbw_call_free(BusbwCall* call) { delete call; }

int32_t busbw_issue(const BusbwCall* call, uint64_t slot) { return call->issue(slot); }

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
  if (const int32_t status = busbw::wait(s, s.events[samples]); status != kOk) return status;
  const auto elapsed = busbw::as_function<busbw::EventElapsedTime>(s.cuda->event_elapsed_time);
  for (uint64_t i = 0; i < samples; ++i) {
    float milliseconds = 0;
    if (const int code = elapsed(&milliseconds, s.events[i], s.events[i + 1]); code != 0) {
      return busbw::tagged(kCudaError, code);
    }
    elapsed_ns[i] = std::llround(static_cast<double>(milliseconds) * 1e6);
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
  return busbw::wait(*stream, stream->events[0]);
}
