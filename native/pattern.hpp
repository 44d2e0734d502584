// The data that is moved and checked: for every rank, element and seed a value whose reduction over all
// ranks has a closed form and is exact in every type and every order of operations. One source for the
// host (pattern_host.cpp) and the GPU (pattern_device.cu), so both agree by construction.
//
// What is guaranteed for one element of a reduction over n ranks (others: "moved" data, kMoved below):
//
//   sum   The ranks r with r mod g == o (o from the element's hash) contribute distinct integers
//         1 + ((r / g + h) & (m - 1)), the others 0. Every partial sum is an integer that the type holds
//         exactly. A dropped or doubled contributor, and a contributor replaced by any other rank, always
//         changes the element; with g = 1 (dense) that is every rank at every element. Fewer than m ranks
//         contribute, so that the sum itself depends on h and differs between elements and seeds.
//   prod  The same pattern in the exponent of two, times -1 for about half of the ranks (signed types): all
//         partial products are exact. A dropped contributor always changes the element; any dropped rank
//         changes it where its sign is -1 (half of the elements).
//   max   One rank of the n holds the largest value; dropping it changes the element. Every rank wins 1/n of
//   min   the elements. Values span the type's range: both signs, exponents from 0 up, no zero, subnormal,
//         infinity or NaN.
//
// Sparse sums and products (g > 1) test each rank at 1/g of the elements. Well-formed but wrong data (another
// seed, a block shifted) agrees with the expected element by chance: with probability about 2/m (sum, prod)
// or 2^-(bits - 2) (min, max), 2^-bits for moved data. Small m, as for fp8, needs dozens of elements.
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
  uint32_t modulus_log2;     // m = 2^modulus_log2 (sum, prod); bits of the ordering key (min, max)
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
  int32_t kind;          // busbw::pattern::Kind
  int32_t rank;          // contributor or owner; not read for kReduced
};

struct BusbwCheckResult {
  uint64_t wrong;        // elements whose bits are not the expected ones
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

enum Op : int32_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };  // ncclRedOp_t

enum Kind : int32_t {
  kContribution = 0,  // what `rank` brings into the reduction
  kReduced = 1,       // the reduction over all ranks
  kMoved = 2,         // arbitrary bits (NaN patterns too) that belong to `rank` and are only copied
};

// How a value becomes bits. kSmallFloat is every float narrower than 32 bits.
enum Encoding : int32_t { kInteger = 0, kSmallFloat = 1, kFloat32 = 2, kFloat64 = 3, kRaw = 4 };

// Where an element's value comes from: operation and kind in one number, for one switch.
enum Source : int32_t {
  kMovedBits = 0,
  kSumContribution = 1,
  kSumReduced = 2,
  kProdContribution = 3,
  kProdReduced = 4,
  kOrderContribution = 5,  // min and max
  kOrderReduced = 6,
};

// Everything about a type that the pattern needs. A float of `mantissa_bits` holds all integers up to
// 2^(mantissa_bits + 1); e4m3 and e5m2 are the OCP 8-bit formats (e4m3 without infinities).
struct TypeTraits {
  uint32_t bytes;  // 0 where the type is unknown
  bool is_float;
  bool is_signed;
  uint32_t mantissa_bits;   // floats
  uint32_t exponent_bias;   // floats
  uint64_t sum_limit;       // all integers up to it are exact
  uint32_t exponent_limit;  // 2^exponent_limit is exact, and so are all smaller powers from 2^0 up
};

