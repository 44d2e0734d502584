// The C functions of libbusbw_core.so, called from src/busbw/machine/native/core.py through ctypes.
// Header-free on purpose: no CUDA, NCCL or MPI header is needed to build this library, and it links
// with none of them. What it calls of theirs arrives as function addresses found at run time.
#pragma once

#include <cstdint>

#define BUSBW_API extern "C" __attribute__((visibility("default")))

// Raised with every change of a struct or signature below; core.py refuses a library of another number.
constexpr int32_t kCoreAbi = 15;
BUSBW_API int32_t busbw_core_abi();

// ---- status of every function that returns int32_t -------------------------------------------------
// 0 is success; negative numbers are ours. A positive one is MPI's own code as it is (MPICH uses 30 bits of
// it), or, of a call on a GPU, the library's tag plus its code.
enum BusbwStatus : int32_t {
  kOk = 0,
  kBadArgument = -1,
  kTimedOut = -3,
  kNcclError = 1 << 20,
  kCudaError = 2 << 20,
};

// Numbers that core.py shares.
enum BusbwCollective : int32_t {
  kAllReduce = 0,
  kAllGather = 1,
  kSendRecv = 2,
  kReduceScatter = 3,
  kAlltoall = 4,
  kBroadcast = 5,
  kReduce = 6,
  kGather = 7,
  kScatter = 8,
  kHypercube = 9,
  kBarrier = 10,
  kAlltoallv = 11,
  kAllGatherv = 12,
  kPermute = 13,
};

// ---- data to move and to check (native/pattern.hpp, shared with the GPU kernels) ---------------------
struct BusbwPattern;      // what all ranks agree on: seed, ranks, type, operation
struct BusbwRegion;       // a run of elements in a buffer and what they hold
struct BusbwCheckResult;  // wrong elements, first of them, digest
BUSBW_API int32_t busbw_pattern_init(BusbwPattern* pattern, uint64_t seed, uint32_t ranks, int32_t dtype,
                                     int32_t op);
BUSBW_API int32_t busbw_fill(void* buffer, const BusbwPattern* pattern, const BusbwRegion* region);
// Adds to *result, so that one result can cover many regions; the caller initialises it.
BUSBW_API int32_t busbw_check(const void* buffer, const BusbwPattern* pattern, const BusbwRegion* region,
                              BusbwCheckResult* result);

// ---- prepared calls ---------------------------------------------------------------------------------
// A call is one collective with everything fixed but the buffer slot. Slot s of a rotating buffer starts
// s * stride bytes into the allocation; slots = 1 keeps it hot.
struct BusbwRotation {
  uint64_t send_stride;  // bytes; 0 where the send argument is a constant such as MPI_IN_PLACE
  uint64_t recv_stride;  // bytes
  uint64_t slots;        // >= 1
};

// Counts that differ between peers, in elements; offsets are from the start of a buffer. The arrays have one
// entry for every rank of the communicator and are copied. Peers of a permute are -1 where there is none.
struct BusbwSegments {
  const int64_t* send_counts;
  const int64_t* send_offsets;
  const int64_t* recv_counts;
  const int64_t* recv_offsets;
  int32_t target;
  int32_t source;
};

struct BusbwMpiSpec {
  int32_t collective;    // BusbwCollective
  int32_t handle_bytes;  // 4: handles are ints (MPICH ABI); 8: pointers (Open MPI, the MPI 5 ABI)
  int32_t large_count;   // non-zero: the functions are the MPI_Count forms (MPI_Allreduce_c, ...)
  int32_t rank;
  int32_t ranks;
  int32_t root;
  int32_t dtype;     // busbw::pattern::DType, for what MPI does not do itself
  int32_t scale_op;  // busbw::pattern::Op kAvg or kMulSum: MPI sums and the core scales; else -1
  void* function;    // address of MPI_Allreduce, MPI_Allgather, MPI_Sendrecv, ...
  void* in_place;    // the library's MPI_IN_PLACE
  uint64_t datatype;
  uint64_t op;
  uint64_t comm;
  void* send;          // at slot 0; MPI_IN_PLACE where the call takes that (its stride is 0 then)
  void* recv;          // at slot 0; as send
  int64_t send_count;  // elements, for one destination
  int64_t recv_count;  // elements, from one source
  uint64_t type_bytes;
  BusbwRotation rotation;
  BusbwSegments segments;  // alltoallv, all_gatherv (recv only), permute
  int32_t no_peer;         // the library's MPI_PROC_NULL
  void* start_function;    // MPI_Iallreduce, ...: only of a part of a call; else null
};

