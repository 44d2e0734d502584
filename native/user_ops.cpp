// Reductions and scaling of element types in host memory. Narrow floats are widened to binary32 with integer
// operations and selects only: no F16C is assumed, and g++ and clang turn the loops into SSE2 or NEON code.
#include "user_ops.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "pattern_types.hpp"

namespace busbw {
namespace {

using pattern::type_traits;

// ---- formats ----------------------------------------------------------------------------------------------

template <int32_t dtype>
struct Format {
  static constexpr pattern::TypeTraits kType = type_traits(dtype);
  static constexpr uint32_t kMantissaBits = kType.mantissa_bits;
  static constexpr uint32_t kBias = kType.exponent_bias;
  static constexpr bool kIsByte = kType.bytes == 1;
  using Word = std::conditional_t<kIsByte, uint8_t, uint16_t>;

  static constexpr uint32_t kSign = 1u << (8 * kType.bytes - 1);
  static constexpr uint32_t kMantissaMask = (1u << kMantissaBits) - 1;
  // The first magnitude that is not finite. e4m3 has one NaN and no infinity.
  static constexpr uint32_t kSpecial =
      dtype == pattern::kFloat8E4m3 ? kSign - 1 : (kSign - 1) & ~kMantissaMask;
  static constexpr uint32_t kLargestNumber = dtype == pattern::kFloat8E4m3 ? kSpecial - 1 : kSpecial;
  static constexpr uint32_t kOverflow = kIsByte ? kSpecial - 1 : kSpecial;
  static constexpr uint32_t kNan = kSign - 1;
  static constexpr uint32_t kShift = 23 - kMantissaBits;             // to binary32's mantissa
  static constexpr uint32_t kRebias = (127 - kBias) << 23;           // to binary32's exponent
  static constexpr uint32_t kSmallestNormal = kRebias + (1u << 23);  // as binary32
};

template <class To, class From>
To copy_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a copy of the representation");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// 2^exponent as binary32, for normal numbers.
constexpr uint32_t power_bits(int32_t exponent) { return static_cast<uint32_t>(exponent + 127) << 23; }

// A conditional without a branch: a ternary may become one, around arithmetic that then is not vectorised.
inline uint32_t select(bool condition, uint32_t yes, uint32_t no) {
  return no ^ ((yes ^ no) & (0u - static_cast<uint32_t>(condition)));
}

// The exponent of the last place of the format's subnormals.
template <class F>
constexpr int32_t kLastPlace = 1 - static_cast<int32_t>(F::kBias + F::kMantissaBits);

template <class F>
inline float widen(uint32_t word) {
  const uint32_t magnitude = word & (F::kSign - 1);
  const uint32_t sign = (word & F::kSign) << (32 - 8 * F::kType.bytes);
  const uint32_t moved = magnitude << F::kShift;
  if constexpr (F::kRebias == 0) return copy_bits<float>(sign | moved);
  const float subnormal =
      static_cast<float>(static_cast<int32_t>(magnitude)) * copy_bits<float>(power_bits(kLastPlace<F>));
  uint32_t wide = moved + F::kRebias;
  wide = select(magnitude <= F::kMantissaMask, copy_bits<uint32_t>(subnormal), wide);
  wide = select(magnitude >= F::kSpecial, moved | 0x7f800000u, wide);
  return copy_bits<float>(sign | wide);
}

// Rounds to nearest even.
template <class F>
inline uint32_t narrow(float value) {
  const uint32_t wide = copy_bits<uint32_t>(value);
  const uint32_t magnitude = wide & 0x7fffffffu;
  const uint32_t sign = (wide & 0x80000000u) >> (32 - 8 * F::kType.bytes);
  const uint32_t half_less_one = (1u << (F::kShift - 1)) - 1;
  uint32_t word = (magnitude - F::kRebias + half_less_one + ((magnitude >> F::kShift) & 1)) >> F::kShift;
  if constexpr (F::kRebias != 0) {
    // Added to a number whose last place is the format's, a subnormal is rounded by the addition.
    const uint32_t anchor = power_bits(kLastPlace<F> + 23);
    const float anchored = copy_bits<float>(magnitude) + copy_bits<float>(anchor);
    word = select(magnitude < F::kSmallestNormal, copy_bits<uint32_t>(anchored) - anchor, word);
  }
  word = select(word >= F::kSpecial, F::kOverflow, word);
  word = select(magnitude > 0x7f800000u, F::kNan, word);
  return sign | word;
}

// Rounds to binary32 so that rounding again to a narrower format gives what rounding once would: what is
// inexact becomes the neighbour with an odd last place (S. Boldo and G. Melquiond, "Emulation of FMA and
// correctly rounded sums", IEEE Trans. Computers 57, 2008). Needs two bits more than the format has.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  uint32_t bits = copy_bits<uint32_t>(nearest);
  bits -= (back < 0 ? -back : back) > (value < 0 ? -value : value) ? 1 : 0;
  bits |= back != value ? 1 : 0;
  return copy_bits<float>(bits);
}

// ---- reductions -------------------------------------------------------------------------------------------

// Sums and products of two narrow floats are exact in binary32, or have so many bits more there that rounding
// twice does no harm. That holds for bfloat16's subnormals too, though it has binary32's exponents: a product
// has 16 bits, binary32 goes 16 binary places further down, so what it cannot hold is below half of the last
// place.
template <class F>
struct Sum {
  static uint32_t apply(uint32_t a, uint32_t b) { return narrow<F>(widen<F>(a) + widen<F>(b)); }
};

template <class F>
struct Prod {
  static uint32_t apply(uint32_t a, uint32_t b) { return narrow<F>(widen<F>(a) * widen<F>(b)); }
};

// Orders numbers as integers, -0 before +0.
template <class F>
inline int32_t order_key(uint32_t word) {
  const auto magnitude = static_cast<int32_t>(word & (F::kSign - 1));
  return (word & F::kSign) != 0 ? ~magnitude : magnitude;
}

template <class F>
inline bool is_nan(uint32_t word) {
  return (word & (F::kSign - 1)) > F::kLargestNumber;
}

template <class F>
struct Max {
  static uint32_t apply(uint32_t a, uint32_t b) {
    const uint32_t larger = order_key<F>(a) > order_key<F>(b) ? a : b;
    const uint32_t result = is_nan<F>(b) ? b : larger;
    return is_nan<F>(a) ? a : result;
  }
};

template <class F>
struct Min {
  static uint32_t apply(uint32_t a, uint32_t b) {
    const uint32_t smaller = order_key<F>(a) < order_key<F>(b) ? a : b;
    const uint32_t result = is_nan<F>(b) ? b : smaller;
    return is_nan<F>(a) ? a : result;
  }
};

// A fixed number of elements in arrays of its own: g++ vectorises such a loop at -O2, and no other.
constexpr int64_t kBlock = 64;

template <class Word, class Function>
inline void for_blocks(const Word* in, Word* inout, int64_t count, Function function) {
  int64_t done = 0;
  for (; done + kBlock <= count; done += kBlock) {
    Word a[kBlock];
    Word b[kBlock];
    std::memcpy(a, in + done, sizeof a);
    std::memcpy(b, inout + done, sizeof b);
    for (int64_t i = 0; i < kBlock; ++i) b[i] = static_cast<Word>(function(a[i], b[i]));
    std::memcpy(inout + done, b, sizeof b);
  }
  for (; done < count; ++done) inout[done] = static_cast<Word>(function(in[done], inout[done]));
}

// Apart from the MPI functions so that both forms share the loop.
template <class F, template <class> class Op>
__attribute__((noinline)) void reduce_elements(const void* in, void* inout, int64_t count) {
  using Word = typename F::Word;
  for_blocks(static_cast<const Word*>(in), static_cast<Word*>(inout), count,
             [](uint32_t a, uint32_t b) { return Op<F>::apply(a, b); });
}

// Count is int for MPI_User_function, MPI_Count (64 bit in every MPI) for MPI_User_function_c.
template <class F, template <class> class Op, class Count>
void reduce(void* in, void* inout, Count* count, void* /*datatype*/) {
  reduce_elements<F, Op>(in, inout, *count);
}

template <class F, class Count>
void* reduction_of(int32_t op) {
  using Function = void (*)(void*, void*, Count*, void*);
  Function function = nullptr;
  if (op == pattern::kSum) function = reduce<F, Sum, Count>;
  if (op == pattern::kProd) function = reduce<F, Prod, Count>;
  if (op == pattern::kMax) function = reduce<F, Max, Count>;
  if (op == pattern::kMin) function = reduce<F, Min, Count>;
  return reinterpret_cast<void*>(function);
}

template <class Count>
void* reduction_of(int32_t dtype, int32_t op) {
  if (dtype == pattern::kHalf) return reduction_of<Format<pattern::kHalf>, Count>(op);
  if (dtype == pattern::kBfloat16) return reduction_of<Format<pattern::kBfloat16>, Count>(op);
  if (dtype == pattern::kFloat8E4m3) return reduction_of<Format<pattern::kFloat8E4m3>, Count>(op);
  if (dtype == pattern::kFloat8E5m2) return reduction_of<Format<pattern::kFloat8E5m2>, Count>(op);
  return nullptr;
}

// ---- scaling ----------------------------------------------------------------------------------------------

// A value of `T` times 2, or divided by a number of ranks. Integers of 8 and 16 bits are divided as floats,
// which is a vector operation; no rounding reaches the next integer, as that is at least 1 / value away,
// relatively.
template <class T>
struct Number {
  using Word = T;
  using Divisor = std::conditional_t<sizeof(T) < 4, float, T>;
  static T twice(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return value + value;
    } else {
      return static_cast<T>(static_cast<uint64_t>(value) * 2);
    }
  }
  static T divide(T value, Divisor ranks) {
    if constexpr (sizeof(T) < 4) {
      return static_cast<T>(static_cast<int32_t>(static_cast<float>(value) / ranks));
    } else {
      return value / ranks;
    }
  }
};

