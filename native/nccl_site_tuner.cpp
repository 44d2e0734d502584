#include "nccl_site_tuner.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core_api.h"

namespace busbw {

// What every version exports; the functions differ in what they take.
struct PluginTable {
  const char* name;
  void* init;
  void* choose;
  int32_t (*finalize)(void*);
  void* chunk;  // of v6
};

namespace {

constexpr int32_t kOldest = 2;

template <typename Function>
Function* as(void* address) {
  return reinterpret_cast<Function*>(address);
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// As NCCL opens a plugin: by its own name, or by the value of a variable, which may be short.
void* open_plugin(const char* prefix, const char* value) {
  if (std::strcmp(value, "none") == 0) return nullptr;
  char name[512];
  std::snprintf(name, sizeof name, "%s%s%s.so", prefix, *value != '\0' ? "-" : "", value);
  void* library = *value != '\0' ? dlopen(value, RTLD_NOW | RTLD_LOCAL) : nullptr;
  return library != nullptr ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

// Two addresses in one library: busbw may be the site's tuner already.
bool are_together(const void* one, const void* other) {
  Dl_info first, second;
  return dladdr(one, &first) != 0 && dladdr(other, &second) != 0 && first.dli_fbase == second.dli_fbase;
}

bool find_table(void* library, int32_t newest, SiteTuner* site) {
  for (int32_t version = newest; library != nullptr && version >= kOldest; version--) {
    char symbol[32];
    std::snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", version);
    const void* found = dlsym(library, symbol);
    if (found == nullptr || are_together(found, reinterpret_cast<const void*>(&open_plugin))) continue;
    site->table = static_cast<const PluginTable*>(found);
    site->version = version;
    return true;
  }
  return false;
}

// A tuner's own library, else the network's, which may have one too. Neither is ever closed: NCCL holds the
// network's, and a process has few.
void find_site_tuner(int32_t newest, SiteTuner* site) {
  const char* own = variable("BUSBW_TUNER_SITE");
  if (std::strcmp(own, "none") == 0) return;
  if (!find_table(open_plugin("libnccl-tuner", own), newest, site))
    find_table(open_plugin("libnccl-net", variable("NCCL_NET_PLUGIN")), newest, site);
}

// v2 knows no costs: it names its choice, or leaves it.
int32_t ask_v2(const SiteTuner& site, const TunerQuestion& question) {
  using Choose = int32_t(void*, int32_t, size_t, int32_t, int32_t, int32_t, int32_t*, int32_t*, int32_t*);
  constexpr int32_t kCollnetDirect = 2, kNvls = 4, kSimple = 2;
  int32_t algorithm = -1, protocol = -1;
  const int32_t status = as<Choose>(site.table->choose)(
      site.context, question.function, question.bytes, question.cost(kCollnetDirect, kSimple) != nullptr,
      question.cost(kNvls, kSimple) != nullptr, question.pipe_ops, &algorithm, &protocol, question.channels);
  float* cost = question.cost(algorithm, protocol);
  if (status == kOk && cost != nullptr) *cost = 0.0f;
  return status;
}

}  // namespace

int32_t begin_site_tuner(const TunerStart& start, SiteTuner* site) {
  *site = {};
  find_site_tuner(start.version, site);
  if (site->table == nullptr) return kOk;
  using InitBySize = int32_t(size_t, size_t, NcclLogger, void**);
  using InitById = int32_t(void**, uint64_t, size_t, size_t, NcclLogger, void*, void*);
  if (site->version >= 5)
    return as<InitById>(site->table->init)(&site->context, start.communicator, start.ranks, start.nodes,
                                           start.logger, start.domain, start.constants);
  return as<InitBySize>(site->table->init)(start.ranks, start.nodes, start.logger, &site->context);
}

int32_t ask_site_tuner(const SiteTuner& site, const TunerQuestion& question) {
  if (site.table == nullptr) return kOk;
  if (site.version == 2) return ask_v2(site, question);
  using ChooseV3 = int32_t(void*, int32_t, size_t, int32_t, float**, int32_t, int32_t, int32_t*);
  using Choose = int32_t(void*, int32_t, size_t, int32_t, float**, int32_t, int32_t, int32_t, int32_t*);
  auto* costs = reinterpret_cast<float**>(question.costs);
  if (site.version == 3)
    return as<ChooseV3>(site.table->choose)(site.context, question.function, question.bytes,
                                            question.pipe_ops, costs, question.algorithms, question.protocols,
                                            question.channels);
  return as<Choose>(site.table->choose)(site.context, question.function, question.bytes, question.pipe_ops,
                                        costs, question.algorithms, question.protocols, question.registered,
                                        question.channels);
}

int32_t ask_site_chunk(const SiteTuner& site, int32_t function, size_t bytes, int32_t algorithm,
                       int32_t protocol, int32_t channels, size_t* chunk) {
  using Chunk = int32_t(void*, int32_t, size_t, int32_t, int32_t, int32_t, size_t*);
  if (site.table == nullptr || site.version < 6 || site.table->chunk == nullptr) return kOk;
  return as<Chunk>(site.table->chunk)(site.context, function, bytes, algorithm, protocol, channels, chunk);
}

int32_t finalize_site_tuner(const SiteTuner& site) {
  return site.table != nullptr && site.table->finalize != nullptr ? site.table->finalize(site.context) : kOk;
}

}  // namespace busbw
