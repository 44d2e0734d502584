// The data that is moved and checked: for every rank, element and seed a value whose reduction over all
// ranks has a closed form and is exact in every type and every order of operations. One source for the
// host (pattern_host.cpp) and the GPU (pattern_device.cu), so both agree by construction.
//
// What is guaranteed for one element of a reduction over n ranks (others: "moved" data, kMoved):
//
//   sum     The ranks r with r mod g == o (o from the element's hash) contribute distinct integers
//           1 + ((r / g + h) & (m - 1)), the others 0. Every partial sum is an integer that the type holds
//           exactly. A dropped or doubled contributor, and a contributor replaced by any other rank, always
//           changes the element; with g = 1 (dense) that is every rank at every element. Fewer than m ranks
//           contribute, so that the sum itself depends on h and differs between elements and seeds.
//   mulsum  Twice the sum's values: a rank whose scalar is 2 stores the value, one whose scalar is 1 stores
//           twice the value.
//   avg     The sum's values, of few bits, times a number C as large as the type has room for: odd in floats,
//           so that every contribution fills the mantissa, as C does. Integers: times n too, so that the
//           quotient has no remainder; where there is room, one rank adds 1 and the next one n - 1, so that
//           a low bit that one of them loses takes 1 from the quotient. Floats, n a power of two: times 2^k,
//           exact whether the ranks are scaled before the sum or the sum after it. Other n: one rank of the
//           n contributes +-n w 2^e to an element, the others 0; w is an odd number of all bits that
//           n w < 2^p leaves (p: the mantissa's, with the hidden one). The mean is +-w 2^e, and when 1/n is
//           rounded first, that or a neighbour, as n w (1/n)(1 + d) is less than one place off: the two
//           neighbours are accepted too. Where n has more than p bits, n w is replaced by 1, and the mean is
//           1/n as the type rounds it.
//   prod    The sum's pattern in the exponent of two, times -1 for about half of the ranks (signed types),
//           and for one rank of the n times an odd number M of all bits of the mantissa (integers: that rank
//           brings an odd number of a quarter of the type's bits and no power of two). A partial product is
//           a power of two or one times M: exact in any order. A dropped contributor always changes the
//           element, and so does the rank with M; any dropped rank changes it where its sign is -1 (half of
//           the elements).
//   max     One rank of the n holds the largest value; dropping it changes the element. Every rank wins 1/n
//   min     of the elements. Values span the type's range: both signs, exponents from 0 up, no zero,
//           subnormal, infinity or NaN.
//
// Sparse data (g > 1; g = n for avg with one rank) test each rank at 1/g of the elements. Well-formed but
// wrong data (another seed, a block shifted) agree with the expected element by chance: with probability
// about 2/m (sum, mulsum, avg, prod), 1/(2m) (avg with one rank), 2^-(bits - 2) (min, max) or 2^-bits (moved
// data). Small m, as for fp8, needs dozens of elements.
#pragma once

#include "pattern_types.hpp"

namespace busbw::pattern {

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
  kScaledContribution = 7,  // mulsum; avg of integers, and of floats where n is a power of two
  kScaledReduced = 8,
  kSingleContribution = 9,  // avg of floats, other n
  kSingleReduced = 10,      // the one source that is compared with a tolerance
};

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
  uint64_t type_mask;   // the bits that an element has
  uint64_t complement;  // all ones where every bit is to be inverted
  uint64_t tolerance;   // how many bit patterns next to the expected one pass, on either side
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
  uint32_t sign_choices;     // prod: how many bits of the rank can decide its sign; 0 = unsigned
  uint64_t factor;           // mulsum, avg: the sum's values times this
  uint64_t remainder;        // avg of integers: what two ranks add together, 0 or the ranks' number
  uint32_t exponent;         // floats: times 2^exponent (negative ones modulo 2^32)
  uint32_t odd_bits;         // prod, avg with one rank: how many bits the odd number has
  uint32_t odd_exponent;     // and the power of two by which it is divided
  uint64_t single_factor;    // avg with one rank: the odd number times this; 0 where there is none
  uint64_t reciprocal_bits;  // avg with one rank and no odd number: 1 / ranks
  // encoding
  uint64_t sign_bit;  // 0 where the type is unsigned
  uint64_t one_bits;  // floats: the bits of 1.0
  uint32_t mantissa_bits;
  uint32_t small_shift;   // small floats: from binary32's mantissa to this one
  uint32_t small_rebias;  // small floats: from binary32's exponent to this one, already shifted
  // min, max
  uint32_t key_bits;
  bool is_float;
  bool is_min;
  uint64_t rank_key;
};

