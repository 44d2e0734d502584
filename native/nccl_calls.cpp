// NCCL collectives through function addresses of the libnccl in use. Each call only enqueues on the stream.
// Signatures as in nccl.h, where ncclDataType_t, ncclRedOp_t and ncclResult_t are ints, and ncclComm_t and
// cudaStream_t are pointers.
#include <cstddef>

#include "collective_call.hpp"

namespace busbw {
namespace {

struct NcclCall : BusbwCall {
  explicit NcclCall(const BusbwNcclSpec& s)
      : BusbwCall(s.rotation.slots),
        ends{static_cast<const char*>(s.send), static_cast<char*>(s.recv), s.rotation},
        count(s.count),
        datatype(s.datatype),
        op(s.op),
        comm(s.comm),
        stream(s.stream) {}

  const Ends ends;
  const size_t count;
  const int datatype;
  const int op;
  void* const comm;
  void* const stream;
};

struct NcclAllReduce final : NcclCall {
  using Function = int (*)(const void*, void*, size_t, int, int, void*, void*);
  explicit NcclAllReduce(const BusbwNcclSpec& s)
      : NcclCall(s), function(as_function<Function>(s.nccl->all_reduce)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return tagged(kNcclError,
                  function(ends.send_at(slot), ends.recv_at(slot), count, datatype, op, comm, stream));
  }
  const Function function;
};

struct NcclAllGather final : NcclCall {
  using Function = int (*)(const void*, void*, size_t, int, void*, void*);
  explicit NcclAllGather(const BusbwNcclSpec& s)
      : NcclCall(s), function(as_function<Function>(s.nccl->all_gather)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return tagged(kNcclError,
                  function(ends.send_at(slot), ends.recv_at(slot), count, datatype, comm, stream));
  }
  const Function function;
};

struct NcclSendRecv final : NcclCall {
  using Send = int (*)(const void*, size_t, int, int, void*, void*);
  using Recv = int (*)(void*, size_t, int, int, void*, void*);
  using Group = int (*)();
  explicit NcclSendRecv(const BusbwNcclSpec& s)
      : NcclCall(s),
        send(as_function<Send>(s.nccl->send)),
        recv(as_function<Recv>(s.nccl->recv)),
        group_start(as_function<Group>(s.nccl->group_start)),
        group_end(as_function<Group>(s.nccl->group_end)),
        send_to(s.send_to),
        recv_from(s.recv_from) {}

  int32_t issue(uint64_t slot) const noexcept override {
    int code = group_start();
    if (code == 0) code = send(ends.send_at(slot), count, datatype, send_to, comm, stream);
    if (code == 0) code = recv(ends.recv_at(slot), count, datatype, recv_from, comm, stream);
    // The group is closed after an error too, or every later call would join it.
    const int closed = group_end();
    return tagged(kNcclError, code != 0 ? code : closed);
  }
  const Send send;
  const Recv recv;
  const Group group_start;
  const Group group_end;
  const int send_to;
  const int recv_from;
};

}  // namespace
}  // namespace busbw

BusbwCall* busbw_nccl_call(const BusbwNcclSpec* spec) {
  switch (spec->collective) {
    case kAllReduce:
      return new busbw::NcclAllReduce(*spec);
    case kAllGather:
      return new busbw::NcclAllGather(*spec);
    case kSendRecv:
      return new busbw::NcclSendRecv(*spec);
    default:
      return nullptr;
  }
}
