"""OSU micro-benchmarks and Intel MPI Benchmarks: tables in, the OSU table out."""
