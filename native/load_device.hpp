// Kernels that load a GPU beside a collective. Launch with any one-dimensional grid and block: a launch takes
// as long as `turns` say, so that the host bounds it, and holds as many multiprocessors as it has blocks.
#pragma once

#include "pattern_types.hpp"

namespace busbw {

constexpr int kChains = 8;  // independent, so that the latency of one does not show
constexpr int kStepsPerTurn = 16;
constexpr int kCopiesPerTurn = 4;                     // packets of 16 bytes a thread has under way
constexpr uint64_t kHalfPackets = uint64_t{1} << 23;  // 128 MiB: larger than caches are

}  // namespace busbw

// Multiplies and adds 2 * kChains * kStepsPerTurn floating-point operations a thread and turn. `sink` is
// written by nobody, but the compiler cannot know.
extern "C" __global__ void busbw_compute_kernel(float* sink, uint64_t turns, uint64_t) {
  float a[busbw::kChains];
  for (int i = 0; i < busbw::kChains; ++i) a[i] = static_cast<float>(threadIdx.x + i);
  for (uint64_t turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (int step = 0; step < busbw::kStepsPerTurn; ++step) {
#pragma unroll
      for (int i = 0; i < busbw::kChains; ++i) a[i] = fmaf(a[i], 0.999f, 0.001f);
    }
  }
  float sum = 0;
  for (int i = 0; i < busbw::kChains; ++i) sum += a[i];
  if (sum < 0) *sink = sum;
}

// Copies from the first half of a buffer of 2 * kHalfPackets packets to its second half, round and round: a
// launch begins where the one before it ended, `first` turns after the start.
extern "C" __global__ void busbw_memory_kernel(uint4* buffer, uint64_t turns, uint64_t first) {
  const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
  uint64_t at = first * threads * busbw::kCopiesPerTurn + uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (uint64_t turn = 0; turn < turns; ++turn) {
    uint4 packets[busbw::kCopiesPerTurn];
#pragma unroll
    for (int i = 0; i < busbw::kCopiesPerTurn; ++i)
      packets[i] = buffer[(at + i * threads) % busbw::kHalfPackets];
#pragma unroll
    for (int i = 0; i < busbw::kCopiesPerTurn; ++i)
      buffer[busbw::kHalfPackets + (at + i * threads) % busbw::kHalfPackets] = packets[i];
    at += threads * busbw::kCopiesPerTurn;
  }
}
