// A site's own tuner of interface INTERFACE: all calls by the ring with LL128 over 3 channels, in chunks of 4 KiB.
#include <stddef.h>
#include <stdint.h>

#include "log.h"

enum { RING = 1, LL128 = 1 };
static char context;

#if INTERFACE >= 5
static int init(void** own, uint64_t communicator, size_t ranks, size_t nodes, void* logger, void* domain,
                void* constants) {
#else
static int init(size_t ranks, size_t nodes, void* logger, void** own) {
  uint64_t communicator = 77;
#endif
  *own = &context;
  return asked(5, "SiteInit", "%lu %lu %lu", communicator, ranks, nodes);
}

#if INTERFACE == 2
static int choose(void* own, int function, size_t bytes, int collnet, int nvls, int operations, int* algorithm,
                  int* protocol, int* channels) {
  *algorithm = RING, *protocol = LL128;
#else
static int choose(void* own, int function, size_t bytes, int operations, float* costs, int algorithms,
                  int protocols,
#if INTERFACE >= 4
                  int registered,
#endif
                  int* channels) {
  costs[RING * protocols + LL128] = 0;
#endif
  *channels = own == &context ? 3 : 0;
  return asked(3, "SiteChoose", "%d %lu %d", function, bytes, operations);
}

static int finalize(void* own) { return asked(3, "SiteFinalize", "%d", own == &context); }

static int chunk(void* own, int function, size_t bytes, int algorithm, int protocol, int channels, size_t* size) {
  *size = own == &context ? 4096 : 0;
  return 0;
}

#define NAMED(VERSION) ncclTunerPlugin_v##VERSION
#define NAME(VERSION) NAMED(VERSION)
const struct {
  const char* name;
  int (*init)();
  int (*choose)();
  int (*finalize)(void*);
  int (*chunk)();
} NAME(INTERFACE) = {"site", init, choose, finalize, chunk};
