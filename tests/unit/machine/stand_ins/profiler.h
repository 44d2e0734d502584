// How NCCL loads a profiler plugin and what it tells it: the newest interface that a release of VERSION knows,
// with that interface's own structures, so that it is the compiler who places their fields. As in NCCL's sources
// at the releases 2.23 to 2.33 (plugin/profiler.cc, profiler_v1.h to profiler_v7.h).
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

#define NEWEST                                                                                        \
  (VERSION >= 23100 ? 7 : VERSION >= 22900 ? 6 : VERSION >= 22800 ? 5 : VERSION >= 22700 ? 4          \
   : VERSION >= 22600 ? 3 : VERSION >= 22400 ? 2 : VERSION >= 22300 ? 1 : 0)
enum { GROUP = 1, COLL = 2, P2P = 4, GROUP_API = 256, COLL_API = 512, P2P_API = 1024, CE_COLL = 4096 };

#define HEAD(TYPE) TYPE type; void* parent; int rank
#define COLL_1_TO_3 const char* name; uint64_t hash, sequence
#define BUFFERS const void* send; void* recv; size_t count; int root
#define WORDS const char *algorithm, *protocol
typedef struct {
  HEAD(uint8_t);
  union {
    struct { COLL_1_TO_3; uint8_t func; BUFFERS; uint8_t datatype; uint32_t op; size_t traffic;
             uint8_t most_channels, warps, algorithm, protocol; int collnet, nvls; } coll;
    struct { const char* name; uint64_t hash; uint8_t func; void* buffer; uint8_t datatype; size_t count; int peer; } p2p;
  };
} Event1;
typedef struct {
  HEAD(uint8_t);
  union {
    struct { COLL_1_TO_3; const char* func; BUFFERS; const char* datatype; size_t traffic; uint8_t most_channels, warps; WORDS; } coll;
    struct { const char* name; uint64_t hash; const char* func; void* buffer; const char* datatype; size_t count; int peer; } p2p;
  };
} Event2;
typedef struct {
  HEAD(uint8_t);
  union {
    struct { COLL_1_TO_3; const char* func; BUFFERS; const char* datatype; uint8_t most_channels, warps; WORDS; } coll;
    struct { const char* name; uint64_t hash; const char* func; void* buffer; const char* datatype; size_t count; int peer; } p2p;
  };
} Event3;
#define COLL_FROM_4 uint64_t sequence; const char* func; BUFFERS; const char* datatype; uint8_t channels, warps; WORDS
#define P2P_FROM_4 const char* func; void* buffer; const char* datatype; size_t count; int peer; uint8_t channels
typedef struct {
  HEAD(uint8_t);
  union { struct { COLL_FROM_4; } coll; struct { P2P_FROM_4; } p2p; };
} Event4;
#define COLL_API_FROM_5 const char* func; size_t count; const char* datatype; int root; void* stream; bool captured
typedef struct {
  HEAD(uint64_t);
  union {
    struct { bool captured; int depth; } group_api;
    struct { COLL_API_FROM_5; } coll_api;
    struct { COLL_FROM_4; void* group; } coll;
    struct { P2P_FROM_4; void* group; } p2p;
  };
} Event5;
#define CE_FROM_6 uint64_t sequence; const char* func; BUFFERS; const char *datatype, *sync; bool inside; uint32_t batch, batches, number; void* stream
typedef struct {
  HEAD(uint64_t);
  union {
    struct { bool captured; int depth; } group_api;
    struct { COLL_API_FROM_5; } coll_api;
    struct { COLL_FROM_4; void* group; } coll;
    struct { P2P_FROM_4; void* group; } p2p;
    struct { CE_FROM_6; } ce;
  };
} Event6;
typedef struct {
  HEAD(uint64_t);
  union {
    struct { bool captured; int depth; } group_api;
    struct { COLL_API_FROM_5; uint64_t tag; } coll_api;
    struct { COLL_FROM_4; void* group; const char* variant; bool symmetric; uint64_t tag; } coll;
    struct { P2P_FROM_4; void* group; uint64_t tag; } p2p;
    struct { CE_FROM_6; uint64_t tag; } ce;
  };
} Event7;

