// MPI collectives through function addresses: one build serves every MPI library.
//
// Two things differ between libraries. A handle (MPI_Comm, MPI_Datatype, MPI_Op) is an int in the MPICH ABI
// and a pointer in Open MPI and in the MPI 5 standard ABI. A count is an int in the plain functions and an
// MPI_Count (64 bit) in the _c ones. Both are template arguments, so that each combination is called with
// its true signature.
#include <cstddef>

#include "collective_call.hpp"

namespace busbw {
namespace {

// MPI_Status is 20 bytes in MPICH, 24 in Open MPI, 32 in the MPI 5 ABI. Passing real storage avoids needing
// each library's MPI_STATUS_IGNORE.
struct alignas(16) StatusStorage {
  std::byte bytes[64];
};

constexpr int kTag = 0;

template <class Handle>
Handle as_handle(uint64_t bits) {
  if constexpr (sizeof(Handle) == 4) {
    return static_cast<Handle>(static_cast<uint32_t>(bits));
  } else {
    return reinterpret_cast<Handle>(bits);
  }
}

template <class Handle, class Count>
struct MpiCall : BusbwCall {
  explicit MpiCall(const BusbwMpiSpec& s)
      : BusbwCall(s.rotation.slots),
        ends{static_cast<const char*>(s.send), static_cast<char*>(s.recv), s.rotation},
        send_count(static_cast<Count>(s.send_count)),
        recv_count(static_cast<Count>(s.recv_count)),
        datatype(as_handle<Handle>(s.datatype)),
        op(as_handle<Handle>(s.op)),
        comm(as_handle<Handle>(s.comm)) {}

  const Ends ends;
  const Count send_count;
  const Count recv_count;
  const Handle datatype;
  const Handle op;
  const Handle comm;
};

template <class Handle, class Count>
struct MpiAllReduce final : MpiCall<Handle, Count> {
  using Function = int (*)(const void*, void*, Count, Handle, Handle, Handle);
  explicit MpiAllReduce(const BusbwMpiSpec& s)
      : MpiCall<Handle, Count>(s), function(as_function<Function>(s.function)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return function(this->ends.send_at(slot), this->ends.recv_at(slot), this->send_count, this->datatype,
                    this->op, this->comm);
  }
  const Function function;
};

template <class Handle, class Count>
struct MpiAllGather final : MpiCall<Handle, Count> {
  using Function = int (*)(const void*, Count, Handle, void*, Count, Handle, Handle);
  explicit MpiAllGather(const BusbwMpiSpec& s)
      : MpiCall<Handle, Count>(s), function(as_function<Function>(s.function)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return function(this->ends.send_at(slot), this->send_count, this->datatype, this->ends.recv_at(slot),
                    this->recv_count, this->datatype, this->comm);
  }
  const Function function;
};

template <class Handle, class Count>
struct MpiSendRecv final : MpiCall<Handle, Count> {
  using Function = int (*)(const void*, Count, Handle, int, int, void*, Count, Handle, int, int, Handle,
                           StatusStorage*);
  explicit MpiSendRecv(const BusbwMpiSpec& s)
      : MpiCall<Handle, Count>(s),
        function(as_function<Function>(s.function)),
        send_to(s.send_to),
        recv_from(s.recv_from) {}

  int32_t issue(uint64_t slot) const noexcept override {
    StatusStorage status;
    return function(this->ends.send_at(slot), this->send_count, this->datatype, send_to, kTag,
                    this->ends.recv_at(slot), this->recv_count, this->datatype, recv_from, kTag, this->comm,
                    &status);
  }
  const Function function;
  const int send_to;
  const int recv_from;
};

template <template <class, class> class Call>
BusbwCall* make(const BusbwMpiSpec& s) {
  switch (s.handle_bytes) {
    case 4:
      return s.large_count ? static_cast<BusbwCall*>(new Call<int32_t, int64_t>(s))
                           : new Call<int32_t, int>(s);
    case 8:
      return s.large_count ? static_cast<BusbwCall*>(new Call<void*, int64_t>(s)) : new Call<void*, int>(s);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace busbw

BusbwCall* busbw_mpi_call(const BusbwMpiSpec* spec) {
  switch (spec->collective) {
    case kAllReduce:
      return busbw::make<busbw::MpiAllReduce>(*spec);
    case kAllGather:
      return busbw::make<busbw::MpiAllGather>(*spec);
    case kSendRecv:
      return busbw::make<busbw::MpiSendRecv>(*spec);
    default:
      return nullptr;
  }
}
