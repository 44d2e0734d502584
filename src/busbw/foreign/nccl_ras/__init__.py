"""NCCL's RAS: what it answers about a job's communicators."""
