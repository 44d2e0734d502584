"""Who takes part in a run, and the small control traffic between the ranks."""
