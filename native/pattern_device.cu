// GPU kernels: fill and check with the element function of pattern.hpp, and load beside a collective.
// tools/make_ptx.py turns this file into pattern_device.ptx, which the driver compiles at run time.
//
// Launch with any one-dimensional grid; a block is a multiple of 32 threads, at most 1024. Buffers are
// aligned to their element type. Arguments are not validated here: the host derives them from a pattern
// that busbw_pattern_init accepted.
#include "load_device.hpp"
#include "pattern.hpp"

namespace {

using namespace busbw::pattern;

struct Tally {
  uint64_t wrong;
  uint64_t first_wrong;
  uint64_t digest;
};

struct alignas(16) Packet {
  uint64_t low;
  uint64_t high;
};

// A region cut at 16-byte boundaries of the address space. The element width, like the operation, is a
// run-time value: the driver compiles this text at the start of every first run, and one loop for everything
// takes it 0.2 s where loops for each operation took 0.5 s and saved 10 % of the kernel's time (H100).
struct Packets {
  uint64_t start;  // address of packet 0, at or before the region's first element
  uint64_t packets;
  uint64_t count;  // elements of the region
  uint32_t width;  // bytes of an element
  uint32_t words;  // elements of a packet
  uint32_t skip;   // elements of packet 0 before the region

  __device__ Packets(const void* buffer, uint32_t type_bytes, const BusbwRegion& r) {
    const uint64_t address = reinterpret_cast<uint64_t>(buffer) + r.offset * type_bytes;
    start = address & ~uint64_t{15};
    count = r.count;
    width = type_bytes;
    words = 16 / type_bytes;
    skip = static_cast<uint32_t>(address - start) / type_bytes;
    packets = (skip + count + words - 1) / words;
  }
  __device__ Packet* packet(uint64_t number) const { return reinterpret_cast<Packet*>(start) + number; }
  // Index in the region of a packet's first element; huge (negative) where the packet starts before it.
  __device__ uint64_t first(uint64_t number) const { return number * words - skip; }
  __device__ bool is_whole(uint64_t first) const { return first < count && count - first >= words; }
  __device__ uint64_t address_of(uint64_t i) const { return start + (skip + i) * width; }
};

__device__ uint64_t load_word(uint64_t address, uint32_t width) {
  if (width == 1) return *reinterpret_cast<const uint8_t*>(address);
  if (width == 2) return *reinterpret_cast<const uint16_t*>(address);
  if (width == 4) return *reinterpret_cast<const uint32_t*>(address);
  return *reinterpret_cast<const uint64_t*>(address);
}

__device__ void store_word(uint64_t address, uint32_t width, uint64_t bits) {
  if (width == 1) {
    *reinterpret_cast<uint8_t*>(address) = static_cast<uint8_t>(bits);
  } else if (width == 2) {
    *reinterpret_cast<uint16_t*>(address) = static_cast<uint16_t>(bits);
  } else if (width == 4) {
    *reinterpret_cast<uint32_t*>(address) = static_cast<uint32_t>(bits);
  } else {
    *reinterpret_cast<uint64_t*>(address) = bits;
  }
}

__device__ __forceinline__ void fill_region(void* buffer, const BusbwPattern& p, const BusbwRegion& r) {
  const Stream s = make_stream(p, r);
  const Packets region(buffer, p.type_bytes, r);
  const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t n = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < region.packets; n += threads) {
    const uint64_t first = region.first(n);
    const bool is_whole = region.is_whole(first);
    Packet packet{0, 0};
#pragma unroll 1
    for (uint32_t k = 0; k < region.words; ++k) {
      const uint64_t i = first + k;
      if (i >= region.count) continue;
      const uint64_t bits = element_bits(s.source, s.encoding, s, r.first_index + i) & s.type_mask;
      if (!is_whole) {
        store_word(region.address_of(i), region.width, bits);
      } else {
        const uint32_t shift = 8 * region.width * k;
        if (shift < 64) packet.low |= bits << shift;
        if (shift >= 64) packet.high |= bits << (shift - 64);
      }
    }
    if (is_whole) *region.packet(n) = packet;
  }
}

__device__ __forceinline__ Tally check_region(const void* buffer, const BusbwPattern& p,
                                              const BusbwRegion& r) {
  Tally tally{0, ~uint64_t{0}, 0};
  const Stream s = make_stream(p, r);
  const Packets region(buffer, p.type_bytes, r);
  const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t n = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < region.packets; n += threads) {
    const uint64_t first = region.first(n);
    const bool is_whole = region.is_whole(first);
    Packet packet{0, 0};
    if (is_whole) packet = *region.packet(n);
#pragma unroll 1
    for (uint32_t k = 0; k < region.words; ++k) {
      const uint64_t i = first + k;
      if (i >= region.count) continue;
      const uint32_t shift = 8 * region.width * k;
      const uint64_t whole_bits = shift < 64 ? packet.low >> shift : packet.high >> (shift - 64);
      const uint64_t actual =
          is_whole ? whole_bits & s.type_mask : load_word(region.address_of(i), region.width);
      tally.digest += digest_term(r.first_index + i, actual);
      if (!is_wrong(s, actual, element_bits(s.source, s.encoding, s, r.first_index + i))) continue;
      ++tally.wrong;
      if (r.offset + i < tally.first_wrong) tally.first_wrong = r.offset + i;
    }
  }
  return tally;
}

__device__ void add(Tally* to, uint64_t wrong, uint64_t first_wrong, uint64_t digest) {
  to->wrong += wrong;
  if (first_wrong < to->first_wrong) to->first_wrong = first_wrong;
  to->digest += digest;
}

// The sum over a warp's lanes arrives in lane 0.
__device__ void reduce_warp(Tally* tally) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint64_t wrong = __shfl_down_sync(0xffffffffu, tally->wrong, distance);
    const uint64_t first_wrong = __shfl_down_sync(0xffffffffu, tally->first_wrong, distance);
    const uint64_t digest = __shfl_down_sync(0xffffffffu, tally->digest, distance);
    add(tally, wrong, first_wrong, digest);
  }
}

// Adds the block's tallies to *out with three atomics.
__device__ void reduce_block(Tally tally, BusbwCheckResult* out) {
  __shared__ Tally warps[32];
  reduce_warp(&tally);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = tally;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
    add(&tally, warps[warp].wrong, warps[warp].first_wrong, warps[warp].digest);
  }
  atomicAdd(&out->digest, tally.digest);
  if (tally.wrong == 0) return;
  atomicAdd(&out->wrong, tally.wrong);
  atomicMin(&out->first_wrong, tally.first_wrong);
}

}  // namespace

extern "C" __global__ void busbw_fill_kernel(void* buffer, BusbwPattern p, BusbwRegion r) {
  fill_region(buffer, p, r);
}

// Adds to *out, as busbw_check does: the host initialises it to {0, UINT64_MAX, 0}.
extern "C" __global__ void busbw_check_kernel(const void* buffer, BusbwPattern p, BusbwRegion r,
                                              BusbwCheckResult* out) {
  reduce_block(check_region(buffer, p, r), out);
}
