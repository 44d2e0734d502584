"""The run folder on disk."""
