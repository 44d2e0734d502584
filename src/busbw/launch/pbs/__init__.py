"""PBS: a job script with mpiexec or aprun, and a job that is joined."""
