// NCCL collectives through function addresses of the libnccl in use. Each call only enqueues on the stream.
// Signatures as in nccl.h, where ncclDataType_t, ncclRedOp_t and ncclResult_t are ints, and ncclComm_t and
// cudaStream_t are pointers. Most collectives share one of four signatures, so a class is a signature and
// not a collective; what NCCL has no function for is a group of sends and receives.
#include <cstddef>
#include <utility>
#include <vector>

#include "collective_call.hpp"

namespace busbw {
namespace {

struct NcclCall : BusbwCall {
  explicit NcclCall(const BusbwNcclSpec& s)
      : BusbwCall(s.rotation.slots, false),
        ends{static_cast<const char*>(s.send), static_cast<char*>(s.recv), s.rotation},
        count(s.count),
        datatype(s.datatype),
        comm(s.comm),
        stream(s.stream) {}

  const Ends ends;
  const size_t count;
  const int datatype;
  void* const comm;
  void* const stream;
};

// ---- calls that NCCL has -----------------------------------------------------------------------------

// all_reduce, reduce_scatter
struct NcclReduction final : NcclCall {
  using Function = int (*)(const void*, void*, size_t, int, int, void*, void*);
  NcclReduction(const BusbwNcclSpec& s, void* address)
      : NcclCall(s), function(as_function<Function>(address)), op(s.op) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return tagged(kNcclError,
                  function(ends.send_at(slot), ends.recv_at(slot), count, datatype, op, comm, stream));
  }
  const Function function;
  const int op;
};

// reduce
struct NcclRootedReduction final : NcclCall {
  using Function = int (*)(const void*, void*, size_t, int, int, int, void*, void*);
  NcclRootedReduction(const BusbwNcclSpec& s, void* address)
      : NcclCall(s), function(as_function<Function>(address)), op(s.op), root(s.root) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return tagged(kNcclError,
                  function(ends.send_at(slot), ends.recv_at(slot), count, datatype, op, root, comm, stream));
  }
  const Function function;
  const int op;
  const int root;
};

// all_gather, alltoall
struct NcclMove final : NcclCall {
  using Function = int (*)(const void*, void*, size_t, int, void*, void*);
  NcclMove(const BusbwNcclSpec& s, void* address) : NcclCall(s), function(as_function<Function>(address)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return tagged(kNcclError,
                  function(ends.send_at(slot), ends.recv_at(slot), count, datatype, comm, stream));
  }
  const Function function;
};

// broadcast, gather, scatter
struct NcclRootedMove final : NcclCall {
  using Function = int (*)(const void*, void*, size_t, int, int, void*, void*);
  NcclRootedMove(const BusbwNcclSpec& s, void* address)
      : NcclCall(s), function(as_function<Function>(address)), root(s.root) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return tagged(kNcclError,
                  function(ends.send_at(slot), ends.recv_at(slot), count, datatype, root, comm, stream));
  }
  const Function function;
  const int root;
};

// ---- groups of sends and receives ----------------------------------------------------------------------

// ncclGroupStart and ncclGroupEnd around what `body` enqueues; both statuses are NCCL's plain codes.
class Group {
 public:
  explicit Group(const BusbwNcclTable& nccl)
      : start_(as_function<Function>(nccl.group_start)), end_(as_function<Function>(nccl.group_end)) {}

  template <class Body>
  int32_t around(Body body) const {
    if (const int code = start_(); code != 0) return tagged(kNcclError, code);
    const int32_t status = body();
    // The group is closed after an error too, or every later call would join it.
    const int closed = end_();
    return status != kOk ? status : tagged(kNcclError, closed);
  }

 private:
  using Function = int (*)();
  const Function start_;
  const Function end_;
};

// A collective made of sends and receives of blocks of `count` elements.
struct NcclTransfers : NcclCall {
  using Send = int (*)(const void*, size_t, int, int, void*, void*);
  using Recv = int (*)(void*, size_t, int, int, void*, void*);
  explicit NcclTransfers(const BusbwNcclSpec& s)
      : NcclCall(s),
        group(*s.nccl),
        send_function(as_function<Send>(s.nccl->send)),
        recv_function(as_function<Recv>(s.nccl->recv)),
        rank(s.rank),
        ranks(s.ranks),
        root(s.root),
        block_bytes(s.count * static_cast<uint64_t>(s.type_bytes)) {}

  int send(const void* from, int peer, size_t elements) const {
    return send_function(from, elements, datatype, peer, comm, stream);
  }
  int recv(void* into, int peer, size_t elements) const {
    return recv_function(into, elements, datatype, peer, comm, stream);
  }
  const char* send_block(uint64_t slot, int block) const {
    return static_cast<const char*>(ends.send_at(slot)) + static_cast<uint64_t>(block) * block_bytes;
  }
  char* recv_block(uint64_t slot, int block) const {
    return static_cast<char*>(ends.recv_at(slot)) + static_cast<uint64_t>(block) * block_bytes;
  }

  const Group group;
  const Send send_function;
  const Recv recv_function;
  const int rank;
  const int ranks;
  const int root;
  const uint64_t block_bytes;
};

