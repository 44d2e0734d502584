// MPI collectives through function addresses: one build serves every MPI library.
//
// Two things differ between libraries. A handle (MPI_Comm, MPI_Datatype, MPI_Op) is an int in the MPICH ABI
// and a pointer in Open MPI and in the MPI 5 standard ABI. A count is an int in the plain functions and an
// MPI_Count (64 bit) in the _c ones. Both are template arguments, so that each combination is called with
// its true signature. Functions of one signature share a struct.
#include <time.h>

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "collective_call.hpp"
#include "pattern.hpp"
#include "user_ops.hpp"

namespace busbw {
namespace {

constexpr int kTag = 0;

template <class Handle>
Handle as_handle(uint64_t bits) {
  if constexpr (sizeof(Handle) == 4) {
    return static_cast<Handle>(static_cast<uint32_t>(bits));
  } else {
    return reinterpret_cast<Handle>(bits);
  }
}

Ends ends_of(const BusbwMpiSpec& s) {
  return {static_cast<const char*>(s.send), static_cast<char*>(s.recv), s.rotation};
}

template <class Handle, class Count>
struct MpiCall : BusbwCall {
  explicit MpiCall(const BusbwMpiSpec& s)
      : BusbwCall(s.rotation.slots, true),
        ends(ends_of(s)),
        send_count(static_cast<Count>(s.send_count)),
        recv_count(static_cast<Count>(s.recv_count)),
        datatype(as_handle<Handle>(s.datatype)),
        op(as_handle<Handle>(s.op)),
        comm(as_handle<Handle>(s.comm)),
        root(s.root),
        start_function(s.start_function) {}

  bool can_start() const noexcept override { return start_function != nullptr; }

  const Ends ends;
  const Count send_count;
  const Count recv_count;
  const Handle datatype;
  const Handle op;
  const Handle comm;
  const int root;
  void* const start_function;
};

// The nonblocking form of a function: a request more.
template <class Function>
struct Started;
template <class... Arguments>
struct Started<int (*)(Arguments...)> {
  using Type = int (*)(Arguments..., void*);
};

// Both forms of a call from one list of arguments: Call::with(function, slot, more...) passes them, and then
// `more`, to the function.
template <class Call, class Base>
struct Startable : Base {
  using Base::Base;
  int32_t issue(uint64_t slot) const noexcept final { return own().with(own().function, slot); }
  int32_t start(uint64_t slot, void* request) const noexcept final {
    using Function = typename Started<typename Call::Function>::Type;
    return own().with(as_function<Function>(this->start_function), slot, request);
  }
  const Call& own() const { return static_cast<const Call&>(*this); }
};

template <template <class, class> class Call, class Handle, class Count>
using StartableMpi = Startable<Call<Handle, Count>, MpiCall<Handle, Count>>;

// MPI_Allreduce and MPI_Reduce_scatter_block.
template <class Handle, class Count>
struct MpiReduction final : StartableMpi<MpiReduction, Handle, Count> {
  using Function = int (*)(const void*, void*, Count, Handle, Handle, Handle);
  explicit MpiReduction(const BusbwMpiSpec& s)
      : StartableMpi<MpiReduction, Handle, Count>(s), function(as_function<Function>(s.function)) {}

  template <class F, class... More>
  int32_t with(F f, uint64_t slot, More... more) const {
    return f(this->ends.send_at(slot), this->ends.recv_at(slot), this->recv_count, this->datatype, this->op,
             this->comm, more...);
  }
  const Function function;
};

// MPI_Reduce.
template <class Handle, class Count>
struct MpiRootedReduction final : StartableMpi<MpiRootedReduction, Handle, Count> {
  using Function = int (*)(const void*, void*, Count, Handle, Handle, int, Handle);
  explicit MpiRootedReduction(const BusbwMpiSpec& s)
      : StartableMpi<MpiRootedReduction, Handle, Count>(s), function(as_function<Function>(s.function)) {}

