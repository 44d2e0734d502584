// How NCCL loads a tuner plugin and asks it: the newest interface that a release of VERSION knows, as in its
// sources at the releases 2.21 to 2.30 (plugin/tuner, nccl_tuner.h). Rings and trees can do everything, the other
// algorithms nothing; without a tuner the ring with LL is the cheapest.
#include <stddef.h>

#define NEWEST_TUNER \
  (VERSION >= 23000 ? 6 : VERSION >= 22800 ? 5 : VERSION >= 22400 ? 4 : VERSION >= 22200 ? 3 : VERSION >= 22100 ? 2 : 0)
enum { TREE, RING, ALGORITHMS = 7, PROTOCOLS = 3 };

typedef struct {
  const char* name;
  int (*init)();
  int (*choose)();
  int (*finalize)(void*);
  int (*chunk)(void*, int, size_t, int, int, int, size_t*);
} Tuner;

static const Tuner* tuner;
static void* tuner_context;
static int tuner_version;

static void tuner_log(int level, unsigned long flags, const char* file, int line, const char* format, ...) {}

static int tuner_init(size_t ranks, size_t nodes) {
  const char* path = getenv("NCCL_TUNER_PLUGIN");
  void* library = path && NEWEST_TUNER ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : 0;
  for (tuner_version = library ? NEWEST_TUNER : 0; tuner_version && !tuner; tuner_version -= !tuner) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", tuner_version);
    tuner = dlsym(library, symbol);
  }
  if (!tuner) return 0;
  if (tuner_version >= 5)
    return ((int (*)(void**, uint64_t, size_t, size_t, void*, void*, void*))tuner->init)(
        &tuner_context, 77, ranks, nodes, tuner_log, 0, 0);
  return ((int (*)(size_t, size_t, void*, void**))tuner->init)(ranks, nodes, tuner_log, &tuner_context);
}

static void tuner_finalize(void) {
  if (tuner) tuner->finalize(tuner_context);
  tuner = 0;
}

typedef struct {
  int algorithm, protocol, channels;
  size_t chunk;
} Chosen;

static Chosen tuner_ask(int function, size_t bytes) {
  float costs[ALGORITHMS][PROTOCOLS];
  Chosen chosen = {RING, 0, 0, 0};
  for (int a = 0; a < ALGORITHMS; a++)
    for (int p = 0; p < PROTOCOLS; p++) costs[a][p] = a <= RING ? 10 + 3 * (RING - a) + p : -1;
  if (!tuner) return chosen;
  if (tuner_version == 2)
    return ((int (*)(void*, int, size_t, int, int, int, int*, int*, int*))tuner->choose)(
               tuner_context, function, bytes, 0, 0, 1, &chosen.algorithm, &chosen.protocol, &chosen.channels),
           chosen;
  if (tuner_version == 3)
    ((int (*)(void*, int, size_t, int, void*, int, int, int*))tuner->choose)(
        tuner_context, function, bytes, 1, costs, ALGORITHMS, PROTOCOLS, &chosen.channels);
  else
    ((int (*)(void*, int, size_t, int, void*, int, int, int, int*))tuner->choose)(
        tuner_context, function, bytes, 1, costs, ALGORITHMS, PROTOCOLS, 0, &chosen.channels);
  float least = 1e9f;
  for (int a = 0; a < ALGORITHMS; a++)
    for (int p = 0; p < PROTOCOLS; p++)
      if (costs[a][p] >= 0 && costs[a][p] < least) least = costs[a][p], chosen.algorithm = a, chosen.protocol = p;
  if (tuner_version >= 6)
    tuner->chunk(tuner_context, function, bytes, chosen.algorithm, chosen.protocol, chosen.channels, &chosen.chunk);
  return chosen;
}