BUSBW_INLINE bool is_single(const TypeTraits& type, int32_t op, uint32_t ranks) {
  return op == kAvg && type.is_float && !is_power_of_two(ranks);
}

BUSBW_INLINE Source source_of(const TypeTraits& type, const BusbwPattern& p, int32_t kind) {
  if (kind == kMoved) return kMovedBits;
  const bool reduced = kind == kReduced;
  if (p.op == kSum) return reduced ? kSumReduced : kSumContribution;
  if (p.op == kProd) return reduced ? kProdReduced : kProdContribution;
  if (p.op == kMax || p.op == kMin) return reduced ? kOrderReduced : kOrderContribution;
  if (is_single(type, p.op, p.ranks)) return reduced ? kSingleReduced : kSingleContribution;
  return reduced ? kScaledReduced : kScaledContribution;
}

BUSBW_INLINE Encoding encoding_of(const TypeTraits& type, Source source) {
  if (source == kMovedBits || source == kOrderContribution || source == kOrderReduced) return kRaw;
  if (!type.is_float) return kInteger;
  return type.bytes == 8 ? kFloat64 : type.bytes == 4 ? kFloat32 : kSmallFloat;
}

// 1 / n as the type rounds it, for an n that is no power of two: 2^bit_length(n) / n lies between 1 and 2,
// and long division gives its mantissa. Rounding meets no tie, as the quotient does not end; it may carry
// into the exponent. Integers only, so that host and GPU agree.
BUSBW_INLINE uint64_t reciprocal_bits(const TypeTraits& type, uint32_t n) {
  const uint32_t length = bit_length(n);
  uint64_t rest = (uint64_t{1} << length) - n;
  uint64_t mantissa = 0;
  for (uint32_t i = 0; i < type.mantissa_bits; ++i) {
    rest *= 2;
    const bool digit = rest >= n;
    if (digit) rest -= n;
    mantissa = 2 * mantissa + (digit ? 1 : 0);
  }
  if (2 * rest > n) ++mantissa;
  return (uint64_t{type.exponent_bias - length} << type.mantissa_bits) + mantissa;
}

// Largest sum of n of the m distinct values 1 .. m. Callers keep n * m below 2^64.
BUSBW_INLINE uint64_t largest_sum(uint64_t n, uint64_t m) { return n * m - n * (n - 1) / 2; }

// avg of integers: the factor C, and what two ranks add. C of 2 or more keeps any two ranks' values more than
// that apart; sparse data have ranks that bring nothing, and would bring a remainder alone.
BUSBW_INLINE void set_integer_mean(Stream* s, const TypeTraits& type, const BusbwPattern& p, uint64_t largest,
                                   bool divided) {
  const uint64_t most = type.sum_limit / p.ranks;
  const uint64_t beside_remainder = (most - 1) / largest;
  const bool has_remainder = p.ranks > 1 && p.group == 1 && beside_remainder > 1;
  s->factor = (has_remainder ? beside_remainder : (most / largest - 1) | 1) * (divided ? 1 : p.ranks);
  s->remainder = has_remainder ? (divided ? 1 : p.ranks) : 0;
}

// What mulsum and avg do with the sum's values; `divided` is of a mean.
BUSBW_INLINE void set_scale(Stream* s, const TypeTraits& type, const BusbwPattern& p, bool reduced,
                            bool divided) {
  s->factor = 1;
  if (p.op == kMulSum) {
    s->factor = reduced ? 2 : 2 / premul_scalar(s->rank);
    s->exponent = type.is_float && s->factor == 2 ? 1 : 0;
    if (type.is_float) s->factor = 1;
  } else if (s->source == kScaledContribution || s->source == kScaledReduced) {
    const uint64_t contributors = (p.ranks + uint64_t{p.group} - 1) / p.group;
    const uint64_t largest = largest_sum(contributors, uint64_t{1} << p.modulus_log2);
    if (!type.is_float) return set_integer_mean(s, type, p, largest, divided);
    s->factor = (type.sum_limit / largest - 1) | 1;
    const uint32_t ranks_log2 = bit_length(p.ranks) - 1;
    const uint32_t room = mean_room_log2(type);
    s->exponent = (ranks_log2 < room ? ranks_log2 : room) - (divided ? ranks_log2 : 0);
  }
}