  template <class F, class... More>
  int32_t with(F f, uint64_t slot, More... more) const {
    return f(this->ends.send_at(slot), this->ends.recv_at(slot), this->send_count, this->datatype, this->op,
             this->root, this->comm, more...);
  }
  const Function function;
};

// MPI_Allgather and MPI_Alltoall.
template <class Handle, class Count>
struct MpiExchange final : StartableMpi<MpiExchange, Handle, Count> {
  using Function = int (*)(const void*, Count, Handle, void*, Count, Handle, Handle);
  explicit MpiExchange(const BusbwMpiSpec& s)
      : StartableMpi<MpiExchange, Handle, Count>(s), function(as_function<Function>(s.function)) {}

  template <class F, class... More>
  int32_t with(F f, uint64_t slot, More... more) const {
    return f(this->ends.send_at(slot), this->send_count, this->datatype, this->ends.recv_at(slot),
             this->recv_count, this->datatype, this->comm, more...);
  }
  const Function function;
};

// MPI_Gather and MPI_Scatter.
template <class Handle, class Count>
struct MpiRootedExchange final : StartableMpi<MpiRootedExchange, Handle, Count> {
  using Function = int (*)(const void*, Count, Handle, void*, Count, Handle, int, Handle);
  explicit MpiRootedExchange(const BusbwMpiSpec& s)
      : StartableMpi<MpiRootedExchange, Handle, Count>(s), function(as_function<Function>(s.function)) {}

  template <class F, class... More>
  int32_t with(F f, uint64_t slot, More... more) const {
    return f(this->ends.send_at(slot), this->send_count, this->datatype, this->ends.recv_at(slot),
             this->recv_count, this->datatype, this->root, this->comm, more...);
  }
  const Function function;
};

// MPI_Bcast: one buffer, read at the root and written elsewhere.
template <class Handle, class Count>
struct MpiBroadcast final : StartableMpi<MpiBroadcast, Handle, Count> {
  using Function = int (*)(void*, Count, Handle, int, Handle);
  explicit MpiBroadcast(const BusbwMpiSpec& s)
      : StartableMpi<MpiBroadcast, Handle, Count>(s), function(as_function<Function>(s.function)) {}

  template <class F, class... More>
  int32_t with(F f, uint64_t slot, More... more) const {
    return f(this->ends.recv_at(slot), this->recv_count, this->datatype, this->root, this->comm, more...);
  }
  const Function function;
};

// MPI_Barrier, which has no _c form.
template <class Handle, class Count>
struct MpiBarrier final : MpiCall<Handle, Count> {
  using Function = int (*)(Handle);
  explicit MpiBarrier(const BusbwMpiSpec& s)
      : MpiCall<Handle, Count>(s), function(as_function<Function>(s.function)) {}

  int32_t issue(uint64_t) const noexcept override { return function(this->comm); }
  const Function function;
};

template <class Handle, class Count>
using SendRecvFunction = int (*)(const void*, Count, Handle, int, int, void*, Count, Handle, int, int, Handle,
                                 StatusStorage*);

// MPI_Sendrecv round the ring, or between the pairs of a permute.
template <class Handle, class Count>
struct MpiSendRecv final : MpiCall<Handle, Count> {
  using Function = SendRecvFunction<Handle, Count>;
  explicit MpiSendRecv(const BusbwMpiSpec& s)
      : MpiCall<Handle, Count>(s),
        function(as_function<Function>(s.function)),
        send_to(s.collective == kPermute ? peer(s.segments.target, s) : (s.rank + 1) % s.ranks),
        recv_from(s.collective == kPermute ? peer(s.segments.source, s) : (s.rank + s.ranks - 1) % s.ranks) {}

  static int peer(int32_t rank, const BusbwMpiSpec& s) { return rank < 0 ? s.no_peer : rank; }

  int32_t issue(uint64_t slot) const noexcept override {
    StatusStorage status;
    return with(function, slot, &status);
  }
  int32_t start(uint64_t slot, void* request) const noexcept override {
    // MPI_Isendrecv has a request where MPI_Sendrecv has a status.
    return with(function_of_start(), slot, static_cast<StatusStorage*>(request));
  }
  Function function_of_start() const { return as_function<Function>(this->start_function); }

