// A stand-in for libnccl.so.2. VERSION: what ncclGetVersion says, and so which functions there are;
// INCOMPLETE: without ncclCommDestroy; NO_WINDOWS: a communicator that supports none; SKIPS:
// NCCL_LOCAL_REGISTER=0; STREAMS: every communicator is another one; SYMMETRIC, COPIES: calls go by kernels for
// symmetric memory, by copy engines.
// With STAND_IN_TIMED in the environment calls take time; STAND_IN_HANGS=0/0/4: of what a tuner chose, this does not
// come back; STAND_IN_DIES=0/0/8: this is fast, and ends the process
// in its second pass.
#include <time.h>

#include "log.h"
#include "profiler.h"
#include "tuner.h"

#define FAILURE 5
#define SENDS_AND_RECEIVES const void *send, void *recv, size_t count, int type

static const char* last_error = "";

static void spend_us(long us) {
  struct timespec began, now;
  clock_gettime(CLOCK_MONOTONIC, &began);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - began.tv_sec) * 1000000 + (now.tv_nsec - began.tv_nsec) / 1000 < us);
}

typedef struct {
  unsigned char bytes[128];
} UniqueId;

int ncclGetVersion(int* version) { return *version = VERSION, 0; }
const char* ncclGetErrorString(int code) {
  return code == 4 ? "invalid argument" : code == 6 ? "remote process exited" : "internal error";
}
const char* ncclGetLastError(void* comm) { return comm == (void*)0x66l ? "rank 3 is gone" : last_error; }
int ncclGetUniqueId(UniqueId* id) {
  for (int i = 0; i < 128; i++) id->bytes[i] = i % 3 ? i : 0;
  return 0;
}
// As NCCL's rank 0 does while it makes a communicator.
static void dump(const char* variable, const char* text) {
  FILE* file = getenv(variable) ? fopen(getenv(variable), "w") : 0;
  if (file) fputs(text, file), fclose(file);
}
int ncclCommInitRank(void** comm, int size, UniqueId id, int rank) {
  UniqueId expected;
  if (rank == 0) {
    dump("NCCL_TOPO_DUMP_FILE", "<system version=\"1\">\n</system>\n");
    dump("NCCL_GRAPH_DUMP_FILE", "<graphs version=\"1\">\n</graphs>\n");
  }
  ncclGetUniqueId(&expected);
  if (memcmp(&expected, &id, sizeof id)) return 3;
  if (rank >= size) return last_error = "Invalid rank requested", 4;
  *comm = (void*)(0x1000l * size + rank);
  profiler_init(size, rank);
  int refused = tuner_init(size, 2);
  if (refused) return refused;
#ifdef STREAMS
  static long made;
  *comm = (char*)*comm + 0x10000000l * ++made;
#endif
  return asked(FAILURE, "CommInitRank", "%d %d", size, rank);
}
int ncclCommSplit(void* comm, int colour, int key, void** part, void* config) {
  *part = colour < 0 || config ? 0 : (void*)((Address)comm + 0x100000l * (colour + 1) + key);
  if (*part) profiler_init(0, key);
  return asked(FAILURE, "CommSplit", "%lu %d %d", (Address)comm, colour, key);
}
#ifndef INCOMPLETE
int ncclCommDestroy(void* comm) {
  if (!comm) return 4;
  profiler_finalize();
  tuner_finalize();
  return asked(FAILURE, "CommDestroy", "%lu", (Address)comm);
}
#endif
// 0x66: a peer died; 0x77: still connecting.
int ncclCommGetAsyncError(void* comm, int* code) {
  return *code = comm == (void*)0x66l ? 6 : comm == (void*)0x77l ? 7 : 0, 0;
}

// ---- reductions of one's own ---------------------------------------------------------------------------

int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, void* comm) {
  float value = 0;
  if (type == 7) memcpy(&value, scalar, sizeof value);
  *op = 0x51;
  return asked(FAILURE, "RedOpCreatePreMulSum", "%g %d %d %lu", value, type, residence, (Address)comm);
}
int ncclRedOpDestroy(int op, void* comm) {
  return asked(FAILURE, "RedOpDestroy", "%d %lu", op, (Address)comm);
}

