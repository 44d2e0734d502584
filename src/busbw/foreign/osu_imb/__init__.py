"""OSU micro-benchmarks and Intel MPI Benchmarks: their tables read."""