// clang-format off: a table
BUSBW_INLINE TypeTraits type_traits(int32_t dtype) {
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

// ---- hashing ----------------------------------------------------------------------------------------

// The finaliser of splitmix64 (Stafford's "Mix13"), a bijection that passes the usual avalanche tests:
// https://zimbry.blogspot.com/2011/09/better-bit-mixing-improving-on.html
BUSBW_INLINE uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio: splitmix64's step

// One round only: the digest tells outputs apart, it does not protect against an adversary.
BUSBW_INLINE uint64_t digest_term(uint64_t index, uint64_t bits) {
  uint64_t x = bits + index * kGolden;
  x = (x ^ (x >> 32)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

// All ones or zero: conditions on hashed data are coin tosses, which a branch predictor cannot learn.
BUSBW_INLINE uint64_t mask_of(bool condition) { return 0 - static_cast<uint64_t>(condition); }

// A number below `bound` from 32 random bits, without a division.
BUSBW_INLINE uint32_t scaled(uint32_t random, uint32_t bound) {
  return static_cast<uint32_t>((static_cast<uint64_t>(random) * bound) >> 32);
}

// ---- one region's constants ---------------------------------------------------------------------------

struct Stream {
  uint64_t key;
  Source source;
  Encoding encoding;
  // sum, prod
  uint64_t modulus_mask;
  uint32_t modulus_log2;
  uint32_t group;
  uint64_t ranks_div_group;
  uint64_t ranks_div_group_sum;  // 1 + 2 + .. + ranks_div_group
  uint32_t ranks_mod_group;
  uint32_t rank_mod_group;
  uint64_t rank_div_group;
  uint32_t rank;
  uint32_t ranks;
  uint32_t sign_choices;  // prod: how many bits of the rank can decide its sign; 0 = unsigned
  // encoding
  uint64_t sign_bit;      // 0 where the type is unsigned
  uint64_t one_bits;      // floats: the bits of 1.0
  uint32_t small_shift;   // small floats: from binary32's mantissa to this one
  uint32_t small_rebias;  // small floats: from binary32's exponent to this one, already shifted
  // min, max
  uint32_t key_bits;
  bool is_float;
  bool is_min;
  uint64_t rank_key;
};

BUSBW_INLINE Source source_of(int32_t op, int32_t kind) {
  if (kind == kMoved) return kMovedBits;
  const bool reduced = kind == kReduced;
  if (op == kSum) return reduced ? kSumReduced : kSumContribution;
  if (op == kProd) return reduced ? kProdReduced : kProdContribution;
  return reduced ? kOrderReduced : kOrderContribution;
}

BUSBW_INLINE Encoding encoding_of(const TypeTraits& type, Source source) {
  if (source == kMovedBits || source == kOrderContribution || source == kOrderReduced) return kRaw;
  if (!type.is_float) return kInteger;
  return type.bytes == 8 ? kFloat64 : type.bytes == 4 ? kFloat32 : kSmallFloat;
}

BUSBW_INLINE uint32_t bit_length(uint32_t x) {
  uint32_t bits = 0;
  for (; x != 0; x >>= 1) ++bits;
  return bits;
}

BUSBW_INLINE Stream make_stream(const BusbwPattern& p, const BusbwRegion& r) {
  const TypeTraits type = type_traits(p.dtype);
  const uint32_t rank = r.kind == kReduced ? 0 : static_cast<uint32_t>(r.rank);
  Stream s{};
  s.source = source_of(p.op, r.kind);
  s.encoding = encoding_of(type, s.source);
  s.key = mix(p.seed + kGolden);
  if (r.kind == kMoved) s.key = mix(s.key + (uint64_t{rank} + 1) * 0xd1342543de82ef95u);
  s.modulus_log2 = p.modulus_log2 & 63;
  s.modulus_mask = (uint64_t{1} << s.modulus_log2) - 1;
  s.group = p.group;
  s.ranks_div_group = p.ranks_div_group;
  s.ranks_div_group_sum = s.ranks_div_group * (s.ranks_div_group + 1) / 2;
  s.ranks_mod_group = p.ranks_mod_group;
  s.rank = rank;
  s.rank_div_group = rank / p.group;
  s.rank_mod_group = rank % p.group;
  s.ranks = p.ranks;
  s.sign_choices = type.is_signed ? bit_length(p.ranks) : 0;
  s.sign_bit = type.is_signed ? uint64_t{1} << (8 * type.bytes - 1) : 0;
  s.one_bits = uint64_t{type.exponent_bias} << type.mantissa_bits;
  s.small_shift = 23 - (type.mantissa_bits < 23 ? type.mantissa_bits : 23);
  s.small_rebias = (127 - type.exponent_bias) << (type.mantissa_bits & 31);
  s.key_bits = p.modulus_log2;
  s.is_float = type.is_float;
  s.is_min = p.op == kMin;
  s.rank_key = mix(kGolden * (uint64_t{rank} + 1));
  return s;
}

// ---- values -> bits -----------------------------------------------------------------------------------

template <typename Bits, typename Float>
BUSBW_INLINE Bits bits_of(Float value) {
  static_assert(sizeof(Bits) == sizeof(Float), "a copy of the representation");
  Bits bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The bits of value * 2^exponent, negated if `negative`; exact by the pattern's limits. Only zero needs a
// special case: every other value is a normal number of every type.
BUSBW_INLINE uint64_t encode(Encoding encoding, const Stream& s, uint64_t value, uint32_t exponent,
                             bool negative) {
  uint64_t bits = 0;
  switch (encoding) {
    case kInteger:
      return ((value << exponent) ^ mask_of(negative)) + (negative ? 1 : 0);
    case kSmallFloat: {
      const uint32_t wide =
          bits_of<uint32_t>(static_cast<float>(static_cast<int32_t>(value))) + (exponent << 23);
      bits = ((wide >> s.small_shift) - s.small_rebias) & mask_of(value != 0);
      break;
    }
    case kFloat32:
      bits = bits_of<uint32_t>(static_cast<float>(static_cast<int32_t>(value))) + (exponent << 23);
      break;
    case kFloat64:
      bits = bits_of<uint64_t>(static_cast<double>(static_cast<int64_t>(value))) + (uint64_t{exponent} << 52);
      break;
    case kRaw:
      return value;
  }
  return bits | (s.sign_bit & mask_of(negative));
}

// Maps a key of key_bits bits to a value of the type, keeping the order; so min and max need no exact
// integers and can use the whole range. Floats: sign and every magnitude from 1.0 up to the largest
// 2^(bits - 2) codes, all of them finite.
BUSBW_INLINE uint64_t ordered_bits(const Stream& s, uint64_t key) {
  if (!s.is_float) return key ^ s.sign_bit;
  const uint64_t code_mask = (uint64_t{1} << (s.key_bits - 1)) - 1;
  const uint64_t negative = mask_of(key <= code_mask);
  return (s.one_bits + ((key ^ negative) & code_mask)) | (negative & s.sign_bit);
}

// ---- sum and prod ---------------------------------------------------------------------------------------

// What `rank` adds: see the top of this file.
BUSBW_INLINE uint64_t contribution(const Stream& s, uint64_t hash) {
  const uint32_t contributing = scaled(static_cast<uint32_t>(hash >> 32), s.group);
  const uint64_t value = 1 + ((s.rank_div_group + hash) & s.modulus_mask);
  return value & mask_of(s.rank_mod_group == contributing);
}

// Sum of 1 + ((j + hash) & (m - 1)) over the contributors j = 0 .. n - 1. As n < m the run wraps at most
// once, and each of the `wrapped` last values is m less than without the wrap.
BUSBW_INLINE uint64_t contributions_sum(const Stream& s, uint64_t hash) {
  const uint32_t contributing = scaled(static_cast<uint32_t>(hash >> 32), s.group);
  const uint64_t one_more = mask_of(contributing < s.ranks_mod_group);  // n = ranks / g or one more
  const uint64_t start = hash & s.modulus_mask;
  const uint64_t end = start + s.ranks_div_group - one_more;
  const uint64_t wrapped = end & s.modulus_mask & (0 - (end >> s.modulus_log2));
  return s.ranks_div_group * start + s.ranks_div_group_sum + (one_more & (start + s.ranks_div_group + 1)) -
         (wrapped << s.modulus_log2);
}

// The sign of `rank` is bit `bit` (1 .. sign_choices) of rank + start. Both come from bits of the hash that
// the exponent pattern (the lowest 9 and the highest) leaves alone. The signs of any two ranks differ at
// about 1 / sign_choices of the elements or more.
struct SignPattern {
  uint32_t bit;
  uint64_t start;
};
BUSBW_INLINE SignPattern sign_pattern(const Stream& s, uint64_t hash) {
  const uint32_t bit = 1 + (((static_cast<uint32_t>(hash >> 9) & 0xff) * s.sign_choices) >> 8);
  return {bit, (hash >> 17) & 0xfffff};
}

BUSBW_INLINE bool is_negative(const Stream& s, uint64_t hash) {
  const SignPattern sign = sign_pattern(s, hash);
  return s.sign_choices != 0 && (((s.rank + sign.start) >> sign.bit) & 1) != 0;
}

// The numbers below x with bit k >= 1 set come in runs of 2^k, an even number, but for the last run, which is
// cut where x has the bit: their count is odd exactly if bits k and 0 of x are set.
BUSBW_INLINE bool is_product_negative(const Stream& s, uint64_t hash) {
  const SignPattern sign = sign_pattern(s, hash);
  const uint64_t end = sign.start + s.ranks;
  const uint64_t negatives = ((end >> sign.bit) & end) ^ ((sign.start >> sign.bit) & sign.start);
  return s.sign_choices != 0 && (negatives & 1) != 0;
}

// ---- min and max ------------------------------------------------------------------------------------------

// The winner's key is [a][1][random], a loser's [random & a][0][random]: smaller, whatever the random bits.
BUSBW_INLINE uint64_t winner_key(const Stream& s, uint64_t hash) {
  const uint64_t rotated = (hash << 32) | (hash >> 32);  // the winner's rank comes from the upper half
  return (rotated >> (64 - s.key_bits)) | uint64_t{1} << (s.key_bits - 2);
}

BUSBW_INLINE uint64_t loser_key(const Stream& s, uint64_t hash, uint64_t winner) {
  const uint64_t top = uint64_t{1} << (s.key_bits - 1);
  const uint64_t random = ((hash ^ s.rank_key) * 0x94d049bb133111ebu) >> (64 - s.key_bits);
  return random & ~(top >> 1) & (winner | (top - 1));
}

BUSBW_INLINE uint64_t order_value(const Stream& s, uint64_t hash, bool reduced) {
  uint64_t key = winner_key(s, hash);
  if (!reduced) {
    const uint64_t loses = mask_of(scaled(static_cast<uint32_t>(hash >> 32), s.ranks) != s.rank);
    key ^= (key ^ loser_key(s, hash, key)) & loses;
  }
  if (s.is_min) key ^= ~uint64_t{0} >> (64 - s.key_bits);
  return ordered_bits(s, key);
}

// ---- the element -----------------------------------------------------------------------------------------

// The bits of the element with this logical index, in the low type_bytes of the result; the rest is
// arbitrary. source and encoding are the stream's own: the host passes constants, which removes the switches
// from its inner loop.
BUSBW_INLINE uint64_t element_bits(Source source, Encoding encoding, const Stream& s, uint64_t index) {
  const uint64_t hash = mix(s.key + index * kGolden);
  switch (source) {
    case kMovedBits:
      return hash;
    case kSumContribution:
      return encode(encoding, s, contribution(s, hash), 0, false);
    case kSumReduced:
      return encode(encoding, s, contributions_sum(s, hash), 0, false);
    case kProdContribution:
      return encode(encoding, s, 1, static_cast<uint32_t>(contribution(s, hash)), is_negative(s, hash));
    case kProdReduced:
      return encode(encoding, s, 1, static_cast<uint32_t>(contributions_sum(s, hash)),
                    is_product_negative(s, hash));
    case kOrderContribution:
      return order_value(s, hash, false);
    case kOrderReduced:
      return order_value(s, hash, true);
  }
  return 0;
}

}  // namespace busbw::pattern
