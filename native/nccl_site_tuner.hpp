// The tuner that NCCL would have without busbw. NCCL holds one; where busbw leaves a call alone, the site's
// is asked, so that the default stays what the site has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace busbw {

using NcclLogger = void (*)(int32_t level, unsigned long flags, const char* file, int line,
                            const char* format, ...);

// How NCCL begins with a tuner, by the interface of this version. Before v5 there is no more than the sizes.
struct TunerStart {
  int32_t version;
  size_t ranks, nodes;
  NcclLogger logger;
  uint64_t communicator;
  void* domain;
  void* constants;
};

// A call, as NCCL asks a tuner about it. ``costs`` are NCCL's, [algorithms][protocols]: negative is
// impossible.
struct TunerQuestion {
  int32_t function;
  size_t bytes;
  int32_t pipe_ops;
  float* costs;
  int32_t algorithms, protocols;
  int32_t registered;
  int32_t* channels;

  // Null where NCCL cannot do it.
  float* cost(int32_t algorithm, int32_t protocol) const {
    const bool inside = algorithm >= 0 && algorithm < algorithms && protocol >= 0 && protocol < protocols;
    float* found = inside ? costs + algorithm * protocols + protocol : nullptr;
    return found != nullptr && *found >= 0.0f ? found : nullptr;
  }
};

// The site's tuner for one communicator. Null everywhere where the site has none.
struct SiteTuner {
  const struct PluginTable* table;
  int32_t version;
  void* context;
};

// Finds it as NCCL does and begins it. BUSBW_TUNER_SITE is what NCCL_TUNER_PLUGIN was before it named busbw.
int32_t begin_site_tuner(const TunerStart& start, SiteTuner* site);
int32_t ask_site_tuner(const SiteTuner& site, const TunerQuestion& question);
// Since v6; how much of a call a channel sends at once.
int32_t ask_site_chunk(const SiteTuner& site, int32_t function, size_t bytes, int32_t algorithm,
                       int32_t protocol, int32_t channels, size_t* chunk);
int32_t finalize_site_tuner(const SiteTuner& site);

}  // namespace busbw