// The odd number of prod and of avg with one rank. Of floats it is divided by the power of two that makes
// the largest ones lie between 1 and 2, so that the exponents are those of powers of two.
BUSBW_INLINE void set_odd(Stream* s, const TypeTraits& type, const BusbwPattern& p, bool divided) {
  const uint32_t bits = type.mantissa_bits + 1;
  if (p.op == kProd) {
    s->odd_bits = prod_odd_bits(type);
    s->odd_exponent = type.is_float ? bits - 1 : 0;
  } else if (bit_length(p.ranks) <= bits) {
    s->odd_bits = bits - bit_length(p.ranks);
    s->odd_exponent = bits - 1;
    s->single_factor = divided ? 1 : p.ranks;
  } else {
    s->reciprocal_bits = reciprocal_bits(type, p.ranks);
  }
}

BUSBW_INLINE Stream make_stream(const BusbwPattern& p, const BusbwRegion& r) {
  const TypeTraits type = type_traits(p.dtype);
  const int32_t kind = r.kind & ~(kComplement | kUndivided);
  const bool is_divided = kind == kReduced && (r.kind & kUndivided) == 0;
  const uint32_t rank = kind == kReduced ? 0 : static_cast<uint32_t>(r.rank);
  Stream s{};
  s.source = source_of(type, p, kind);
  s.encoding = encoding_of(type, s.source);
  s.type_mask = ~uint64_t{0} >> (64 - 8 * type.bytes);
  s.complement = mask_of((r.kind & kComplement) != 0);
  s.tolerance = s.source == kSingleReduced && is_divided ? 1 : 0;
  s.key = mix(p.seed + kGolden);
  if (kind == kMoved) s.key = mix(s.key + (uint64_t{rank} + 1) * 0xd1342543de82ef95u);
  s.modulus_log2 = p.modulus_log2 & 63;
  s.modulus_mask = (uint64_t{1} << s.modulus_log2) - 1;
  s.group = p.group;
  s.ranks_div_group = p.ranks_div_group;
  s.ranks_div_group_sum = s.ranks_div_group * (s.ranks_div_group + 1) / 2;
  s.ranks_mod_group = p.ranks_mod_group;
  s.rank = rank;
  set_scale(&s, type, p, kind == kReduced, is_divided);
  if (p.op == kProd || is_single(type, p.op, p.ranks)) set_odd(&s, type, p, is_divided);
  s.rank_div_group = rank / p.group;
  s.rank_mod_group = rank % p.group;
  s.ranks = p.ranks;
  s.sign_choices = type.is_signed ? bit_length(p.ranks) : 0;
  s.sign_bit = type.is_signed ? uint64_t{1} << (8 * type.bytes - 1) : 0;
  s.mantissa_bits = type.mantissa_bits;
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

// The bits of value * 2^exponent, negated if `negative`; exact by the pattern's limits. Every value but
// zero is a normal number of every type. Zero comes without exponent and sign, and only small floats need a
// case for it.
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

// What a rank adds: see the top of this file.
BUSBW_INLINE uint64_t contribution_of(const Stream& s, uint64_t hash, uint64_t rank_div_group,
                                      uint32_t rank_mod_group) {
  const uint32_t contributing = scaled(static_cast<uint32_t>(hash >> 32), s.group);
  const uint64_t value = 1 + ((rank_div_group + hash) & s.modulus_mask);
  return value & mask_of(rank_mod_group == contributing);
}

BUSBW_INLINE uint64_t contribution(const Stream& s, uint64_t hash) {
  return contribution_of(s, hash, s.rank_div_group, s.rank_mod_group);
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

// avg with one contributor: its sign, which is the mean's.
BUSBW_INLINE bool is_single_negative(uint64_t hash) { return ((hash >> 31) & 1) != 0; }

// The mean of 2^e, of so many ranks that no multiple of their number fits into the mantissa.
BUSBW_INLINE uint64_t rounded_mean(const Stream& s, uint64_t hash) {
  const uint64_t magnitude = s.reciprocal_bits + ((hash & s.modulus_mask) << s.mantissa_bits);
  return magnitude | (s.sign_bit & mask_of(is_single_negative(hash)));
}

// More random bits of an element, for what is beside the sum's pattern.
BUSBW_INLINE uint64_t more_bits(uint64_t hash) { return hash * 0xd1342543de82ef95u; }

// The rank that brings more than the sum's pattern: prod's odd number, avg's remainder.
BUSBW_INLINE uint32_t chosen_rank(const Stream& s, uint64_t hash) {
  return scaled(static_cast<uint32_t>(more_bits(hash) >> 32), s.ranks);
}

// An odd number of odd_bits bits; 1 for none.
BUSBW_INLINE uint64_t odd_number(const Stream& s, uint64_t hash) {
  const uint64_t top = (uint64_t{1} << s.odd_bits) >> 1;
  return ((more_bits(hash) >> 11) & (top - (top != 0 ? 1 : 0))) | top | 1;
}

// prod of integers: the exponent that the chosen rank leaves out, as its odd number stands alone.
BUSBW_INLINE uint64_t left_out(const Stream& s, uint64_t hash) {
  const uint32_t chosen = chosen_rank(s, hash);
  return contribution_of(s, hash, chosen / s.group, chosen % s.group);
}

// avg of integers: 1 from the chosen rank and n - 1 from the next one.
BUSBW_INLINE uint64_t remainder_part(const Stream& s, uint64_t hash) {
  const uint32_t chosen = chosen_rank(s, hash);
  const uint32_t next = chosen + 1 == s.ranks ? 0 : chosen + 1;
  return (mask_of(s.rank == chosen) & 1) + (mask_of(s.rank == next) & (s.remainder - 1));
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

BUSBW_INLINE bool is_sum_of_contributions(Source source) {
  return source == kSumReduced || source == kProdReduced || source == kScaledReduced;
}

// The element with this logical index, in the low type_bytes of the result; the rest is arbitrary. One call
// of encode for all sources keeps the GPU's code short.
BUSBW_INLINE uint64_t value_bits(Source source, Encoding encoding, const Stream& s, uint64_t index) {
  const uint64_t hash = mix(s.key + index * kGolden);
  if (source == kMovedBits) return hash;
  if (source == kOrderContribution) return order_value(s, hash, false);
  if (source == kOrderReduced) return order_value(s, hash, true);
  if (source == kSingleReduced && s.tolerance != 0 && s.single_factor == 0) return rounded_mean(s, hash);
  const bool is_sum = is_sum_of_contributions(source);
  uint64_t value = is_sum ? contributions_sum(s, hash) : contribution(s, hash);
  uint32_t exponent = 0;
  bool negative = false;
  if (source == kProdContribution || source == kProdReduced) {
    const uint64_t has_odd = mask_of(is_sum || chosen_rank(s, hash) == s.rank);
    if (encoding == kInteger) value -= is_sum ? left_out(s, hash) : value & has_odd;
    exponent = static_cast<uint32_t>(value) - (s.odd_exponent & static_cast<uint32_t>(has_odd));
    value = 1 + ((odd_number(s, hash) - 1) & has_odd);
    negative = is_sum ? is_product_negative(s, hash) : is_negative(s, hash);
  } else if (source == kScaledContribution || source == kScaledReduced) {
    exponent = s.exponent & static_cast<uint32_t>(mask_of(value != 0));
    value *= s.factor;
    if (s.remainder != 0) value += is_sum ? s.remainder : remainder_part(s, hash);
  } else if (source == kSingleReduced || (source == kSingleContribution && value != 0)) {
    exponent = static_cast<uint32_t>(hash & s.modulus_mask) - s.odd_exponent;
    value = s.single_factor != 0 ? odd_number(s, hash) * s.single_factor : 1;
    negative = is_single_negative(hash);
  }
  return encode(encoding, s, value, exponent, negative);
}

// source and encoding are the stream's own: the host passes constants, which removes the conditions from its
// inner loop.
BUSBW_INLINE uint64_t element_bits(Source source, Encoding encoding, const Stream& s, uint64_t index) {
  return value_bits(source, encoding, s, index) ^ s.complement;
}

// Whether an element's bits are neither the expected ones nor, where that may be, their neighbours.
BUSBW_INLINE bool is_wrong(const Stream& s, uint64_t actual, uint64_t expected) {
  return ((actual - expected + s.tolerance) & s.type_mask) > 2 * s.tolerance;
}

}  // namespace busbw::pattern