struct NcclSendRecv final : NcclTransfers {
  using NcclTransfers::NcclTransfers;
  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      int code = send(ends.send_at(slot), (rank + 1) % ranks, count);
      if (code == 0) code = recv(ends.recv_at(slot), (rank + ranks - 1) % ranks, count);
      return tagged(kNcclError, code);
    });
  }
};

// permute: a rank may have a target, a source, both or neither. An empty group is an empty call.
struct NcclPermute final : NcclTransfers {
  explicit NcclPermute(const BusbwNcclSpec& s)
      : NcclTransfers(s), target(s.segments.target), source(s.segments.source) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      int code = target < 0 ? 0 : send(ends.send_at(slot), target, count);
      if (code == 0 && source >= 0) code = recv(ends.recv_at(slot), source, count);
      return tagged(kNcclError, code);
    });
  }
  const int target;
  const int source;
};

// Segments of a call of variable sizes, counted in NCCL's elements.
struct NcclSegments : NcclTransfers {
  explicit NcclSegments(const BusbwNcclSpec& s)
      : NcclTransfers(s),
        send_counts(per_rank<size_t>(s.segments.send_counts, s.ranks)),
        send_offsets(per_rank<size_t>(s.segments.send_offsets, s.ranks)),
        recv_counts(per_rank<size_t>(s.segments.recv_counts, s.ranks)),
        recv_offsets(per_rank<size_t>(s.segments.recv_offsets, s.ranks)),
        type_bytes(static_cast<size_t>(s.type_bytes)) {}

  char* received(uint64_t slot, size_t peer) const {
    return static_cast<char*>(ends.recv_at(slot)) + recv_offsets[peer] * type_bytes;
  }

  const std::vector<size_t> send_counts;
  const std::vector<size_t> send_offsets;
  const std::vector<size_t> recv_counts;
  const std::vector<size_t> recv_offsets;
  const size_t type_bytes;
};

// alltoallv. Nothing is posted for an empty segment, on either side: both know that it is empty.
struct NcclVariableExchange final : NcclSegments {
  using NcclSegments::NcclSegments;
  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      int code = 0;
      const char* own = static_cast<const char*>(ends.send_at(slot));
      for (int peer = 0; code == 0 && peer < ranks; ++peer) {
        const auto at = static_cast<size_t>(peer);
        if (send_counts[at] != 0) code = send(own + send_offsets[at] * type_bytes, peer, send_counts[at]);
        if (code == 0 && recv_counts[at] != 0) code = recv(received(slot, at), peer, recv_counts[at]);
      }
      return tagged(kNcclError, code);
    });
  }
};

// all_gatherv: a broadcast from every rank that has data, in one group.
struct NcclVariableGather final : NcclSegments {
  using Function = int (*)(const void*, void*, size_t, int, int, void*, void*);
  explicit NcclVariableGather(const BusbwNcclSpec& s)
      : NcclSegments(s), broadcast(as_function<Function>(s.nccl->broadcast)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      int code = 0;
      for (int owner = 0; code == 0 && owner < ranks; ++owner) {
        const auto at = static_cast<size_t>(owner);
        if (recv_counts[at] == 0) continue;
        void* place = received(slot, at);
        // Only the root's send argument is read; elsewhere the result's own address is a valid one.
        const void* from = owner == rank ? ends.send_at(slot) : place;
        code = broadcast(from, place, recv_counts[at], datatype, owner, comm, stream);
      }
      return tagged(kNcclError, code);
    });
  }
  const Function broadcast;
};

struct NcclGroupedAlltoall final : NcclTransfers {
  using NcclTransfers::NcclTransfers;
  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      int code = 0;
      for (int peer = 0; code == 0 && peer < ranks; ++peer) {
        code = send(send_block(slot, peer), peer, count);
        if (code == 0) code = recv(recv_block(slot, peer), peer, count);
      }
      return tagged(kNcclError, code);
    });
  }
};

struct NcclGroupedGather final : NcclTransfers {
  using NcclTransfers::NcclTransfers;
  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      int code = send(ends.send_at(slot), root, count);
      for (int peer = 0; code == 0 && rank == root && peer < ranks; ++peer) {
        code = recv(recv_block(slot, peer), peer, count);
      }
      return tagged(kNcclError, code);
    });
  }
};

struct NcclGroupedScatter final : NcclTransfers {
  using NcclTransfers::NcclTransfers;
  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      int code = recv(ends.recv_at(slot), root, count);
      for (int peer = 0; code == 0 && rank == root && peer < ranks; ++peer) {
        code = send(send_block(slot, peer), peer, count);
      }
      return tagged(kNcclError, code);
    });
  }
};

// An all_gather by recursive doubling: before step `mask` a rank holds the `mask` blocks of its subcube,
// which it swaps with the subcube across. A step sends what the step before received, so each is a group of
// its own.
struct NcclHypercube final : NcclTransfers {
  using Copy = int (*)(uint64_t, uint64_t, size_t, void*);
  explicit NcclHypercube(const BusbwNcclSpec& s)
      : NcclTransfers(s), copy(as_function<Copy>(s.cuda->memcpy_async)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    if (const int32_t status = place_own_block(slot); status != kOk) return status;
    for (int mask = 1; mask < ranks; mask <<= 1) {
      if (const int32_t status = swap(slot, mask); status != kOk) return status;
    }
    return kOk;
  }