// Function addresses of the libnccl and libcuda in use; filled in by core.py with dlsym.
struct BusbwNcclTable {
  void* all_reduce;
  void* all_gather;
  void* reduce_scatter;
  void* broadcast;
  void* reduce;
  void* alltoall;  // null before 2.28, as gather and scatter: then grouped sends and receives
  void* gather;
  void* scatter;
  void* send;
  void* recv;
  void* group_start;
  void* group_end;
  void* get_async_error;
};
struct BusbwCudaTable {
  void* event_record;        // cuEventRecord
  void* event_query;         // cuEventQuery
  void* event_elapsed_time;  // cuEventElapsedTime
  void* memcpy_async;        // cuMemcpyDtoDAsync_v2
  void* graph_launch;        // cuGraphLaunch
  void* stream_wait_event;   // cuStreamWaitEvent
};

struct BusbwNcclSpec {
  int32_t collective;
  int32_t datatype;  // ncclDataType_t
  int32_t op;        // ncclRedOp_t
  int32_t rank;
  int32_t ranks;
  int32_t root;
  int32_t aggregate;   // calls in one group (-m); 1: no group
  int32_t type_bytes;  // of datatype
  const BusbwNcclTable* nccl;
  const BusbwCudaTable* cuda;
  void* comm;
  void* stream;
  const void* send;
  void* recv;
  uint64_t count;
  BusbwRotation rotation;
  BusbwSegments segments;
};

struct BusbwCall;                                                 // opaque
BUSBW_API BusbwCall* busbw_mpi_call(const BusbwMpiSpec* spec);    // null where the spec is not supported
BUSBW_API BusbwCall* busbw_nccl_call(const BusbwNcclSpec* spec);  // null where the spec is not supported
// One call made of parts that run at once. MPI starts all and then waits for each (`wait` is MPI_Wait); NCCL
// puts them into one group. Takes the parts over, also where it returns null: none, more than kMostParts, or
// one that cannot be started by itself.
constexpr int32_t kMostParts = 64;
BUSBW_API BusbwCall* busbw_mpi_parts(BusbwCall* const* parts, int32_t count, void* wait);
BUSBW_API BusbwCall* busbw_nccl_parts(BusbwCall* const* parts, int32_t count, const BusbwNcclTable* nccl);
// The call, begun and then tested (`test` is MPI_Test) every pause_ns until it has ended: a rank that waits
// leaves its core to others. Takes the call over, also where it returns null: one that cannot be begun.
BUSBW_API BusbwCall* busbw_mpi_sleeping(BusbwCall* call, void* test, int64_t pause_ns);
// A captured CUDA graph (CUgraphExec) of any number of calls: one issue is one launch.
BUSBW_API BusbwCall* busbw_graph_call(const BusbwCudaTable* cuda, void* graph_exec, void* stream);
BUSBW_API BusbwCall* busbw_null_call();
// Ranges for a profiler (native/nvtx.cpp): 1 where the library that NVTX_INJECTION64_PATH names took them, 0
// where there is none. Decided once; `domain` is the name under which it shows them.
BUSBW_API int32_t busbw_nvtx_attach(const char* domain);
// The call within a range of this text (copied), with bytes as its payload; the call itself where no profiler
// is attached. Takes the call over.
BUSBW_API BusbwCall* busbw_ranged_call(BusbwCall* call, const char* text, uint64_t bytes);
BUSBW_API void busbw_call_free(BusbwCall* call);
// One call at the given slot, untimed (correctness checks, warm-up).
BUSBW_API int32_t busbw_issue(const BusbwCall* call, uint64_t slot);

// ---- progress (native/progress.hpp) -------------------------------------------------------------------
// From now on calls are counted in the four 64-bit words at this address (null: nowhere): entered, enqueued,
// completed, and what the thread does with them (CallMode). A cache line of its own; one measuring thread.
BUSBW_API void busbw_progress_to(void* counts);

