// Fill and check in host memory, and the choice of the pattern's constants.
#include <cstdint>
#include <type_traits>

#include "core_api.h"
#include "pattern.hpp"

namespace {

using namespace busbw::pattern;

// Most contributors n < m, at most `ranks`, whose sum never exceeds `limit`; 0 if not even one fits.
uint64_t most_contributors(uint64_t ranks, uint64_t m, uint64_t limit) {
  if (m > limit) return 0;
  uint64_t low = 1;
  uint64_t high = m - 1;
  if (high > ranks) high = ranks;
  if (high > 2 * limit / m) high = 2 * limit / m;  // n * m / 2 < largest_sum(n, m); also bounds n * m
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (largest_sum(middle, m) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Group and modulus so that as many ranks as possible contribute to an element, and then with as many
// different values as possible, while every partial sum stays within `limit`.
void choose_sum_pattern(BusbwPattern* p, uint64_t limit) {
  uint64_t contributors = 1;
  for (uint32_t bits = 1; bits < 63; ++bits) {
    const uint64_t n = most_contributors(p->ranks, uint64_t{1} << bits, limit);
    if (n > contributors) contributors = n;
  }
  p->group = static_cast<uint32_t>((p->ranks + contributors - 1) / contributors);
  contributors = (p->ranks + uint64_t{p->group} - 1) / p->group;
  for (uint32_t bits = 1; bits < 63; ++bits) {
    if (most_contributors(contributors, uint64_t{1} << bits, limit) == contributors) p->modulus_log2 = bits;
  }
}

// Neighbouring contributors hold neighbouring integers, and the mean of a run of them is the one in its
// middle: a rank whose value is the mean could be left out, and the others averaged, without a trace. A
// modulus of 2 to 4 times the contributors lets the run wrap round at about every third element, where the
// mean is nobody's value.
void choose_mean_sum_pattern(BusbwPattern* p, uint64_t limit) {
  choose_sum_pattern(p, limit);
  const uint32_t contributors = (p->ranks + p->group - 1) / p->group;
  const uint32_t largest_log2 = bit_length(contributors) + 1;
  if (p->modulus_log2 > largest_log2) p->modulus_log2 = largest_log2;
}

// avg: false where the type has no data that tells right from wrong.
bool choose_mean_pattern(BusbwPattern* p, const TypeTraits& type) {
  if (!type.is_float) {  // with a modulus of 1 every mean would be 1
    choose_mean_sum_pattern(p, type.sum_limit / p->ranks);
    return p->modulus_log2 > 0;
  }
  const uint32_t smallest_log2 = type.exponent_bias - 1;  // of normal numbers, negated
  if (is_power_of_two(p->ranks)) {
    const uint32_t ranks_log2 = bit_length(p->ranks) - 1;
    choose_mean_sum_pattern(p, type.sum_limit);
    // NCCL multiplies with 1 / n in the element type, where that may be a subnormal but not 0.
    return ranks_log2 <= smallest_log2 + type.mantissa_bits &&
           ranks_log2 <= smallest_log2 + mean_room_log2(type);
  }
  p->group = p->ranks;
  p->modulus_log2 = bit_length(type.exponent_limit + 1) - 1;
  return bit_length(p->ranks) <= smallest_log2;  // else 1 / n is a subnormal and has lost digits
}

// False where there is no data for this operation.
bool choose_pattern(BusbwPattern* p, const TypeTraits& type) {
  switch (p->op) {
    case kSum:
      choose_sum_pattern(p, type.sum_limit);
      return true;
    case kProd:
      // With the odd number a float is less than twice its power of two: e4m3's largest ones are no numbers.
      choose_sum_pattern(p, type.exponent_limit - (type.is_float ? 1 : prod_odd_bits(type)));
      return true;
    case kMax:
    case kMin:
      p->modulus_log2 = 8 * type.bytes - (type.is_float ? 1 : 0);
      return true;
    case kAvg:
      return choose_mean_pattern(p, type);
    case kMulSum:  // floats double without loss
      choose_sum_pattern(p, type.is_float ? type.sum_limit : type.sum_limit / 2);
      return true;
    default:
      return false;
  }
}

// clang vectorises the 64-bit products of the hash, which SSE2 and NEON lack: half as fast as scalar code.
#if defined(__clang__)
#define BUSBW_SCALAR_LOOP _Pragma("clang loop vectorize(disable)")
#else
#define BUSBW_SCALAR_LOOP
#endif

using FillRun = void (*)(void* out, const Stream& stream, uint64_t first_index, uint64_t count);

template <Source source, Encoding encoding, typename Word, bool is_dense>
void fill_run(void* out, const Stream& stream, uint64_t first_index, uint64_t count) {
  Stream s = stream;  // a local copy: stores to `out` cannot change it
  if (is_dense) {     // constants here: the compiler drops what decides who contributes, a third of the loop
    s.group = 1;
    s.ranks_mod_group = 0;
    s.rank_mod_group = 0;
  }
  auto* words = static_cast<Word*>(out);
  BUSBW_SCALAR_LOOP
  for (uint64_t i = 0; i < count; ++i) {
    words[i] = static_cast<Word>(element_bits(source, encoding, s, first_index + i));
  }
}

template <Encoding encoding, typename Word, bool is_dense>
FillRun arithmetic_run_of(Source source) {
  if (source == kScaledContribution) return fill_run<kScaledContribution, encoding, Word, is_dense>;
  if (source == kScaledReduced) return fill_run<kScaledReduced, encoding, Word, is_dense>;
  if (source == kSumContribution) return fill_run<kSumContribution, encoding, Word, is_dense>;
  if (source == kSumReduced) return fill_run<kSumReduced, encoding, Word, is_dense>;
  if (source == kProdContribution) return fill_run<kProdContribution, encoding, Word, is_dense>;
  return fill_run<kProdReduced, encoding, Word, is_dense>;
}

template <Encoding encoding, typename Word>
FillRun arithmetic_run_of(const Stream& s) {
  if (s.source == kSingleContribution) return fill_run<kSingleContribution, encoding, Word, false>;
  if (s.source == kSingleReduced) return fill_run<kSingleReduced, encoding, Word, false>;
  if (s.group == 1) return arithmetic_run_of<encoding, Word, true>(s.source);
  return arithmetic_run_of<encoding, Word, false>(s.source);
}

// The loop compiled for the stream's source, encoding and width.
template <typename Word>
FillRun fill_run_of(const Stream& s) {
  if (s.source == kMovedBits) return fill_run<kMovedBits, kRaw, Word, true>;
  if (s.source == kOrderContribution) return fill_run<kOrderContribution, kRaw, Word, true>;
  if (s.source == kOrderReduced) return fill_run<kOrderReduced, kRaw, Word, true>;
  if (s.encoding == kInteger) return arithmetic_run_of<kInteger, Word>(s);
  if constexpr (sizeof(Word) == 8) return arithmetic_run_of<kFloat64, Word>(s);
  if constexpr (sizeof(Word) == 4) return arithmetic_run_of<kFloat32, Word>(s);
  return arithmetic_run_of<kSmallFloat, Word>(s);
}

// Compares block by block with the same loops, so that the expected values stay in the first-level cache.
template <typename Word>
BusbwCheckResult check_region(const Word* data, const BusbwRegion& region, const Stream& s) {
  constexpr uint64_t kBlock = 8192 / sizeof(Word);
  Word expected[kBlock];
  const FillRun fill = fill_run_of<Word>(s);
  BusbwCheckResult result{0, UINT64_MAX, 0};
  for (uint64_t done = 0; done < region.count; done += kBlock) {
    const uint64_t count = region.count - done < kBlock ? region.count - done : kBlock;
    const Word* actual = data + region.offset + done;
    const uint64_t first_index = region.first_index + done;
    fill(expected, s, first_index, count);
    uint64_t wrong = 0;
    BUSBW_SCALAR_LOOP
    for (uint64_t i = 0; i < count; ++i) {
      result.digest += digest_term(first_index + i, actual[i]);
      wrong += is_wrong(s, actual[i], expected[i]) ? 1 : 0;
    }
    if (wrong != 0 && result.wrong == 0) {
      uint64_t i = 0;
      while (!is_wrong(s, actual[i], expected[i])) ++i;
      result.first_wrong = region.offset + done + i;
    }
    result.wrong += wrong;
  }
  return result;
}

// Calls visit with the address as a pointer to unsigned words of the type's width.
template <typename Visit>
void visit_words(void* address, uint32_t type_bytes, Visit visit) {
  if (type_bytes == 1) return visit(static_cast<uint8_t*>(address));
  if (type_bytes == 2) return visit(static_cast<uint16_t*>(address));
  if (type_bytes == 4) return visit(static_cast<uint32_t*>(address));
  visit(static_cast<uint64_t*>(address));
}

bool is_valid(const void* buffer, const BusbwPattern* p, const BusbwRegion* r) {
  if (p == nullptr || r == nullptr) return false;
  const int32_t kind = r->kind & ~(kComplement | kUndivided);
  if (kind < kContribution || kind > kMoved) return false;
  if ((r->kind & kUndivided) != 0 && kind != kReduced) return false;
  const TypeTraits type = type_traits(p->dtype);
  if (type.bytes == 0 || type.bytes != p->type_bytes || p->group == 0 || p->op < kSum || p->op > kMulSum) {
    return false;
  }
  if (kind != kReduced && (r->rank < 0 || static_cast<uint32_t>(r->rank) >= p->ranks)) return false;
  if (reinterpret_cast<uintptr_t>(buffer) % type.bytes != 0) return false;
  return buffer != nullptr || r->count == 0;
}

}  // namespace

int32_t busbw_pattern_init(BusbwPattern* pattern, uint64_t seed, uint32_t ranks, int32_t dtype, int32_t op) {
  const TypeTraits type = type_traits(dtype);
  if (pattern == nullptr || ranks == 0 || ranks > INT32_MAX || type.bytes == 0) return kBadArgument;
  BusbwPattern p{};
  p.seed = seed;
  p.ranks = ranks;
  p.dtype = dtype;
  p.op = op;
  p.type_bytes = type.bytes;
  p.group = 1;
  if (!choose_pattern(&p, type)) return kBadArgument;
  p.ranks_div_group = ranks / p.group;
  p.ranks_mod_group = ranks % p.group;
  *pattern = p;
  return kOk;
}

int32_t busbw_fill(void* buffer, const BusbwPattern* pattern, const BusbwRegion* region) {
  if (!is_valid(buffer, pattern, region)) return kBadArgument;
  const Stream s = make_stream(*pattern, *region);
  visit_words(buffer, pattern->type_bytes, [&](auto* words) {
    const FillRun fill = fill_run_of<std::remove_pointer_t<decltype(words)>>(s);
    fill(words + region->offset, s, region->first_index, region->count);
  });
  return kOk;
}

int32_t busbw_check(const void* buffer, const BusbwPattern* pattern, const BusbwRegion* region,
                    BusbwCheckResult* result) {
  if (!is_valid(buffer, pattern, region) || result == nullptr) return kBadArgument;
  const Stream s = make_stream(*pattern, *region);
  visit_words(const_cast<void*>(buffer), pattern->type_bytes, [&](const auto* words) {
    const BusbwCheckResult found = check_region(words, *region, s);
    result->wrong += found.wrong;
    result->digest += found.digest;
    if (found.first_wrong < result->first_wrong) result->first_wrong = found.first_wrong;
  });
  return kOk;
}
