// Kernels that load a GPU beside a collective. Launch with any one-dimensional grid and block: a launch does
// `tiles` tiles of work, each of `turns` turns, so that the host bounds how long it takes, and holds as many
// multiprocessors as it has blocks. Blocks take tiles as they get on: where others hold some of the
// multiprocessors, the blocks that run do all the work, and those that come late find none.
#pragma once

#include "pattern_types.hpp"

namespace busbw {

constexpr int kChains = 8;  // independent, so that the latency of one does not show
constexpr int kStepsPerTurn = 16;
constexpr int kCopiesPerTurn = 4;                     // packets of 16 bytes a thread has under way
constexpr uint64_t kHalfPackets = uint64_t{1} << 23;  // 128 MiB: larger than caches are

// Of a stream's launches: tiles taken and blocks that have ended, which the last block sets to 0, and the
// tiles of all launches before.
struct Tickets {
  unsigned taken;
  unsigned ended;
  uint64_t before;
};

// The number of this block's next tile; all threads of it take part.
__device__ inline unsigned next_tile(Tickets* tickets) {
  __shared__ unsigned tile;
  __syncthreads();  // all have read the one before
  if (threadIdx.x == 0) tile = atomicAdd(&tickets->taken, 1u);
  __syncthreads();
  return tile;
}

__device__ inline void end_block(Tickets* tickets, uint64_t tiles) {
  if (threadIdx.x != 0 || atomicInc(&tickets->ended, gridDim.x - 1) != gridDim.x - 1) return;
  tickets->taken = 0;
  tickets->before += tiles;
}

}  // namespace busbw

// 2 * kChains * kStepsPerTurn floating-point operations a thread and turn. `sink` is written by nobody, but
// the compiler cannot know.
extern "C" __global__ void busbw_compute_kernel(float* sink, busbw::Tickets* tickets, uint64_t turns,
                                                uint64_t tiles) {
  float a[busbw::kChains];
  for (int i = 0; i < busbw::kChains; ++i) a[i] = static_cast<float>(threadIdx.x + i);
  while (busbw::next_tile(tickets) < tiles) {
    for (uint64_t turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int step = 0; step < busbw::kStepsPerTurn; ++step) {
#pragma unroll
        for (int i = 0; i < busbw::kChains; ++i) a[i] = fmaf(a[i], 0.999f, 0.001f);
      }
    }
  }
  float sum = 0;
  for (int i = 0; i < busbw::kChains; ++i) sum += a[i];
  if (sum < 0) *sink = sum;
  busbw::end_block(tickets, tiles);
}

// Copies from the first half of a buffer of 2 * kHalfPackets packets to its second half, round and round: a
// launch begins where the one before it ended.
extern "C" __global__ void busbw_memory_kernel(uint4* buffer, busbw::Tickets* tickets, uint64_t turns,
                                               uint64_t tiles) {
  const uint64_t first = tickets->before;
  for (uint64_t tile = busbw::next_tile(tickets); tile < tiles; tile = busbw::next_tile(tickets)) {
    uint64_t at = (first + tile) * turns * blockDim.x * busbw::kCopiesPerTurn + threadIdx.x;
    for (uint64_t turn = 0; turn < turns; ++turn) {
      uint4 packets[busbw::kCopiesPerTurn];
#pragma unroll
      for (int i = 0; i < busbw::kCopiesPerTurn; ++i)
        packets[i] = buffer[(at + i * blockDim.x) % busbw::kHalfPackets];
#pragma unroll
      for (int i = 0; i < busbw::kCopiesPerTurn; ++i)
        buffer[busbw::kHalfPackets + (at + i * blockDim.x) % busbw::kHalfPackets] = packets[i];
      at += blockDim.x * busbw::kCopiesPerTurn;
    }
  }
  busbw::end_block(tickets, tiles);
}
