// What check data is about: the structs that core.py mirrors, and the element types. Compiled by g++, clang
// and NVRTC.
#pragma once

#if defined(__CUDACC_RTC__)  // NVRTC brings no standard headers
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <string.h>

#include <cstdint>
#endif

#if defined(__CUDACC__)
#define BUSBW_INLINE __device__ __forceinline__
#else
#define BUSBW_INLINE inline __attribute__((always_inline))
#endif

// What all ranks agree on. Made by busbw_pattern_init, which derives everything after `op` once.
struct BusbwPattern {
  uint64_t seed;
  uint32_t ranks;
  int32_t dtype;             // busbw::pattern::DType
  int32_t op;                // busbw::pattern::Op
  uint32_t modulus_log2;     // m = 2^modulus_log2; bits of the ordering key (min, max)
  uint32_t group;            // g: of every g neighbouring ranks one contributes; 1 = dense
  uint32_t ranks_div_group;  // ranks / group
  uint32_t ranks_mod_group;  // ranks % group
  uint32_t type_bytes;
};

// A run of elements in a buffer and what they hold. offset and count are in elements.
struct BusbwRegion {
  uint64_t offset;
  uint64_t count;
  uint64_t first_index;  // index of the first element in the logical message, whoever holds it
  int32_t kind;          // busbw::pattern::Kind, or'ed with its flags or not
  int32_t rank;          // contributor or owner; not read for kReduced
};

struct BusbwCheckResult {
  uint64_t wrong;        // elements whose bits are not the expected ones, nor a neighbour where one may be
  uint64_t first_wrong;  // smallest offset into the buffer, in elements, that is wrong; UINT64_MAX if none
  uint64_t digest;       // sum of a hash of (logical index, bits): equal data, equal digest, in any split
};

static_assert(sizeof(BusbwPattern) == 40, "mirrored in Python");
static_assert(sizeof(BusbwRegion) == 32, "mirrored in Python");
static_assert(sizeof(BusbwCheckResult) == 24, "mirrored in Python");

namespace busbw::pattern {

// ncclDataType_t, then the integers NCCL has no number for.
// clang-format off: a table
enum DType : int32_t {
  kInt8 = 0, kUint8 = 1, kInt32 = 2, kUint32 = 3, kInt64 = 4, kUint64 = 5, kHalf = 6, kFloat = 7, kDouble = 8,
  kBfloat16 = 9, kFloat8E4m3 = 10, kFloat8E5m2 = 11, kInt16 = 12, kUint16 = 13,
};
// clang-format on

// ncclRedOp_t, then the premultiplied sum, for which NCCL makes a number at run time: every rank's
// contribution is first multiplied by that rank's scalar (premul_scalar below).
enum Op : int32_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kMulSum = 5 };

enum Kind : int32_t {
  kContribution = 0,  // what `rank` brings into the reduction
  kReduced = 1,       // the reduction over all ranks
  kMoved = 2,         // arbitrary bits (NaN patterns too) that belong to `rank` and are only copied
  // A flag: every bit of the element inverted, so that an element that the call does not write is found with
  // certainty. Where a neighbour of the expected bits passes too, those are of a normal number, and the
  // complement of x is within one of x only for the bits of a zero or of the NaN without a mantissa bit
  // clear.
  kComplement = 16,
  // A flag of kReduced: a mean before it is divided, that is the sum.
  kUndivided = 32,
};

// Everything about a type that the pattern needs. A float of `mantissa_bits` holds all integers up to
// 2^(mantissa_bits + 1); e4m3 and e5m2 are the OCP 8-bit formats (e4m3 without infinities).
struct TypeTraits {
  uint32_t bytes;  // 0 where the type is unknown
  bool is_float;
  bool is_signed;
  uint32_t mantissa_bits;   // floats
  uint32_t exponent_bias;   // floats
  uint64_t sum_limit;       // all integers up to it are exact; a power of two for floats
  uint32_t exponent_limit;  // 2^exponent_limit is exact, and so are all smaller powers from 2^0 up
};

// clang-format off: a table
BUSBW_INLINE constexpr TypeTraits type_traits(int32_t dtype) {
  constexpr uint64_t one = 1;
  switch (dtype) {  // bytes, float, signed, mantissa, bias, exact integers up to, exact powers up to
    case kInt8:       return {1, false, true, 0, 0, 127, 6};
    case kUint8:      return {1, false, false, 0, 0, 255, 7};
    case kInt16:      return {2, false, true, 0, 0, 32767, 14};
    case kUint16:     return {2, false, false, 0, 0, 65535, 15};
    case kInt32:      return {4, false, true, 0, 0, (one << 31) - 1, 30};
    case kUint32:     return {4, false, false, 0, 0, (one << 32) - 1, 31};
    case kInt64:      return {8, false, true, 0, 0, one << 62, 62};
    case kUint64:     return {8, false, false, 0, 0, one << 62, 63};
    case kHalf:       return {2, true, true, 10, 15, one << 11, 15};
    case kFloat:      return {4, true, true, 23, 127, one << 24, 127};
    case kDouble:     return {8, true, true, 52, 1023, one << 53, 1023};
    case kBfloat16:   return {2, true, true, 7, 127, one << 8, 127};
    case kFloat8E4m3: return {1, true, true, 3, 7, one << 4, 8};
    case kFloat8E5m2: return {1, true, true, 2, 15, one << 3, 15};
    default:          return {0, false, false, 0, 0, 0, 0};
  }
}
// clang-format on

BUSBW_INLINE bool is_power_of_two(uint32_t x) { return x != 0 && (x & (x - 1)) == 0; }

BUSBW_INLINE uint32_t bit_length(uint32_t x) {
  uint32_t bits = 0;
  for (; x != 0; x >>= 1) ++bits;
  return bits;
}

// prod: how many bits its odd number has. The rest of an integer is for the powers of two.
BUSBW_INLINE constexpr uint32_t prod_odd_bits(const TypeTraits& type) {
  return type.is_float ? type.mantissa_bits + 1 : 2 * type.bytes;
}

// The scalar of a premultiplied sum. Exact in every type, and neighbours differ: mixed up, it shows.
BUSBW_INLINE uint32_t premul_scalar(uint32_t rank) { return rank % 2 == 0 ? 2 : 1; }

// avg of floats over a power of two of ranks: the sum's values can be multiplied by up to 2^this.
BUSBW_INLINE uint32_t mean_room_log2(const TypeTraits& type) {
  return type.exponent_limit - type.mantissa_bits - 1;
}

}  // namespace busbw::pattern