  int32_t with(Function f, uint64_t slot, StatusStorage* last) const {
    return f(this->ends.send_at(slot), this->send_count, this->datatype, send_to, kTag,
             this->ends.recv_at(slot), this->recv_count, this->datatype, recv_from, kTag, this->comm, last);
  }
  const Function function;
  const int send_to;
  const int recv_from;
};

// Displacements are ints in the plain functions and MPI_Aints, as wide as pointers, in the _c ones.
template <class Count>
using Offset = std::conditional_t<sizeof(Count) == sizeof(int), int, std::ptrdiff_t>;

// MPI_Alltoallv.
template <class Handle, class Count>
struct MpiVariableExchange final : StartableMpi<MpiVariableExchange, Handle, Count> {
  using Function = int (*)(const void*, const Count*, const Offset<Count>*, Handle, void*, const Count*,
                           const Offset<Count>*, Handle, Handle);
  explicit MpiVariableExchange(const BusbwMpiSpec& s)
      : StartableMpi<MpiVariableExchange, Handle, Count>(s),
        function(as_function<Function>(s.function)),
        send_counts(per_rank<Count>(s.segments.send_counts, s.ranks)),
        send_offsets(per_rank<Offset<Count>>(s.segments.send_offsets, s.ranks)),
        recv_counts(per_rank<Count>(s.segments.recv_counts, s.ranks)),
        recv_offsets(per_rank<Offset<Count>>(s.segments.recv_offsets, s.ranks)) {}

  template <class F, class... More>
  int32_t with(F f, uint64_t slot, More... more) const {
    return f(this->ends.send_at(slot), send_counts.data(), send_offsets.data(), this->datatype,
             this->ends.recv_at(slot), recv_counts.data(), recv_offsets.data(), this->datatype, this->comm,
             more...);
  }
  const Function function;
  const std::vector<Count> send_counts;
  const std::vector<Offset<Count>> send_offsets;
  const std::vector<Count> recv_counts;
  const std::vector<Offset<Count>> recv_offsets;
};

// MPI_Allgatherv.
template <class Handle, class Count>
struct MpiVariableGather final : StartableMpi<MpiVariableGather, Handle, Count> {
  using Function = int (*)(const void*, Count, Handle, void*, const Count*, const Offset<Count>*, Handle,
                           Handle);
  explicit MpiVariableGather(const BusbwMpiSpec& s)
      : StartableMpi<MpiVariableGather, Handle, Count>(s),
        function(as_function<Function>(s.function)),
        recv_counts(per_rank<Count>(s.segments.recv_counts, s.ranks)),
        recv_offsets(per_rank<Offset<Count>>(s.segments.recv_offsets, s.ranks)) {}

  template <class F, class... More>
  int32_t with(F f, uint64_t slot, More... more) const {
    return f(this->ends.send_at(slot), this->send_count, this->datatype, this->ends.recv_at(slot),
             recv_counts.data(), recv_offsets.data(), this->datatype, this->comm, more...);
  }
  const Function function;
  const std::vector<Count> recv_counts;
  const std::vector<Offset<Count>> recv_offsets;
};

// An all_gather of log2(ranks) MPI_Sendrecv. Before the step of width w (1, 2, 4, ...) a rank holds the w
// blocks of its group of w neighbouring ranks; it swaps them for those of the other half of the group of 2w.
template <class Handle, class Count>
struct MpiHypercube final : MpiCall<Handle, Count> {
  using Function = SendRecvFunction<Handle, Count>;
  explicit MpiHypercube(const BusbwMpiSpec& s)
      : MpiCall<Handle, Count>(s),
        function(as_function<Function>(s.function)),
        rank(s.rank),
        ranks(s.ranks),
        block_bytes(static_cast<size_t>(s.recv_count) * s.type_bytes) {}

