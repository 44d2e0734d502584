"""PyTorch's flight recorder: what each rank's last collectives were."""