// ---- memory and its registration -----------------------------------------------------------------------

#if VERSION >= 21900
int ncclMemAlloc(void** address, size_t bytes) {
  *address = malloc(bytes);
  return asked(FAILURE, "MemAlloc", "%lu", bytes);
}
int ncclMemFree(void* address) { return free(address), asked(FAILURE, "MemFree", "%lu", (Address)address); }
int ncclCommRegister(void* comm, void* address, size_t bytes, void** handle) {
#ifdef SKIPS
  *handle = 0;
#else
  *handle = (char*)address + 1;
#endif
  return asked(FAILURE, "CommRegister", "%lu %lu %lu", (Address)comm, (Address)address, bytes);
}
int ncclCommDeregister(void* comm, void* handle) {
  return handle ? asked(FAILURE, "CommDeregister", "%lu %lu", (Address)comm, (Address)handle) : 4;
}
#endif
#if VERSION >= 22700
int ncclCommWindowRegister(void* comm, void* address, size_t bytes, void** window, int flags) {
#ifdef NO_WINDOWS
  *window = 0;
#else
  *window = (char*)address + 2;
#endif
  return asked(FAILURE, "CommWindowRegister", "%lu %lu %lu %d", (Address)comm, (Address)address, bytes,
               flags);
}
int ncclCommWindowDeregister(void* comm, void* window) {
  return window ? asked(FAILURE, "CommWindowDeregister", "%lu %lu", (Address)comm, (Address)window) : 4;
}
#endif

// ---- the log: read from the variables once, and again when asked to -----------------------------------

static int reads_log, has_read_log;
static FILE* debug_file;
static void read_log(void) {
  const char *level = getenv("NCCL_DEBUG"), *subsystem = getenv("NCCL_DEBUG_SUBSYS"),
             *path = getenv("NCCL_DEBUG_FILE");
  reads_log = level && !strcmp(level, "INFO") && subsystem && !strcmp(subsystem, "TUNING");
  if (debug_file) fclose(debug_file);
  debug_file = path ? fopen(path, "w") : 0;
  has_read_log = 1;
}
#if VERSION >= 22400
void ncclResetDebugInit(void) { read_log(); }
#endif
// What a tuner makes of a call: told, and with STAND_IN_TIMED spent, 20 us or more. Of all ways to do it the ring with LL128
// and 24 channels is the fastest, in half the time that NCCL takes by itself.
static void tune(const char* call, size_t count, void* comm) {
  static const char* functions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};
  int function = 0;
  while (function < 5 && strcmp(call, functions[function])) function++;
  if (!tuner && !getenv("STAND_IN_TIMED")) return;
  size_t ranks = function == 2 || function == 3 ? (Address)comm % 0x100000 / 0x1000 : 1;
  Chosen chosen = tuner_ask(function, count * 4 * ranks);
  if (tuner)
    asked(FAILURE, "Tuned", "%s %d %d %d", call, chosen.algorithm, chosen.protocol, chosen.channels);
  if (chosen.chunk) asked(FAILURE, "Chunk", "%lu", chosen.chunk);
  const char* hangs = getenv("STAND_IN_HANGS");
  char now[64];
  snprintf(now, sizeof now, "%d/%d/%d", chosen.algorithm, chosen.protocol, chosen.channels);
  if (hangs && !strcmp(hangs, now))
    for (;;) pause();
  const char* dies = getenv("STAND_IN_DIES");
  static char before[64];
  static int passes;
  int is_deadly = dies && !strcmp(dies, now);
  passes += is_deadly && strcmp(before, now);
  if (passes == 2) abort();
  strcpy(before, now);
  if (getenv("STAND_IN_TIMED")) {
    int is_best = chosen.algorithm == RING && chosen.protocol == 1 && chosen.channels == 24;
    spend_us(is_best || is_deadly ? 20 : 40 + 5 * (chosen.algorithm == TREE) + 3 * chosen.protocol);
  }
}
// In the log of rank 0 alone, to a profiler of all; the size doubles as an algorithm: NVLS from 64 KiB on.
static void tell(const char* call, size_t count, void* comm) {
  tune(call, count, comm);
  const char *algorithm = count < 16384 ? "RING" : "NVLS", *protocol = count < 16384 ? "LL128" : "SIMPLE";
  int rank = (Address)comm % 0x1000;
  profiler_tell_call(call, count, rank);
#ifdef COPIES
  profiler_tell_copies(call, count, rank);
#elif !defined(SYMMETRIC) || VERSION >= 23100
  profiler_tell_collective(call, count, rank, algorithm, protocol);
#endif
  if (!has_read_log) read_log();
  if (!reads_log || rank) return;
  FILE* out = debug_file ? debug_file : stderr;
  fprintf(out, "node:1:1 [0] NCCL INFO %s", call);
#ifdef SYMMETRIC
  fprintf(out, " [Symmetric]: %lu Bytes -> Kernel AllReduce_AGxLL_R nchannels 16 nthreads 512\n", (Address)count * 4);
#elif defined COPIES
  fprintf(out, " [Copy Engine]: %lu Bytes -> cudaMemcpyBatchAsync\n", (Address)count * 4);
#else
  fprintf(out, ": %lu Bytes -> Algo %s proto %s channel{Lo..Hi}={0..15}\n", (Address)count * 4, algorithm, protocol);
#endif
  fflush(out);
}

