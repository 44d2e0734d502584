// NCCL's profiler plugin: when asked to, NCCL itself tells how it does each call. All versions of the
// interface are served (2.23 knows v1, 2.31 v7); without a single header, so where a field lies is a table of
// bytes.
//
// NCCL opens this very library by its path and finds the structures at the end of this file. It calls from
// whatever thread enqueues, and from its own: nothing here allocates, waits for anybody but a memory copy, or
// fails. While nobody watches, NCCL's own event mask is 0 and nothing is called at all.
#include <atomic>
#include <cstdint>
#include <cstring>

#include "core_api.h"

namespace {

constexpr uint64_t kGroup = 1, kColl = 2, kP2p = 4, kCollApi = 512, kCeColl = 4096;

// Bytes from the start of an event to its fields, where pointers have 8 bytes; 0: not told. The versions
// before 4 have a maximum where later ones have the number of channels, which is not the same. NCCL 2.23
// to 2.33, profiler_v1.h to profiler_v7.h.
struct Layout {
  int32_t version;
  struct {
    uint8_t sequence, function, count, channels, warps, algorithm, protocol, kernel;
  } collective;
  struct {
    uint8_t function, count, peer, channels;
  } transfer;
};
constexpr Layout kLayouts[] = {
    {1, {40, 48, 72, 0, 105, 106, 107, 0}, {40, 64, 72, 0}},
    {2, {40, 48, 72, 0, 105, 112, 120, 0}, {40, 64, 72, 0}},
    {3, {40, 48, 72, 0, 97, 104, 112, 0}, {40, 64, 72, 0}},
    {4, {24, 32, 56, 80, 81, 88, 96, 0}, {24, 48, 56, 60}},
    {5, {24, 32, 56, 80, 81, 88, 96, 0}, {24, 48, 56, 60}},
    {6, {24, 32, 56, 80, 81, 88, 96, 0}, {24, 48, 56, 60}},
    {7, {24, 32, 56, 80, 81, 88, 96, 112}, {24, 48, 56, 60}},
};
// Of the events that came later, at the same place in all versions that have them.
constexpr uint8_t kCollApiFunction = 24, kCollApiCount = 32;
constexpr uint8_t kCeSequence = 24, kCeFunction = 32, kCeCount = 56, kCeSync = 80;
constexpr int32_t kFirstWithWords = 2;     // before, numbers stand for functions, algorithms and protocols
constexpr int32_t kFirstWithWideType = 5;  // before, the type is one byte and those after it are undefined

// What the numbers of v1 stand for (NCCL 2.23, nccl_common.h).
constexpr const char* kFunctions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
constexpr const char* kAlgorithms[] = {"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                       "NVLS_TREE", "PAT"};
constexpr const char* kProtocols[] = {"LL", "LL128", "SIMPLE"};

// Never waited for longer than one event is copied, so a lock of one flag is enough.
std::atomic_flag lock = ATOMIC_FLAG_INIT;
struct Locked {
  Locked() {
    while (lock.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Locked() { lock.clear(std::memory_order_release); }
};

// Under the lock.
struct {
  int32_t* nccl_mask;     // NCCL's own, one for the process; null where NCCL has not loaded us
  int32_t communicators;  // that NCCL has announced and not ended
  int32_t version;
  int32_t mask;   // what is asked for
  uint64_t told;  // events since the watch began
  BusbwNcclEvent ring[kNcclEventsKept];
} state;

template <typename T>
T at(const unsigned char* event, uint8_t offset) {
  T value;
  std::memcpy(&value, event + offset, sizeof value);
  return value;
}

int32_t byte_at(const unsigned char* event, uint8_t offset) { return offset != 0 ? event[offset] : -1; }

// NCCL's words live in libnccl, which may be gone when they are read.
template <size_t N>
void copy(char (&to)[N], const char* word) {
  if (word != nullptr) std::strncpy(to, word, N - 1);  // the rest is zeros already
}

template <size_t N, size_t M>
void copy_word(char (&to)[N], const unsigned char* event, uint8_t offset, int32_t version,
               const char* const (&names)[M]) {
  if (version >= kFirstWithWords)
    copy(to, at<const char*>(event, offset));
  else
    copy(to, event[offset] < M ? names[event[offset]] : "unknown");
}

void read_collective(BusbwNcclEvent& told, const unsigned char* event, const Layout& layout) {
  const auto& own = layout.collective;
  told.sequence = at<uint64_t>(event, own.sequence);
  told.count = at<uint64_t>(event, own.count);
  told.channels = byte_at(event, own.channels);
  told.warps = byte_at(event, own.warps);
  copy_word(told.function, event, own.function, layout.version, kFunctions);
  copy_word(told.algorithm, event, own.algorithm, layout.version, kAlgorithms);
  copy_word(told.protocol, event, own.protocol, layout.version, kProtocols);
  if (own.kernel != 0) copy(told.kernel, at<const char*>(event, own.kernel));
}

void read_transfer(BusbwNcclEvent& told, const unsigned char* event, const Layout& layout) {
  const auto& own = layout.transfer;
  told.count = at<uint64_t>(event, own.count);
  told.peer = at<int32_t>(event, own.peer);
  told.channels = byte_at(event, own.channels);
  copy_word(told.function, event, own.function, layout.version, kFunctions);
}

void read_copies(BusbwNcclEvent& told, const unsigned char* event) {
  told.sequence = at<uint64_t>(event, kCeSequence);
  told.count = at<uint64_t>(event, kCeCount);
  copy(told.function, at<const char*>(event, kCeFunction));
  copy(told.protocol, at<const char*>(event, kCeSync));
}

void read_call(BusbwNcclEvent& told, const unsigned char* event) {
  told.count = at<uint64_t>(event, kCollApiCount);
  copy(told.function, at<const char*>(event, kCollApiFunction));
}

// ---- what NCCL calls --------------------------------------------------------------------------------------

int32_t start_event(void* context, void** handle, void* descriptor) {
  if (context == nullptr) return kOk;
  const Layout& layout = *static_cast<const Layout*>(context);
  const auto* event = static_cast<const unsigned char*>(descriptor);
  const uint64_t type = layout.version >= kFirstWithWideType ? at<uint64_t>(event, 0) : event[0];
  // Up to 2.27 NCCL tells of the calls in a group only where the group got a handle. Others need none.
  *handle = type == kGroup ? &state : nullptr;
  BusbwNcclEvent told = {};
  told.kind = static_cast<int32_t>(type);
  told.peer = told.channels = told.warps = -1;
  switch (type) {
    case kColl:
      read_collective(told, event, layout);
      break;
    case kP2p:
      read_transfer(told, event, layout);
      break;
    case kCeColl:
      read_copies(told, event);
      break;
    case kCollApi:
      read_call(told, event);
      break;
    default:
      return kOk;  // what the others belong to arrives unasked
  }
  told.rank = at<int32_t>(event, 16);
  Locked locked;
  state.ring[state.told++ % kNcclEventsKept] = told;
  return kOk;
}

int32_t stop_event(void*) { return kOk; }
int32_t record_event_state(void*, int32_t, void*) { return kOk; }

int32_t begin(const Layout& layout, void** context, int32_t* mask) {
  *context = const_cast<Layout*>(&layout);  // NCCL ends only what has a context
  Locked locked;
  state.nccl_mask = mask;
  state.communicators++;
  state.version = layout.version;
  __atomic_store_n(mask, state.mask, __ATOMIC_RELAXED);
  return kOk;
}

int32_t finalize(void*) {
  Locked locked;
  if (--state.communicators == 0) {
    state.nccl_mask = nullptr;
    state.version = 0;
  }
  return kOk;
}

// The versions differ in what NCCL says of a communicator; none of it is needed.
template <int32_t version>
int32_t init_by_context(void** context, int32_t* mask) {
  return begin(kLayouts[version - 1], context, mask);
}
int32_t init_by_name(void** context, int32_t* mask, const char*, uint64_t, int32_t, int32_t, int32_t, void*) {
  return begin(kLayouts[4 - 1], context, mask);
}
template <int32_t version>
int32_t init_by_id(void** context, uint64_t, int32_t* mask, const char*, int32_t, int32_t, int32_t, void*) {
  return begin(kLayouts[version - 1], context, mask);
}

}  // namespace

// ---- what busbw calls -------------------------------------------------------------------------------------

int32_t busbw_profiler_version() {
  Locked locked;
  return state.version;
}

void busbw_profiler_watch(int32_t mask) {
  Locked locked;
  if (mask != 0) state.told = 0;
  state.mask = mask;
  if (state.nccl_mask != nullptr) __atomic_store_n(state.nccl_mask, mask, __ATOMIC_RELAXED);
}

uint64_t busbw_profiler_events(BusbwNcclEvent* events, uint64_t most) {
  Locked locked;
  const uint64_t kept = state.told < kNcclEventsKept ? state.told : kNcclEventsKept;
  const uint64_t copied = kept < most ? kept : most;
  for (uint64_t i = 0; i < copied; i++) events[i] = state.ring[(state.told - copied + i) % kNcclEventsKept];
  return state.told;
}

// ---- what NCCL looks up, the newest that it knows first ---------------------------------------------------

template <typename Init>
struct ProfilerTable {
  const char* name;
  Init init;
  int32_t (*start_event)(void*, void**, void*);
  int32_t (*stop_event)(void*);
  int32_t (*record_event_state)(void*, int32_t, void*);
  int32_t (*finalize)(void*);
};

#define PROFILER(version, initialize)                                                          \
  extern "C" __attribute__((visibility("default"))) const ProfilerTable<decltype(&initialize)> \
      ncclProfiler_v##version = {"busbw", initialize, start_event, stop_event, record_event_state, finalize}

PROFILER(1, init_by_context<1>);
PROFILER(2, init_by_context<2>);
PROFILER(3, init_by_context<3>);
PROFILER(4, init_by_name);
PROFILER(5, init_by_id<5>);
PROFILER(6, init_by_id<6>);
PROFILER(7, init_by_id<7>);