  int32_t place_own_block(uint64_t slot) const {
    const void* own = ends.send_at(slot);
    char* place = recv_block(slot, rank);
    if (own == place || block_bytes == 0) return kOk;
    return tagged(kCudaError, copy(reinterpret_cast<uint64_t>(place), reinterpret_cast<uint64_t>(own),
                                   block_bytes, stream));
  }

  int32_t swap(uint64_t slot, int mask) const {
    const int peer = rank ^ mask;
    const int held = rank & ~(mask - 1);  // first block of the own subcube; the peer's is held ^ mask
    const size_t elements = count * static_cast<size_t>(mask);
    return group.around([&] {
      int code = send(recv_block(slot, held), peer, elements);
      if (code == 0) code = recv(recv_block(slot, held ^ mask), peer, elements);
      return tagged(kNcclError, code);
    });
  }

  const Copy copy;
};

// ---- several calls at once -----------------------------------------------------------------------------

// `calls` calls on successive slots in one group, which NCCL may launch as one kernel. Issue number s starts
// where issue s - 1 ended; after as many issues as there are slots it is at slot 0 again.
struct NcclAggregate final : BusbwCall {
  NcclAggregate(const BusbwNcclSpec& s, BusbwCall* one_call)
      : BusbwCall(s.rotation.slots, false),
        group(*s.nccl),
        one(one_call),
        calls(static_cast<uint64_t>(s.aggregate)) {}
  ~NcclAggregate() override { delete one; }

  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      uint64_t at = slot * calls % slots;
      for (uint64_t i = 0; i < calls; ++i) {
        if (const int32_t status = one->issue(at); status != kOk) return status;
        at = at + 1 == slots ? 0 : at + 1;
      }
      return static_cast<int32_t>(kOk);
    });
  }

  const Group group;
  BusbwCall* const one;
  const uint64_t calls;
};

// Different calls in one group.
struct NcclParts final : BusbwCall {
  NcclParts(Parts calls, const BusbwNcclTable& nccl)
      : BusbwCall(calls.front()->slots, false), group(nccl), parts(std::move(calls)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    return group.around([&] {
      for (const auto& part : parts) {
        if (const int32_t status = part->issue(slot); status != kOk) return status;
      }
      return static_cast<int32_t>(kOk);
    });
  }
  const Group group;
  const Parts parts;
};

// A function that NCCL may lack, or sends and receives in its place.
template <class Own, class Grouped>
BusbwCall* own_or_grouped(const BusbwNcclSpec& s, void* address) {
  if (address != nullptr) return new Own(s, address);
  return new Grouped(s);
}

// In one group all steps of a hypercube would run at once, on data that has not arrived.
BusbwCall* hypercube(const BusbwNcclSpec& s) {
  const bool power_of_two = s.ranks > 0 && (s.ranks & (s.ranks - 1)) == 0;
  return power_of_two && s.aggregate <= 1 ? new NcclHypercube(s) : nullptr;
}

BusbwCall* one_call(const BusbwNcclSpec& s) {
  switch (s.collective) {
    case kAllReduce:
    case kBarrier:  // NCCL has none; the spec says on which element instead
      return new NcclReduction(s, s.nccl->all_reduce);
    case kReduceScatter:
      return new NcclReduction(s, s.nccl->reduce_scatter);
    case kReduce:
      return new NcclRootedReduction(s, s.nccl->reduce);
    case kAllGather:
      return new NcclMove(s, s.nccl->all_gather);
    case kBroadcast:
      return new NcclRootedMove(s, s.nccl->broadcast);
    case kAlltoall:
      return own_or_grouped<NcclMove, NcclGroupedAlltoall>(s, s.nccl->alltoall);
    case kGather:
      return own_or_grouped<NcclRootedMove, NcclGroupedGather>(s, s.nccl->gather);
    case kScatter:
      return own_or_grouped<NcclRootedMove, NcclGroupedScatter>(s, s.nccl->scatter);
    case kSendRecv:
      return new NcclSendRecv(s);
    case kHypercube:
      return hypercube(s);
    case kAlltoallv:
      return new NcclVariableExchange(s);
    case kAllGatherv:
      return new NcclVariableGather(s);
    case kPermute:
      return new NcclPermute(s);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace busbw

BusbwCall* busbw_nccl_call(const BusbwNcclSpec* spec) {
  BusbwCall* one = busbw::one_call(*spec);
  if (one == nullptr || spec->aggregate <= 1) return one;
  return new busbw::NcclAggregate(*spec, one);
}

BusbwCall* busbw_nccl_parts(BusbwCall* const* parts, int32_t count, const BusbwNcclTable* nccl) {
  busbw::Parts taken = busbw::taken_over(parts, count);
  return taken.empty() || nccl == nullptr ? nullptr : new busbw::NcclParts(std::move(taken), *nccl);
}
