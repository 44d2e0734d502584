// A captured CUDA graph of many calls: one issue launches it whole. Who captured it destroys it.
#include "collective_call.hpp"

namespace busbw {
namespace {

struct GraphCall final : BusbwCall {
  using Launch = int (*)(void* graph_exec, void* stream);
  GraphCall(const BusbwCudaTable& cuda, void* captured, void* on_stream)
      : BusbwCall(1, false),
        launch(as_function<Launch>(cuda.graph_launch)),
        exec(captured),
        stream(on_stream) {}

  // The slots are inside the graph, so every launch works on the same ones.
  int32_t issue(uint64_t) const noexcept override { return tagged(kCudaError, launch(exec, stream)); }

  const Launch launch;
  void* const exec;
  void* const stream;
};

}  // namespace
}  // namespace busbw

BusbwCall* busbw_graph_call(const BusbwCudaTable* cuda, void* graph_exec, void* stream) {
  if (graph_exec == nullptr) return nullptr;
  return new busbw::GraphCall(*cuda, graph_exec, stream);
}
