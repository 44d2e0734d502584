// A prepared call: one collective with everything fixed but the buffer slot it works on.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core_api.h"

struct BusbwCall {
  explicit BusbwCall(uint64_t slot_count, bool is_blocking) : slots(slot_count), blocking(is_blocking) {}
  virtual ~BusbwCall() = default;
  BusbwCall(const BusbwCall&) = delete;
  BusbwCall& operator=(const BusbwCall&) = delete;

  // Issues the collective once: to its end where calls block (MPI), else into the stream (NCCL).
  virtual int32_t issue(uint64_t slot) const noexcept = 0;

  // Begins the call and writes the library's request, where calls block and can be begun apart.
  virtual int32_t start(uint64_t, void*) const noexcept { return kBadArgument; }
  virtual bool can_start() const noexcept { return false; }

  const uint64_t slots;
  const bool blocking;  // issue returns once the call is complete
};

namespace busbw {

// Library codes travel with the library's tag, so that Python can name the library and ask it for the text.
inline int32_t tagged(int32_t library, int code) { return code == 0 ? kOk : library + code; }

// MPI_Status is 20 bytes in MPICH, 24 in Open MPI, 32 in the MPI 5 ABI. Passing real storage avoids needing
// each library's MPI_STATUS_IGNORE.
struct alignas(16) StatusStorage {
  std::byte bytes[64];
};

// The two ends of a call, at a slot of the rotation.
struct Ends {
  const char* send;
  char* recv;
  BusbwRotation rotation;

  const void* send_at(uint64_t slot) const { return send + slot * rotation.send_stride; }
  void* recv_at(uint64_t slot) const { return recv + slot * rotation.recv_stride; }
};

// Calls that make up one: deleted with it. Empty where they cannot.
using Parts = std::vector<std::unique_ptr<BusbwCall>>;
inline Parts taken_over(BusbwCall* const* calls, int32_t count) {
  Parts parts;
  bool usable = count > 0 && count <= kMostParts;
  for (int32_t i = 0; i < count; ++i) {
    parts.emplace_back(calls[i]);
    usable = usable && calls[i] != nullptr;
  }
  if (!usable) parts.clear();
  return parts;
}

// A copy of an array with one entry for every rank, as another integer type; empty where there is none.
template <class Integer>
std::vector<Integer> per_rank(const int64_t* values, int32_t ranks) {
  std::vector<Integer> copy;
  for (int32_t i = 0; values != nullptr && i < ranks; ++i) copy.push_back(static_cast<Integer>(values[i]));
  return copy;
}

// A function address found at run time, as the type its documentation gives.
template <class Function>
Function as_function(void* address) {
  return reinterpret_cast<Function>(address);
}

}  // namespace busbw
