// Several operations at once. What a lane's time holds is its own calls, while those of the other lanes are
// under way; when each began and ended is kept, so that how far they overlapped can be told.
#include <algorithm>
#include <vector>

#include "clock.hpp"
#include "collective_call.hpp"
#include "device_events.hpp"
#include "progress.hpp"

namespace busbw {
namespace {

// Walks round the slots of a lane, from round to round.
class LaneWalk {
 public:
  explicit LaneWalk(const BusbwLane& lane) : lane_(lane), slot_(lane.slot % lane.call->slots) {}

  uint64_t next_slot() {
    const uint64_t slot = slot_;
    slot_ = slot_ + 1 == lane_.call->slots ? 0 : slot_ + 1;
    return slot;
  }
  const BusbwLane& lane() const { return lane_; }
  const BusbwCall& call() const { return *lane_.call; }

 private:
  const BusbwLane& lane_;
  uint64_t slot_;
};

// ---- calls that block: started, and tested in turn ------------------------------------------------------

using Test = int (*)(void* request, int* done, StatusStorage* status);
constexpr int kIdleSweeps = 256;  // without any call ending, before other ranks of this core get their turn

struct HostLane : LaneWalk {
  using LaneWalk::LaneWalk;
  int32_t start() {
    if (progress != nullptr) store(progress->entered, progress->entered + 1);
    const int32_t status = call().start(next_slot(), &request);
    if (progress != nullptr) store(progress->enqueued, progress->enqueued + 1);
    return status;
  }

  uint64_t request = 0;  // an int or a pointer; either lies at the address
  uint64_t left = 0;     // calls of this round that have not ended
};

// Begins the next call where one has ended; notes when the last has.
int32_t advance(HostLane& lane, Test test, int64_t* end_ns, bool* ended) {
  int done = 0;
  StatusStorage status;
  if (const int code = test(&lane.request, &done, &status); code != kOk) return code;
  *ended = done != 0;
  if (!*ended) return kOk;
  count_completed(1);
  if (--lane.left > 0) return lane.start();
  *end_ns = now_ns();
  return kOk;
}

int32_t host_round(std::vector<HostLane>& lanes, Test test, size_t stride, int64_t* begin_ns,
                   int64_t* end_ns) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].left = lanes[i].lane().calls;
    begin_ns[i * stride] = now_ns();
    if (const int32_t status = lanes[i].start(); status != kOk) return status;
  }
  size_t under_way = lanes.size();
  int idle = 0;
  while (under_way > 0) {
    bool any = false;
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i].left == 0) continue;
      bool ended = false;
      if (const int32_t status = advance(lanes[i], test, &end_ns[i * stride], &ended); status != kOk)
        return status;
      any = any || ended;
      under_way -= lanes[i].left == 0;
    }
    idle = any ? 0 : idle + 1;
    if (idle == kIdleSweeps) {
      sched_yield();
      idle = 0;
    }
  }
  return kOk;
}

// ---- calls that enqueue ---------------------------------------------------------------------------------

using StreamWaitEvent = int (*)(void* stream, void* event, unsigned flags);

int32_t stream_wait(const BusbwStream& s, void* event) {
  return tagged(kCudaError, as_function<StreamWaitEvent>(s.cuda->stream_wait_event)(s.stream, event, 0));
}

struct DeviceLane : LaneWalk {
  explicit DeviceLane(const BusbwLane& lane) : LaneWalk(lane), stream(*lane.stream) {}

  void* begin(uint64_t round) const { return stream.events[2 * round]; }
  void* end(uint64_t round) const { return stream.events[2 * round + 1]; }

  // Issues calls until `wanted` of this round are.
  int32_t issue_to(uint64_t wanted, int64_t* spent_ns) {
    const int64_t start = now_ns();
    for (; issued < wanted; ++issued) {
      if (const int32_t status = issue_counted(call(), next_slot()); status != kOk) return status;
    }
    *spent_ns += now_ns() - start;
    return kOk;
  }

  const BusbwStream& stream;
  uint64_t issued = 0;
};

// Calls of the lanes take turns, each at its own rate, so that no lane waits for the host to be through with
// another one's. The order is the same on every rank: kernels of several communicators need that.
int32_t issue_in_turns(std::vector<DeviceLane>& lanes, uint64_t round, size_t stride, int64_t* issue_ns) {
  uint64_t most = 0;
  for (auto& lane : lanes) {
    lane.issued = 0;
    most = std::max(most, lane.lane().calls);
  }
  for (uint64_t turn = 1; turn <= most; ++turn) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      DeviceLane& lane = lanes[i];
      const uint64_t calls = lane.lane().calls, before = lane.issued;
      const uint64_t wanted = (calls * turn + most - 1) / most;  // rounded up: all begin in the first turn
      if (wanted == before) continue;
      if (const int32_t status = lane.issue_to(wanted, &issue_ns[i * stride]); status != kOk) return status;
      if (wanted != calls) continue;
      if (const int32_t status = record(lane.stream, lane.end(round)); status != kOk) return status;
    }
  }
  return kOk;
}

