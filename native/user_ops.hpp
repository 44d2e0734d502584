// Arithmetic that an MPI library does not bring: reductions of floats that MPI has no type for, and the
// scaling that turns its sum into avg or mulsum. Operations and types are numbered as in pattern_types.hpp.
#pragma once

#include <cstdint>

#include "core_api.h"

// Address of an MPI user function (MPI_User_function, or MPI_User_function_c where `large` is not 0) that
// reduces half, bfloat16, f8e4m3 or f8e5m2 with sum, prod, max or min; null for everything else. Sums and
// products are rounded once, to nearest even. Half and bfloat16 overflow to infinity; 8-bit floats, as in
// NCCL, to the largest finite number. A NaN stays one in all operations. -0 is less than +0.
BUSBW_API void* busbw_mpi_user_function(int32_t dtype, int32_t op, int32_t large);

// mulsum: out = in * scalar of `rank`. avg: out = in / ranks, integers towards zero, floats rounded once to
// nearest even. in == out is allowed, other overlaps are not. At most 2^24 ranks.
BUSBW_API int32_t busbw_scale(int32_t dtype, int32_t op, const void* in, void* out, int64_t count,
                              uint32_t rank, uint32_t ranks);

// Writes what mulsum multiplies the contribution of `rank` with, as one element of the type.
BUSBW_API int32_t busbw_premul_scalar(int32_t dtype, uint32_t rank, void* out);

namespace busbw {

// busbw_scale without its checks, for calls in a timed region. Null where type or operation is unknown.
using ScaleFunction = void (*)(const void* in, void* out, int64_t count, uint32_t rank, uint32_t ranks);
ScaleFunction scale_function(int32_t dtype, int32_t op);

}  // namespace busbw
