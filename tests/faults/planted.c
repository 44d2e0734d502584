/* MPI_Allreduce as a preloaded tool provides it, that takes as long as two variables say: PLANTED_ALGORITHM, a number
 * of us for each call (or wrong: fast, with a false element on rank 1; or hang: rank 1 does not come back), and
 * PLANTED_SEGMENT, by which it is multiplied. Without them: PLANTED_UNSET_ALGORITHM us, by 1.5. Handles are ints in MPICH and pointers in Open MPI: both fit. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int (*Reduce)(const void *, void *, int, void *, void *, void *);

static void *mpi_function(const char *name) {
  void *library = dlopen("libmpi.so.12", RTLD_LAZY | RTLD_NOLOAD);
  return dlsym(library ? library : dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD), name);
}

static const char *variable(const char *name, const char *unset) {
  const char *value = getenv(name);
  return value ? value : unset;
}

static void spend(double us) {
  struct timespec left = {(time_t)(us / 1e6), (long)(us * 1e3) % 1000000000};
  while (nanosleep(&left, &left)) {
  }
}

int MPI_Allreduce(const void *send, void *recv, int count, void *type, void *op, void *comm) {
  const char *algorithm = variable("PLANTED_ALGORITHM", getenv("PLANTED_UNSET_ALGORITHM")), *segment = variable("PLANTED_SEGMENT", "1.5");
  Reduce reduce = (Reduce)mpi_function("PMPI_Allreduce");
  int rank = 0;
  ((int (*)(void *, int *))mpi_function("PMPI_Comm_rank"))(comm, &rank);
  if (count < 256) return reduce(send, recv, count, type, op, comm); /* what busbw itself reduces */
  if (rank == 1 && strcmp(algorithm, "hang") == 0) pause();
  spend(atof(algorithm) * atof(segment));
  const int code = reduce(send, recv, count, type, op, comm);
  if (rank == 1 && strcmp(algorithm, "wrong") == 0) ((unsigned char *)recv)[22] ^= 0x40;
  return code;
}