typedef struct {
  const char* name;
  int (*init)();
  int (*start)(void* context, void** handle, void* event);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
} Profiler;

static const Profiler* profiler;
static void *profiler_library, *profiler_context;
static int profiler_version, profiler_mask, profiler_communicators;
static uint64_t calls_before[9];

static void profiler_load(void) {
  const char* path = getenv("NCCL_PROFILER_PLUGIN");
  if (!path || !NEWEST || profiler || !strcmp(path, "none")) return;
  if (!(profiler_library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) return;
  for (profiler_version = NEWEST; profiler_version && !profiler; profiler_version--) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", profiler_version);
    if ((profiler = dlsym(profiler_library, symbol))) break;
  }
}
static void profiler_init(int size, int rank) {
  memset(calls_before, 0, sizeof calls_before);
  profiler_load();
  if (!profiler) return;
  profiler_communicators++;
  if (profiler_version >= 5)
    ((int (*)(void**, uint64_t, int*, const char*, int, int, int, void*))profiler->init)(
        &profiler_context, 77, &profiler_mask, "of a stand-in", 1, size, rank, 0);
  else if (profiler_version == 4)
    ((int (*)(void**, int*, const char*, uint64_t, int, int, int, void*))profiler->init)(
        &profiler_context, &profiler_mask, "of a stand-in", 77, 1, size, rank, 0);
  else
    ((int (*)(void**, int*))profiler->init)(&profiler_context, &profiler_mask);
}
static void profiler_finalize(void) {
  if (!profiler) return;
  if (profiler_context) profiler->finalize(profiler_context);
  if (--profiler_communicators) return;
  profiler = 0;
  dlclose(profiler_library);
}

static void* profiler_start(void* event) {
  void* handle = 0;
  profiler->start(profiler_context, &handle, event);
  return handle;
}
static void profiler_stop(void* handle) {
  if (handle) profiler->stop(handle);
}
// An event of version N: its type, then what it has; what follows the type in one byte is left undefined.
#define TOLD(N, TYPE, ...)                                  \
  case N: {                                                 \
    Event##N event;                                         \
    memset(&event, 0xee, sizeof event);                     \
    event.type = TYPE, event.parent = 0, event.rank = rank; \
    __VA_ARGS__;                                            \
    profiler_stop(profiler_start(&event));                  \
  } break

