/* MPI_Allreduce as a preloaded tool provides it, with a fault that SHIM_FAULT names, in calls of SHIM_BYTES bytes.
 * Handles are ints, as in MPICH. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IN_PLACE ((void *)-1)

typedef int (*Reduce)(const void *, void *, int64_t, int, int, int);
typedef int (*ReduceInt)(const void *, void *, int, int, int, int);

static void *mpi_function(const char *name) {
  return dlsym(dlopen("libmpi.so.12", RTLD_LAZY | RTLD_NOLOAD), name);
}

static int reduce(const void *send, void *recv, int64_t count, int type, int op, int comm, int large) {
  if (large) return ((Reduce)mpi_function("PMPI_Allreduce_c"))(send, recv, count, type, op, comm);
  return ((ReduceInt)mpi_function("PMPI_Allreduce"))(send, recv, (int)count, type, op, comm);
}

/* The mantissa's low bits: 16 of a float, so that bfloat16 is left, 45 of a double, half of what others have. */
static void cut(unsigned char *data, int64_t count, int size) {
  const uint64_t lost = size == 8 ? (1ull << 45) - 1 : size == 4 ? 0xffff : 0xf;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    memcpy(&bits, data + i * size, size);
    bits &= ~lost;
    memcpy(data + i * size, &bits, size);
  }
}

/* The reduction without the last rank's contribution. */
static int dropped(const void *send, void *recv, int64_t count, int type, int op, int comm, int large) {
  int rank, ranks, others;
  ((int (*)(int, int *))mpi_function("PMPI_Comm_rank"))(comm, &rank);
  ((int (*)(int, int *))mpi_function("PMPI_Comm_size"))(comm, &ranks);
  ((int (*)(int, int, int, int *))mpi_function("PMPI_Comm_split"))(comm, rank == ranks - 1, 0, &others);
  const int code = reduce(send, recv, count, type, op, others, large);
  ((int (*)(int *))mpi_function("PMPI_Comm_free"))(&others);
  ((int (*)(void *, int, int, int, int))mpi_function("PMPI_Bcast"))(recv, (int)count, type, 0, comm);
  return code;
}

static int faulty(const void *send, void *recv, int64_t count, int type, int op, int comm, int large) {
  const char *fault = getenv("SHIM_FAULT");
  int rank = 0, size = 0;
  ((int (*)(int, int *))mpi_function("PMPI_Comm_rank"))(comm, &rank);
  ((int (*)(int, int *))mpi_function("PMPI_Type_size"))(type, &size);
  const int64_t bytes = count * size;
  if (bytes != atoll(getenv("SHIM_BYTES"))) return reduce(send, recv, count, type, op, comm, large);
  unsigned char *to = recv;
  if (strcmp(fault, "dropped contribution") == 0) return dropped(send, recv, count, type, op, comm, large);
  if (strcmp(fault, "sleep") == 0 && rank == 1) sleep(600);
  if (strcmp(fault, "stale") == 0 && rank == 1) {
    void *elsewhere = malloc(bytes);
    const int code = reduce(send == IN_PLACE ? recv : send, elsewhere, count, type, op, comm, large);
    free(elsewhere);
    return code;
  }
  if (strcmp(fault, "truncated mantissa") == 0) {
    void *own = malloc(bytes);
    memcpy(own, send == IN_PLACE ? recv : send, bytes);
    cut(own, count, size);
    const int code = reduce(own, recv, count, type, op, comm, large);
    free(own);
    return code;
  }
  const int code = reduce(send, recv, count, type, op, comm, large);
  if (rank != 1) return code;
  if (strcmp(fault, "last bit") == 0) to[3 * size] ^= 1;
  /* Of every case the first call is timed and the second one checked. */
  if (strcmp(fault, "later call only") == 0) {
    static int64_t seen = 0;
    static int last_type = -1, last_op = -1, last_place = -1;
    const int place = send == IN_PLACE;
    if (type != last_type || op != last_op || place != last_place) seen = 0;
    last_type = type, last_op = op, last_place = place;
    if (++seen > 4) to[3 * size] ^= 1;
  }
  if (strcmp(fault, "past the end") == 0) memset(to + bytes, 0x5a, 16);
  if (strcmp(fault, "before the start") == 0) memset(to - 16, 0x5a, 16);
  if (strcmp(fault, "send buffer changed") == 0 && send != IN_PLACE) ((unsigned char *)send)[5] ^= 1;
  return code;
}

int MPI_Allreduce(const void *send, void *recv, int count, int type, int op, int comm) {
  return faulty(send, recv, count, type, op, comm, 0);
}

int MPI_Allreduce_c(const void *send, void *recv, int64_t count, int type, int op, int comm) {
  return faulty(send, recv, count, type, op, comm, 1);
}

/* Of calls that are started together (--coalesce, streams): done at once. */
int MPI_Iallreduce(const void *send, void *recv, int count, int type, int op, int comm, int *request) {
  *request = 0x2c000000; /* MPI_REQUEST_NULL */
  return faulty(send, recv, count, type, op, comm, 0);
}