template <class F>
struct Narrow {
  using Word = typename F::Word;
  using Divisor = float;
  // A quotient by fewer ranks keeps a distance of more than binary32's rounding from where two numbers of the
  // format meet, relative at least 1 / (2^(mantissa_bits + 2) * ranks): rounding twice does no harm.
  static constexpr uint32_t kFewRanks = 1u << (22 - F::kMantissaBits);
  static Word twice(Word word) { return static_cast<Word>(Sum<F>::apply(word, word)); }
  static Word divide(Word word, float ranks) { return static_cast<Word>(narrow<F>(widen<F>(word) / ranks)); }
  static Word divide(Word word, double ranks) {
    return static_cast<Word>(narrow<F>(round_to_odd(double{widen<F>(word)} / ranks)));
  }
};

template <class Number, class Function>
inline void map(const void* in, void* out, int64_t count, Function function) {
  using Word = typename Number::Word;
  const auto* from = static_cast<const Word*>(in);
  auto* to = static_cast<Word*>(out);
  int64_t done = 0;
  for (; done + kBlock <= count; done += kBlock) {
    Word block[kBlock];
    std::memcpy(block, from + done, sizeof block);
    for (int64_t i = 0; i < kBlock; ++i) block[i] = function(block[i]);
    std::memcpy(to + done, block, sizeof block);
  }
  for (; done < count; ++done) to[done] = function(from[done]);
}

