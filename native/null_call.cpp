// A call that does nothing: what remains in a measurement of it is our own cost.
#include "collective_call.hpp"

namespace {

struct NullCall final : BusbwCall {
  NullCall() : BusbwCall(1, true) {}
  int32_t issue(uint64_t) const noexcept override { return kOk; }
};

}  // namespace

BusbwCall* busbw_null_call() { return new NullCall; }
