// The loop that a C programmer writes around an MPI collective: the yardstick of fidelity.py, which builds it
// with the mpicc of the MPI library that busbw measures. It shares no code with busbw's own loop.
#define _POSIX_C_SOURCE 199309L  // clock_gettime
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

// Mirrored by PlainCall in fidelity.py. Slot s of the rotation starts s strides into a buffer.
struct plain_call {
  char *send, *recv;
  size_t send_stride, recv_stride, slots;  // bytes, bytes, number
  int send_count, recv_count;
  int send_to, recv_from;
  MPI_Datatype datatype;
  MPI_Op op;
  MPI_Comm comm;
};

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Defines a function that makes `lead` untimed calls, then times `samples` x `k` calls into elapsed_ns. CALL
// is written out in each loop, so the compiler sees a direct call.
#define DEFINE_LOOP(NAME, CALL)                                                                      \
  int NAME(const struct plain_call* c, size_t lead, size_t samples, size_t k, int64_t* elapsed_ns) { \
    size_t slot = 0;                                                                                 \
    for (size_t i = 0; i < lead; ++i) {                                                              \
      const char* send = c->send + slot * c->send_stride;                                            \
      char* recv = c->recv + slot * c->recv_stride;                                                  \
      int code = CALL;                                                                               \
      if (code != MPI_SUCCESS) return code;                                                          \
      if (++slot == c->slots) slot = 0;                                                              \
    }                                                                                                \
    for (size_t s = 0; s < samples; ++s) {                                                           \
      int64_t start = now_ns();                                                                      \
      for (size_t i = 0; i < k; ++i) {                                                               \
        const char* send = c->send + slot * c->send_stride;                                          \
        char* recv = c->recv + slot * c->recv_stride;                                                \
        int code = CALL;                                                                             \
        if (code != MPI_SUCCESS) return code;                                                        \
        if (++slot == c->slots) slot = 0;                                                            \
      }                                                                                              \
      elapsed_ns[s] = now_ns() - start;                                                              \
    }                                                                                                \
    return MPI_SUCCESS;                                                                              \
  }

DEFINE_LOOP(plain_all_reduce, MPI_Allreduce(send, recv, c->send_count, c->datatype, c->op, c->comm))
DEFINE_LOOP(plain_all_gather,
            MPI_Allgather(send, c->send_count, c->datatype, recv, c->recv_count, c->datatype, c->comm))
DEFINE_LOOP(plain_sendrecv, MPI_Sendrecv(send, c->send_count, c->datatype, c->send_to, 0, recv, c->recv_count,
                                         c->datatype, c->recv_from, 0, c->comm, MPI_STATUS_IGNORE))