template <class Number>
void scale_mulsum(const void* in, void* out, int64_t count, uint32_t rank, uint32_t /*ranks*/) {
  using Word = typename Number::Word;
  if (pattern::premul_scalar(rank) == 2) {
    map<Number>(in, out, count, [](Word word) { return Number::twice(word); });
  } else if (in != out && count > 0) {
    std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(Word));
  }
}

template <class Number>
void scale_avg(const void* in, void* out, int64_t count, uint32_t /*rank*/, uint32_t ranks) {
  using Word = typename Number::Word;
  const auto divisor = static_cast<typename Number::Divisor>(ranks);
  map<Number>(in, out, count, [divisor](Word word) { return Number::divide(word, divisor); });
}

template <class F>
void scale_avg_narrow(const void* in, void* out, int64_t count, uint32_t rank, uint32_t ranks) {
  using Number = Narrow<F>;
  using Word = typename Number::Word;
  if (ranks < Number::kFewRanks) return scale_avg<Number>(in, out, count, rank, ranks);
  const double divisor = ranks;
  map<Number>(in, out, count, [divisor](Word word) { return Number::divide(word, divisor); });
}

template <class Number>
ScaleFunction scale_of(int32_t op) {
  if (op == pattern::kMulSum) return scale_mulsum<Number>;
  if (op == pattern::kAvg) return scale_avg<Number>;
  return nullptr;
}

