"""The order of ranks by switch, from a topology file, Slurm or node labels."""
