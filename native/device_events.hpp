// Events of a CUDA stream, through function addresses of the libcuda in use.
#pragma once

#include <sched.h>

#include <cmath>

#include "clock.hpp"
#include "collective_call.hpp"

namespace busbw {

using EventRecord = int (*)(void* event, void* stream);
using EventQuery = int (*)(void* event);
using EventElapsedTime = int (*)(float* milliseconds, void* start, void* end);
using GetAsyncError = int (*)(void* comm, int* error);

constexpr int kCudaNotReady = 600;   // CUDA_ERROR_NOT_READY
constexpr int kNcclInProgress = 7;   // ncclInProgress: a non-blocking call is under way, no error
constexpr int kPollsPerLook = 1024;  // the rare checks cost more than a poll

inline int32_t record(const BusbwStream& s, void* event) {
  return tagged(kCudaError, as_function<EventRecord>(s.cuda->event_record)(event, s.stream));
}

// A failed peer shows up here (network transports) or not at all: NVLink kernels spin for ever, and only the
// time limit ends the wait.
inline int32_t async_error(const BusbwStream& s) {
  if (s.nccl == nullptr) return kOk;
  int error = 0;
  const int code = as_function<GetAsyncError>(s.nccl->get_async_error)(s.comm, &error);
  if (code != 0) return tagged(kNcclError, code);
  return error == kNcclInProgress ? kOk : tagged(kNcclError, error);
}

// Polls until the event has come. `errors` is asked now and then, and ends the wait with what it finds.
template <class Errors>
int32_t wait(const BusbwStream& s, void* event, Errors errors) {
  const auto query = as_function<EventQuery>(s.cuda->event_query);
  const int64_t deadline = s.timeout_ns > 0 ? now_ns() + s.timeout_ns : INT64_MAX;
  for (int64_t polls = 1;; ++polls) {
    const int code = query(event);
    if (code != kCudaNotReady) return tagged(kCudaError, code);
    if (polls % kPollsPerLook == 0) {
      if (const int32_t status = errors(); status != kOk) return status;
      if (now_ns() > deadline) return kTimedOut;
    }
    sched_yield();
  }
}
inline int32_t wait(const BusbwStream& s, void* event) {
  return wait(s, event, [&s] { return async_error(s); });
}

inline int32_t elapsed_between(const BusbwStream& s, void* start, void* end, int64_t* elapsed_ns) {
  float milliseconds = 0;
  const int code = as_function<EventElapsedTime>(s.cuda->event_elapsed_time)(&milliseconds, start, end);
  *elapsed_ns = std::llround(static_cast<double>(milliseconds) * 1e6);
  return tagged(kCudaError, code);
}

}  // namespace busbw