template <int32_t dtype>
ScaleFunction narrow_scale_of(int32_t op) {
  using F = Format<dtype>;
  return op == pattern::kAvg ? scale_avg_narrow<F> : scale_of<Narrow<F>>(op);
}

// binary32 holds every number of ranks up to here, so that dividing by it rounds once.
constexpr uint32_t kMostRanks = 1u << 24;

}  // namespace

// clang-format off: a table
ScaleFunction scale_function(int32_t dtype, int32_t op) {
  switch (dtype) {
    case pattern::kInt8: return scale_of<Number<int8_t>>(op);
    case pattern::kUint8: return scale_of<Number<uint8_t>>(op);
    case pattern::kInt16: return scale_of<Number<int16_t>>(op);
    case pattern::kUint16: return scale_of<Number<uint16_t>>(op);
    case pattern::kInt32: return scale_of<Number<int32_t>>(op);
    case pattern::kUint32: return scale_of<Number<uint32_t>>(op);
    case pattern::kInt64: return scale_of<Number<int64_t>>(op);
    case pattern::kUint64: return scale_of<Number<uint64_t>>(op);
    case pattern::kFloat: return scale_of<Number<float>>(op);
    case pattern::kDouble: return scale_of<Number<double>>(op);
    case pattern::kHalf: return narrow_scale_of<pattern::kHalf>(op);
    case pattern::kBfloat16: return narrow_scale_of<pattern::kBfloat16>(op);
    case pattern::kFloat8E4m3: return narrow_scale_of<pattern::kFloat8E4m3>(op);
    case pattern::kFloat8E5m2: return narrow_scale_of<pattern::kFloat8E5m2>(op);
    default: return nullptr;
  }
}
// clang-format on

}  // namespace busbw

void* busbw_mpi_user_function(int32_t dtype, int32_t op, int32_t large) {
  return large != 0 ? busbw::reduction_of<int64_t>(dtype, op) : busbw::reduction_of<int>(dtype, op);
}

int32_t busbw_scale(int32_t dtype, int32_t op, const void* in, void* out, int64_t count, uint32_t rank,
                    uint32_t ranks) {
  const busbw::ScaleFunction scale = busbw::scale_function(dtype, op);
  if (scale == nullptr || count < 0 || ranks > busbw::kMostRanks || rank >= ranks) return kBadArgument;
  if (count == 0) return kOk;
  if (in == nullptr || out == nullptr) return kBadArgument;
  scale(in, out, count, rank, ranks);
  return kOk;
}

int32_t busbw_premul_scalar(int32_t dtype, uint32_t rank, void* out) {
  const busbw::pattern::TypeTraits type = busbw::pattern::type_traits(dtype);
  if (type.bytes == 0 || out == nullptr) return kBadArgument;
  const uint32_t scalar = busbw::pattern::premul_scalar(rank);
  uint64_t bits = scalar;
  if (type.is_float) bits = uint64_t{type.exponent_bias + scalar - 1} << type.mantissa_bits;  // 2^0 or 2^1
  std::memcpy(out, &bits, type.bytes);  // little-endian, as every machine with NCCL or a wheel of ours
  return kOk;
}