  int32_t issue(uint64_t slot) const noexcept override {
    const void* own = this->ends.send_at(slot);
    char* blocks = static_cast<char*>(this->ends.recv_at(slot));
    if (own != block(blocks, rank)) std::memcpy(block(blocks, rank), own, block_bytes);
    for (int width = 1; width < ranks; width *= 2) {
      const int held = rank & ~(width - 1);  // first block of this rank's group
      const int wanted = held ^ width;       // and of the other half
      const Count count = static_cast<Count>(this->recv_count * width);
      StatusStorage status;
      const int code =
          function(block(blocks, held), count, this->datatype, rank ^ width, kTag, block(blocks, wanted),
                   count, this->datatype, rank ^ width, kTag, this->comm, &status);
      if (code != kOk) return code;
    }
    return kOk;
  }

  char* block(char* blocks, int owner) const { return blocks + static_cast<size_t>(owner) * block_bytes; }

  const Function function;
  const int rank;
  const int ranks;
  const size_t block_bytes;
};

// ---- reductions that MPI lacks: the core scales, MPI sums ----------------------------------------------

struct ScaledCall : BusbwCall {
  ScaledCall(const BusbwMpiSpec& s, BusbwCall* sum_call, ScaleFunction scale_function, int64_t scaled_count)
      : BusbwCall(s.rotation.slots, true),
        sum(sum_call),
        scale(scale_function),
        ends(ends_of(s)),
        count(scaled_count),
        rank(static_cast<uint32_t>(s.rank)),
        ranks(static_cast<uint32_t>(s.ranks)) {}
  ~ScaledCall() override { delete sum; }

  BusbwCall* const sum;
  const ScaleFunction scale;
  const Ends ends;
  const int64_t count;
  const uint32_t rank;
  const uint32_t ranks;
};

// The mean: the sum, divided where it lies.
struct AveragedCall final : ScaledCall {
  using ScaledCall::ScaledCall;
  int32_t issue(uint64_t slot) const noexcept override {
    const int32_t code = sum->issue(slot);
    if (code == kOk) scale(ends.recv_at(slot), ends.recv_at(slot), count, rank, ranks);
    return code;
  }
};

// The sum of every rank's data times its scalar: the products go to the receive buffer and are summed in
// place.
struct PremultipliedCall final : ScaledCall {
  using ScaledCall::ScaledCall;
  int32_t issue(uint64_t slot) const noexcept override {
    scale(ends.send_at(slot), ends.recv_at(slot), count, rank, ranks);
    return sum->issue(slot);
  }
};

// The same reduction of what lies in the receive buffer. Only the root of a reduce takes MPI_IN_PLACE.
BusbwMpiSpec in_place(BusbwMpiSpec s) {
  if (s.collective == kReduce && s.rank != s.root) {
    s.send = s.recv;
    s.rotation.send_stride = s.rotation.recv_stride;
    s.recv = nullptr;
    s.rotation.recv_stride = 0;
  } else {
    s.send = s.in_place;
    s.rotation.send_stride = 0;
  }
  return s;
}

// ---- parts that run at once ----------------------------------------------------------------------------

// All are started before any is waited for. A request is an int or a pointer; either lies at the address.
struct MpiParts final : BusbwCall {
  using Wait = int (*)(void*, StatusStorage*);
  MpiParts(Parts calls, void* wait_function)
      : BusbwCall(calls.front()->slots, true),
        parts(std::move(calls)),
        wait(as_function<Wait>(wait_function)) {}

  int32_t issue(uint64_t slot) const noexcept override {
    uint64_t requests[kMostParts];
    size_t started = 0;
    int32_t code = kOk;
    for (; code == kOk && started < parts.size(); ++started) {
      code = parts[started]->start(slot, &requests[started]);
    }
    if (code != kOk) return code;  // the communicator is lost: what was started cannot be waited for
    for (size_t i = 0; i < started; ++i) {
      StatusStorage status;
      if (const int waited = wait(&requests[i], &status); waited != 0) code = waited;
    }
    return code;
  }
  const Parts parts;
  const Wait wait;
};

// ---- waiting asleep --------------------------------------------------------------------------------------

struct MpiSleeping final : BusbwCall {
  using Test = int (*)(void*, int*, StatusStorage*);
  MpiSleeping(BusbwCall* taken, void* test_function, int64_t pause_ns)
      : BusbwCall(taken->slots, true),
        call(taken),
        test(as_function<Test>(test_function)),
        pause{static_cast<time_t>(pause_ns / 1'000'000'000), static_cast<long>(pause_ns % 1'000'000'000)} {}

