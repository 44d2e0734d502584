// What runs beside a collective on purpose: bounded pieces of work, one after the other, until the caller
// says stop. A thread of the caller's is in here, without Python's lock; it never waits for the collective.
#include <time.h>

#include <cstring>

#include "clock.hpp"
#include "collective_call.hpp"
#include "device_events.hpp"

namespace busbw {
namespace {

// Plain stores of one writer.
void say(volatile BusbwLoadDone* done, uint64_t pieces, int64_t at_ns) {
  done->at_ns = at_ns;
  done->pieces = pieces;
}

void rest(int64_t duration_ns) {
  if (duration_ns <= 0) return;
  timespec t = {static_cast<time_t>(duration_ns / 1'000'000'000),
                static_cast<long>(duration_ns % 1'000'000'000)};
  nanosleep(&t, nullptr);
}

// Multiplications and additions in eight chains, so that their latency does not show.
constexpr int kChains = 8;
double multiply_add(uint64_t turns) {
  double a[kChains] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (uint64_t turn = 0; turn < turns; ++turn) {
    for (double& each : a) each = each * 0.999999 + 1e-6;
  }
  double sum = 0;
  for (const double each : a) sum += each;
  return sum;
}

// Copies the next piece of the first half of the memory to the second half.
void copy_piece(const BusbwHostLoad& load, uint64_t piece) {
  const uint64_t half = load.memory_bytes / 2, at = piece * load.piece % half;
  std::memcpy(load.memory + half + at, load.memory + at, load.piece);
}

}  // namespace
}  // namespace busbw

int32_t busbw_load_host(const BusbwHostLoad* load, const volatile int32_t* stop,
                        volatile BusbwLoadDone* done) {
  if (load->memory != nullptr && (load->piece == 0 || load->memory_bytes / 2 % load->piece != 0))
    return kBadArgument;
  volatile double result = 0;  // or the compiler would leave the work out
  for (uint64_t piece = 0; *stop == 0 && load->busy_share > 0;) {
    const int64_t start = busbw::now_ns();
    if (load->memory != nullptr) {
      busbw::copy_piece(*load, piece);
    } else {
      result = busbw::multiply_add(load->piece);
    }
    const int64_t end = busbw::now_ns();
    busbw::say(done, ++piece, end);
    const double spent = static_cast<double>(end - start);
    busbw::rest(static_cast<int64_t>(spent * (1 / load->busy_share - 1)));
  }
  (void)result;
  return kOk;
}

int32_t busbw_load_device(const BusbwDeviceLoad* load, const volatile int32_t* stop,
                          volatile BusbwLoadDone* done) {
  const BusbwStream& s = load->stream;
  const auto query = busbw::as_function<busbw::EventQuery>(s.cuda->event_query);
  uint64_t launched = 0, ended = 0;
  while (*stop == 0 || ended < launched) {
    while (*stop == 0 && launched < ended + load->depth) {
      int32_t status = load->call->issue(0);
      if (status == kOk) status = busbw::record(s, s.events[launched % load->depth]);
      if (status != kOk) return status;
      ++launched;
    }
    while (ended < launched) {
      const int code = query(s.events[ended % load->depth]);
      if (code == busbw::kCudaNotReady) break;
      if (code != 0) return busbw::tagged(kCudaError, code);
      busbw::say(done, ++ended, busbw::now_ns());
    }
    busbw::rest(load->pause_ns);
  }
  return kOk;
}