// ---- collectives: they only say what they were asked for -------------------------------------------------

#define MOVE(NAME)                                                                                    \
  int nccl##NAME(SENDS_AND_RECEIVES, void* comm, void* stream) {                                      \
    MOVES(#NAME, count, comm);                                                                        \
    return asked(FAILURE, #NAME, "%lu %lu %lu %d %lu %lu", (Address)send, (Address)recv, count, type, \
                 (Address)comm, (Address)stream);                                                     \
  }
// The integer after the type: an operation or a root.
#define ONE_MORE(NAME)                                                                                   \
  int nccl##NAME(SENDS_AND_RECEIVES, int more, void* comm, void* stream) {                               \
    tell(#NAME, count, comm);                                                                            \
    return asked(FAILURE, #NAME, "%lu %lu %lu %d %d %lu %lu", (Address)send, (Address)recv, count, type, \
                 more, (Address)comm, (Address)stream);                                                  \
  }
// What NCCL itself does by sends and receives, to and from everybody.
static void expand(const char* call, size_t count, void* comm) {
  int rank = (Address)comm % 0x1000, size = (Address)comm % 0x100000 / 0x1000;
  profiler_tell_call(call, count, rank);
  group_depth++;
  for (int peer = 0; peer < size; peer++) {
    profiler_transfer("Send", count, peer, rank);
    profiler_transfer("Recv", count, peer, rank);
  }
  group_depth--;
  profiler_tell_transfers();
}
ONE_MORE(AllReduce)
ONE_MORE(ReduceScatter)
ONE_MORE(Broadcast)
#define MOVES tell
MOVE(AllGather)
#if VERSION >= 22803
ONE_MORE(Gather)
ONE_MORE(Scatter)
#undef MOVES
#define MOVES expand
MOVE(AlltoAll)
#endif
int ncclReduce(SENDS_AND_RECEIVES, int op, int root, void* comm, void* stream) {
  tell("Reduce", count, comm);
  return asked(FAILURE, "Reduce", "%lu %lu %lu %d %d %d %lu %lu", (Address)send, (Address)recv, count, type,
               op, root, (Address)comm, (Address)stream);
}
int ncclSend(const void* send, size_t count, int type, int peer, void* comm, void* stream) {
  profiler_transfer("Send", count, peer, (Address)comm % 0x1000);
  return asked(FAILURE, "Send", "%lu %lu %d %d %lu %lu", (Address)send, count, type, peer, (Address)comm,
               (Address)stream);
}
int ncclRecv(void* recv, size_t count, int type, int peer, void* comm, void* stream) {
  profiler_transfer("Recv", count, peer, (Address)comm % 0x1000);
  return asked(FAILURE, "Recv", "%lu %lu %d %d %lu %lu", (Address)recv, count, type, peer, (Address)comm,
               (Address)stream);
}
int ncclGroupStart(void) { return group_depth++, asked(FAILURE, "GroupStart", ""); }
int ncclGroupEnd(void) {
  group_depth--;
  profiler_tell_transfers();
  return asked(FAILURE, "GroupEnd", "");
}
