"""Slurm: the job script, its steps, its output and its end."""