static const char* const functions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                        "AllReduce", "SendRecv", "Send",      "Recv"};
static int function_number(const char* name) {
  for (int i = 0; i < 8; i++)
    if (!strcmp(name, functions[i])) return i;
  return 8;
}
// What is above a call in NCCL's tree arrives unasked; up to 2.27 a group without a handle has no calls.
static void* profiler_group(int rank) {
  if (profiler_version < 5) {
    Event1 group = {.type = GROUP, .rank = rank};
    return profiler_start(&group);
  }
  Event7 group = {.type = GROUP, .rank = rank};
  return profiler_start(&group);
}
static void profiler_tell_call(const char* name, size_t count, int rank) {
  if (!profiler || profiler_version < 5 || !(profiler_mask & (COLL_API | COLL | CE_COLL))) return;
  Event7 group = {.type = GROUP_API, .rank = rank, .group_api = {0, 1}};
  profiler_stop(profiler_start(&group));
  Event7 call = {.type = COLL_API, .rank = rank, .coll_api = {.func = name, .count = count}};
  profiler_stop(profiler_start(&call));
}
static void profiler_tell_collective(const char* name, size_t count, int rank, const char* algorithm,
                                     const char* protocol) {
  uint64_t sequence = calls_before[function_number(name)]++;
  if (!profiler || !(profiler_mask & COLL)) return;
  void* group = profiler_group(rank);
  if (!group && profiler_version < 5) return;
#define SAME event.coll.sequence = sequence, event.coll.count = count, event.coll.warps = 12
#define IN_WORDS event.coll.func = name, event.coll.algorithm = algorithm, event.coll.protocol = protocol
  switch (profiler_version) {
    TOLD(1, COLL, SAME, event.coll.most_channels = 24, event.coll.func = function_number(name),
         event.coll.algorithm = strcmp(algorithm, "RING") ? 4 : 1,
         event.coll.protocol = strcmp(protocol, "LL128") ? 2 : 1);
    TOLD(2, COLL, SAME, event.coll.most_channels = 24, IN_WORDS);
    TOLD(3, COLL, SAME, event.coll.most_channels = 24, IN_WORDS);
    TOLD(4, COLL, SAME, event.coll.channels = 16, IN_WORDS);
    TOLD(5, COLL, SAME, event.coll.channels = 16, IN_WORDS);
    TOLD(6, COLL, SAME, event.coll.channels = 16, IN_WORDS);
#ifdef SYMMETRIC
    TOLD(7, COLL, SAME, event.coll.channels = 16, IN_WORDS, event.coll.algorithm = "AGxLL_R",
         event.coll.protocol = "", event.coll.variant = "AllReduce_AGxLL_R", event.coll.symmetric = 1);
#else
    TOLD(7, COLL, SAME, event.coll.channels = 16, IN_WORDS, event.coll.variant = 0, event.coll.symmetric = 0);
#endif
  }
  profiler_stop(group);
}
static void profiler_tell_copies(const char* name, size_t count, int rank) {
  if (!profiler || profiler_version < 6 || !(profiler_mask & CE_COLL)) return;
  switch (profiler_version) {
    TOLD(6, CE_COLL, event.ce.sequence = 3, event.ce.func = name, event.ce.count = count, event.ce.sync = "MC");
    TOLD(7, CE_COLL, event.ce.sequence = 3, event.ce.func = name, event.ce.count = count, event.ce.sync = "MC");
  }
}
// Sends and receives are told when their group ends.
static struct { const char* name; size_t count; int peer, rank; } transfers[64];
static int transfer_count, group_depth;
static void profiler_tell_transfers(void) {
  if (group_depth || !transfer_count) return;
  int many = transfer_count, rank = transfers[0].rank;
  transfer_count = 0;
  if (!profiler || !(profiler_mask & P2P)) return;
  void* group = profiler_group(rank);
  if (!group && profiler_version < 5) return;
  for (int i = 0; i < many; i++) {
#define OF_PEER event.p2p.count = transfers[i].count, event.p2p.peer = transfers[i].peer
    switch (profiler_version) {
      TOLD(1, P2P, OF_PEER, event.p2p.func = function_number(transfers[i].name));
      TOLD(2, P2P, OF_PEER, event.p2p.func = transfers[i].name);
      TOLD(3, P2P, OF_PEER, event.p2p.func = transfers[i].name);
      TOLD(4, P2P, OF_PEER, event.p2p.func = transfers[i].name, event.p2p.channels = 8);
      TOLD(5, P2P, OF_PEER, event.p2p.func = transfers[i].name, event.p2p.channels = 8);
      TOLD(6, P2P, OF_PEER, event.p2p.func = transfers[i].name, event.p2p.channels = 8);
      TOLD(7, P2P, OF_PEER, event.p2p.func = transfers[i].name, event.p2p.channels = 8);
    }
  }
  profiler_stop(group);
}
static void profiler_transfer(const char* name, size_t count, int peer, int rank) {
  if (transfer_count == 64) return;
  transfers[transfer_count].name = name, transfers[transfer_count].count = count;
  transfers[transfer_count].peer = peer, transfers[transfer_count++].rank = rank;
  profiler_tell_transfers();
}