// ---- a board of the ranks of one host (native/board.cpp) ------------------------------------------------
// kBoardBytes of memory that they share, zero at first and on a cache line. Meetings count from 1. What a
// rank wrote before it arrived is seen by every rank that has waited for that meeting.
constexpr uint64_t kBoardBytes = 128;
BUSBW_API void busbw_board_arrive(void* memory, uint32_t ranks, uint32_t meeting);
// Looks again and again for spin_ns, then sleeps for sleep_ns at most: kOk once all have come, else
// kTimedOut.
BUSBW_API int32_t busbw_board_wait(const void* memory, uint32_t meeting, int64_t spin_ns, int64_t sleep_ns);

// ---- timing loops (native/timing_loop.cpp) ------------------------------------------------------------
// A look is samples x k back-to-back calls. elapsed_ns[s] is the time of sample s, that is of k calls. `lead`
// calls run first, untimed but without a gap: they take up the skew with which ranks leave the barrier.

// Blocking calls (MPI): the host's clock is read once every k calls.
BUSBW_API int32_t busbw_time_host(const BusbwCall* call, uint64_t lead, uint64_t samples, uint64_t k,
                                  int64_t* elapsed_ns);

// Calls that enqueue on a stream (NCCL): an event every k calls, read after the last; the host never waits
// inside. issue_ns[s] is the host time that issuing sample s took. events holds samples + 1 CUevent.
struct BusbwStream {
  const BusbwCudaTable* cuda;
  const BusbwNcclTable* nccl;  // may be null: then the communicator's asynchronous errors are not read
  void* comm;
  void* stream;
  void** events;
  int64_t timeout_ns;  // of one wait; 0 = none
};
BUSBW_API int32_t busbw_time_events(const BusbwCall* call, const BusbwStream* stream, uint64_t lead,
                                    uint64_t samples, uint64_t k, int64_t* elapsed_ns, int64_t* issue_ns);
// Isolated calls: every sample is one call behind `barrier` (null: behind nothing), which begins delay_ns[s]
// later on this rank (null: at once). Blocking calls give both clock readings.
BUSBW_API int32_t busbw_time_isolated_host(const BusbwCall* barrier, const BusbwCall* call, uint64_t samples,
                                           const int64_t* delay_ns, int64_t* entry_ns, int64_t* exit_ns);
// Calls on a stream, with a barrier on the same stream: an event before and after, then a wait of the host.
BUSBW_API int32_t busbw_time_isolated_events(const BusbwCall* barrier, const BusbwCall* call,
                                             const BusbwStream* stream, uint64_t samples,
                                             const int64_t* delay_ns, int64_t* elapsed_ns, int64_t* issue_ns);
// nccl-tests' definition: one host clock pair around `calls` calls and their completion (benchmarks only).
BUSBW_API int32_t busbw_time_loop(const BusbwCall* call, const BusbwStream* stream, uint64_t calls,
                                  int64_t* elapsed_ns);
// Waits until everything enqueued on the stream has run. Uses events[0].
BUSBW_API int32_t busbw_stream_wait(const BusbwStream* stream);

// ---- several calls at once (native/lane_loop.cpp) -------------------------------------------------------
// A lane is a sequence of calls of one operation. In a round every lane issues `calls` of them, one after the
// other, from `slot` on; the lanes begin together, and the next round begins when all have ended. Lanes must
// not share a communicator, nor a stream.
struct BusbwLane {
  const BusbwCall* call;
  const BusbwStream* stream;  // of calls that enqueue; null where calls block
  uint64_t calls;
  uint64_t slot;
};
// Times are [lane][round]: when the first call of a lane began and when its last one ended, comparable within
// a round. `lead` rounds come first, untimed. Blocking calls are started and then tested in turn (`test` is
// MPI_Test), so that all make progress; every lane has a call under way from begin to end.
BUSBW_API int32_t busbw_time_lanes_host(const BusbwLane* lanes, int32_t count, void* test, uint64_t lead,
                                        uint64_t rounds, int64_t* begin_ns, int64_t* end_ns);