int32_t device_round(std::vector<DeviceLane>& lanes, uint64_t round, size_t stride, int64_t* issue_ns) {
  const BusbwStream& first = lanes.front().stream;
  if (const int32_t status = record(first, lanes.front().begin(round)); status != kOk) return status;
  for (size_t i = 1; i < lanes.size(); ++i) {
    int32_t status = stream_wait(lanes[i].stream, lanes.front().begin(round));
    if (status == kOk) status = record(lanes[i].stream, lanes[i].begin(round));
    if (status != kOk) return status;
  }
  if (const int32_t status = issue_in_turns(lanes, round, stride, issue_ns); status != kOk) return status;
  for (size_t i = 1; i < lanes.size(); ++i) {
    if (const int32_t status = stream_wait(first, lanes[i].end(round)); status != kOk) return status;
  }
  return kOk;
}

// Until the first lane's stream, which waits for the others, is through. A failed peer of any lane ends it.
int32_t wait_for_all(const std::vector<DeviceLane>& lanes, void* event) {
  const auto errors = [&lanes] {
    for (const auto& lane : lanes) {
      if (const int32_t status = async_error(lane.stream); status != kOk) return status;
    }
    return static_cast<int32_t>(kOk);
  };
  return wait(lanes.front().stream, event, errors);
}

int32_t read_round(const std::vector<DeviceLane>& lanes, uint64_t round, size_t stride, int64_t* begin_ns,
                   int64_t* end_ns) {
  void* origin = lanes.front().begin(round);
  for (size_t i = 0; i < lanes.size(); ++i) {
    const BusbwStream& s = lanes[i].stream;
    int32_t status = elapsed_between(s, origin, lanes[i].begin(round), &begin_ns[i * stride]);
    if (status == kOk) status = elapsed_between(s, origin, lanes[i].end(round), &end_ns[i * stride]);
    if (status != kOk) return status;
  }
  return kOk;
}

bool usable(const BusbwLane* lanes, int32_t count) {
  return count > 0 && std::all_of(lanes, lanes + count, [](const BusbwLane& lane) { return lane.calls > 0; });
}

}  // namespace
}  // namespace busbw

int32_t busbw_time_lanes_host(const BusbwLane* lanes, int32_t count, void* test, uint64_t lead,
                              uint64_t rounds, int64_t* begin_ns, int64_t* end_ns) {
  const auto startable = [](const BusbwLane& lane) { return lane.call->can_start(); };
  if (!busbw::usable(lanes, count) || !std::all_of(lanes, lanes + count, startable)) return kBadArgument;
  std::vector<busbw::HostLane> walks(lanes, lanes + count);
  busbw::count_all_completed();  // calls before these did block
  busbw::set_mode(busbw::kWaitsForStream);
  for (uint64_t i = 0; i < lead + rounds; ++i) {
    // Rounds before the first timed one write where that one will.
    const uint64_t at = i < lead ? 0 : i - lead;
    const int32_t status =
        busbw::host_round(walks, busbw::as_function<busbw::Test>(test), rounds, begin_ns + at, end_ns + at);
    if (status != kOk) return status;
  }
  return kOk;
}

int32_t busbw_time_lanes_events(const BusbwLane* lanes, int32_t count, uint64_t lead, uint64_t rounds,
                                int64_t* begin_ns, int64_t* end_ns, int64_t* issue_ns) {
  if (!busbw::usable(lanes, count) || rounds == 0) return kBadArgument;
  std::vector<busbw::DeviceLane> walks(lanes, lanes + count);
  for (uint64_t i = 0; i < lead + rounds; ++i) {
    const uint64_t at = i < lead ? 0 : i - lead;
    for (int32_t lane = 0; lane < count; ++lane) issue_ns[static_cast<uint64_t>(lane) * rounds + at] = 0;
    const int32_t status = busbw::device_round(walks, at, rounds, issue_ns + at);
    if (status != kOk) return status;
  }
  const BusbwStream& first = walks.front().stream;
  void* last = first.events[2 * rounds];
  int32_t status = busbw::record(first, last);
  busbw::set_mode(busbw::kWaitsForStream);
  if (status == kOk) status = busbw::wait_for_all(walks, last);
  if (status == kOk) busbw::count_all_completed();
  for (uint64_t i = 0; status == kOk && i < rounds; ++i) {
    status = busbw::read_round(walks, i, rounds, begin_ns + i, end_ns + i);
  }
  return status;
}
