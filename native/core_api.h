// The C functions of libbusbw_core.so, called from src/busbw/_native/core.py through ctypes.
// Header-free on purpose: no CUDA, NCCL or MPI header is needed to build this library, and it links
// with none of them. What it calls of theirs arrives as function addresses found at run time.
#pragma once

#include <cstdint>

#define BUSBW_API extern "C" __attribute__((visibility("default")))

// Raised with every change of a struct or signature below; core.py refuses a library of another number.
constexpr int32_t kCoreAbi = 3;
BUSBW_API int32_t busbw_core_abi();

// ---- status of every function that returns int32_t -------------------------------------------------
// 0 is success; negative numbers are ours. A positive one is MPI's own code as it is (MPICH uses 30 bits of
// it), or, of a call on a GPU, the library's tag plus its code.
enum BusbwStatus : int32_t {
  kOk = 0,
  kBadArgument = -1,
  kInterrupted = -2,  // the caller raised the interrupt flag while we waited
  kTimedOut = -3,
  kNcclError = 1 << 20,
  kCudaError = 2 << 20,
};

// Numbers that core.py shares.
enum BusbwCollective : int32_t { kAllReduce = 0, kAllGather = 1, kSendRecv = 2 };

// ---- monotonic clock (native/clock.hpp) -------------------------------------------------------------
BUSBW_API int64_t busbw_now_ns();

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

struct BusbwMpiSpec {
  int32_t collective;    // BusbwCollective
  int32_t handle_bytes;  // 4: handles are ints (MPICH ABI); 8: pointers (Open MPI, the MPI 5 ABI)
  int32_t large_count;   // non-zero: the functions are the MPI_Count forms (MPI_Allreduce_c, ...)
  int32_t root;
  int32_t send_to;
  int32_t recv_from;
  void* function;  // address of MPI_Allreduce, MPI_Allgather, MPI_Sendrecv, ...
  uint64_t datatype;
  uint64_t op;
  uint64_t comm;
  void* send;
  void* recv;
  int64_t send_count;
  int64_t recv_count;
  BusbwRotation rotation;
};

// Function addresses of the libnccl and libcuda in use; filled in by core.py with dlsym.
struct BusbwNcclTable {
  void* all_reduce;
  void* all_gather;
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
};

struct BusbwNcclSpec {
  int32_t collective;
  int32_t datatype;  // ncclDataType_t
  int32_t op;        // ncclRedOp_t
  int32_t root;
  int32_t send_to;
  int32_t recv_from;
  const BusbwNcclTable* nccl;
  void* comm;
  void* stream;
  const void* send;
  void* recv;
  uint64_t count;
  BusbwRotation rotation;
};

struct BusbwCall;                                                 // opaque
BUSBW_API BusbwCall* busbw_mpi_call(const BusbwMpiSpec* spec);    // null where the spec is not supported
BUSBW_API BusbwCall* busbw_nccl_call(const BusbwNcclSpec* spec);  // null where the spec is not supported
BUSBW_API BusbwCall* busbw_null_call();
BUSBW_API void busbw_call_free(BusbwCall* call);
// One call at the given slot, untimed (correctness checks, warm-up).
BUSBW_API int32_t busbw_issue(const BusbwCall* call, uint64_t slot);

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
  const volatile int32_t* interrupt;  // raised by another thread to end a wait
  int64_t timeout_ns;                 // of one wait; 0 = none
};
BUSBW_API int32_t busbw_time_events(const BusbwCall* call, const BusbwStream* stream, uint64_t lead,
                                    uint64_t samples, uint64_t k, int64_t* elapsed_ns, int64_t* issue_ns);
// nccl-tests' definition: one host clock pair around `calls` calls and their completion (benchmarks only).
BUSBW_API int32_t busbw_time_loop(const BusbwCall* call, const BusbwStream* stream, uint64_t calls,
                                  int64_t* elapsed_ns);
// Waits until everything enqueued on the stream has run. Uses events[0].
BUSBW_API int32_t busbw_stream_wait(const BusbwStream* stream);
