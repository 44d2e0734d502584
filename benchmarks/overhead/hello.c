// The least that an MPI job does: start, meet once, say so, end. start.py builds it: its floor.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size, one = 1, ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d of %d ranks met\n", ranks, size);
  fflush(stdout);
  MPI_Finalize();
  return ranks == size ? 0 : 1;
}
