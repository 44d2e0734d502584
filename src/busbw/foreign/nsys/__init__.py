"""NVIDIA Nsight Systems: what its exports say of a run."""