  int32_t issue(uint64_t slot) const noexcept override {
    uint64_t request = 0;  // an int or a pointer; either lies at the address
    if (const int32_t code = call->start(slot, &request); code != kOk) return code;
    for (;;) {
      int done = 0;
      StatusStorage status;
      const int code = test(&request, &done, &status);
      if (code != kOk || done != 0) return code;
      nanosleep(&pause, nullptr);
    }
  }
  const std::unique_ptr<BusbwCall> call;
  const Test test;
  const timespec pause;
};

// ---- from a spec to a call ------------------------------------------------------------------------------

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

constexpr int32_t kNoScale = -1;

template <template <class, class> class Reduction>
BusbwCall* make_reduction(const BusbwMpiSpec& s) {
  if (s.scale_op == kNoScale) return make<Reduction>(s);
  const ScaleFunction scale = scale_function(s.dtype, s.scale_op);
  if (scale == nullptr) return nullptr;
  const bool premultiplied = s.scale_op == pattern::kMulSum;
  BusbwCall* sum = make<Reduction>(premultiplied ? in_place(s) : s);
  if (sum == nullptr) return nullptr;
  if (premultiplied) {
    const int64_t blocks = s.collective == kReduceScatter ? s.ranks : 1;
    return new PremultipliedCall(s, sum, scale, s.send_count * blocks);
  }
  const bool has_result = s.collective != kReduce || s.rank == s.root;
  return has_result ? new AveragedCall(s, sum, scale, s.recv_count) : sum;
}

}  // namespace
}  // namespace busbw

BusbwCall* busbw_mpi_call(const BusbwMpiSpec* spec) {
  switch (spec->collective) {
    case kAllReduce:
    case kReduceScatter:
      return busbw::make_reduction<busbw::MpiReduction>(*spec);
    case kReduce:
      return busbw::make_reduction<busbw::MpiRootedReduction>(*spec);
    case kAllGather:
    case kAlltoall:
      return busbw::make<busbw::MpiExchange>(*spec);
    case kGather:
    case kScatter:
      return busbw::make<busbw::MpiRootedExchange>(*spec);
    case kBroadcast:
      return busbw::make<busbw::MpiBroadcast>(*spec);
    case kSendRecv:
    case kPermute:
      return busbw::make<busbw::MpiSendRecv>(*spec);
    case kAlltoallv:
      return busbw::make<busbw::MpiVariableExchange>(*spec);
    case kAllGatherv:
      return busbw::make<busbw::MpiVariableGather>(*spec);
    case kHypercube:
      return busbw::make<busbw::MpiHypercube>(*spec);
    case kBarrier:
      return busbw::make<busbw::MpiBarrier>(*spec);
    default:
      return nullptr;
  }
}

BusbwCall* busbw_mpi_parts(BusbwCall* const* parts, int32_t count, void* wait) {
  busbw::Parts taken = busbw::taken_over(parts, count);
  if (taken.empty() || wait == nullptr) return nullptr;
  for (const auto& part : taken) {
    if (!part->can_start()) return nullptr;
  }
  return new busbw::MpiParts(std::move(taken), wait);
}

BusbwCall* busbw_mpi_sleeping(BusbwCall* call, void* test, int64_t pause_ns) {
  std::unique_ptr<BusbwCall> taken(call);
  if (taken == nullptr || !taken->can_start() || test == nullptr || pause_ns <= 0) return nullptr;
  return new busbw::MpiSleeping(taken.release(), test, pause_ns);
}