// The streams of the lanes wait for one event of the first one's, and that one for all at the end of a round;
// the host only enqueues, in one order on all ranks. Uses 2 rounds + 1 events of the first stream, 2 rounds
// of the others. issue_ns is the host time of issuing a lane's calls.
BUSBW_API int32_t busbw_time_lanes_events(const BusbwLane* lanes, int32_t count, uint64_t lead,
                                          uint64_t rounds, int64_t* begin_ns, int64_t* end_ns,
                                          int64_t* issue_ns);

// ---- load beside a collective (native/load.cpp) ---------------------------------------------------------
// Both do pieces of work until *stop is set by another thread.
struct BusbwLoadDone {
  uint64_t pieces;  // that have ended
  int64_t at_ns;    // when the last of them was seen to have
};
struct BusbwHostLoad {
  uint64_t piece;  // bytes to copy, or turns of eight multiplications and additions
  char* memory;    // copied from its first half to its second; null: multiply and add
  uint64_t memory_bytes;
  double
      busy_share;  // of the time: after each piece the thread rests for the others' part; 0: returns at once
};
BUSBW_API int32_t busbw_load_host(const BusbwHostLoad* load, const volatile int32_t* stop,
                                  volatile BusbwLoadDone* done);
// A piece is one issue of the call, on a stream of its own; `depth` of them are queued ahead. The thread
// looks after them every pause_ns. stream.events holds `depth` CUevent.
struct BusbwDeviceLoad {
  BusbwStream stream;
  const BusbwCall* call;
  uint64_t depth;
  int64_t pause_ns;
};
BUSBW_API int32_t busbw_load_device(const BusbwDeviceLoad* load, const volatile int32_t* stop,
                                    volatile BusbwLoadDone* done);

// ---- what NCCL tells of its calls (native/nccl_profiler.cpp)
// ----------------------------------------------- One event of NCCL's profiler interface. Words are empty and
// numbers -1 where the event has none.
struct BusbwNcclEvent {
  uint64_t sequence;  // how many calls of this function the communicator had before
  uint64_t count;     // elements, as NCCL counts: bytes of an all_gather or broadcast
  int32_t kind;       // NCCL's bit: 2 collective, 4 send or receive, 512 the call itself, 4096 engine copies
  int32_t rank;
  int32_t peer;  // of a send or receive
  int32_t channels;
  int32_t warps;
  char function[24];
  char algorithm[24];
  char protocol[12];  // of engine copies: how their ends are synchronised
  char kernel[48];    // of symmetric memory
};
constexpr uint64_t kNcclEventsKept = 8192;  // the last ones: an alltoall of 4,096 ranks
// Of the interface by which NCCL has loaded this library; 0 where no communicator has.
BUSBW_API int32_t busbw_profiler_version();
// The events (bits) that NCCL tells from now on, 0: none. Not while a call is issued. Any but 0 forgets what
// was told before.
BUSBW_API void busbw_profiler_watch(int32_t mask);
// Copies the last ones, oldest first, and returns how many were told, which may be more than are kept.
BUSBW_API uint64_t busbw_profiler_events(BusbwNcclEvent* events, uint64_t most);

// ---- by what algorithm NCCL does its calls (native/nccl_tuner.cpp) --------------------------------------
constexpr int kTunerAlgorithms = 7, kTunerProtocols = 3;
struct BusbwTunerChoice {
  int32_t algorithm;  // NCCL's numbers; -1: the site's tuner chooses, else NCCL
  int32_t protocol;
  int32_t channels;     // 0: NCCL's own number
  int32_t chunk_bytes;  // 0: NCCL's own; heeded since NCCL 2.30
};
// The last call that NCCL asked about: what it costs by NCCL's own model, negative where it cannot be done.
struct BusbwTunerCall {
  uint64_t calls;  // that NCCL asked about so far
  float costs[kTunerAlgorithms][kTunerProtocols];
};
// Of the interface by which NCCL has loaded this library as its tuner; 0 where no communicator has.
BUSBW_API int32_t busbw_tuner_version();
// For every call that is issued from now on, by this process.
BUSBW_API void busbw_tuner_choose(BusbwTunerChoice choice);
BUSBW_API void busbw_tuner_last(BusbwTunerCall* call);
// The number of rows of a table, or -1 and what is wrong with it.
BUSBW_API int32_t busbw_tuner_read(const char* path, char* complaint, uint64_t room);
