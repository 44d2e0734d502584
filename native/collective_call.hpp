// A prepared call: one collective with everything fixed but the buffer slot it works on.
#pragma once

#include "core_api.h"

struct BusbwCall {
  explicit BusbwCall(uint64_t slot_count) : slots(slot_count) {}
  virtual ~BusbwCall() = default;
  BusbwCall(const BusbwCall&) = delete;
  BusbwCall& operator=(const BusbwCall&) = delete;

  // Issues the collective once: to its end where calls block (MPI), else into the stream (NCCL).
  virtual int32_t issue(uint64_t slot) const noexcept = 0;

  const uint64_t slots;
};

namespace busbw {

// Library codes travel with the library's tag, so that Python can name the library and ask it for the text.
inline int32_t tagged(int32_t library, int code) { return code == 0 ? kOk : library + code; }

// The two ends of a call, at a slot of the rotation.
struct Ends {
  const char* send;
  char* recv;
  BusbwRotation rotation;

  const void* send_at(uint64_t slot) const { return send + slot * rotation.send_stride; }
  void* recv_at(uint64_t slot) const { return recv + slot * rotation.recv_stride; }
};

// A function address found at run time, as the type its documentation gives.
template <class Function>
Function as_function(void* address) {
  return reinterpret_cast<Function>(address);
}

}  // namespace busbw
