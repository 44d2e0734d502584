"""Kubernetes: Jobs, JobSets and MPIJobs."""
