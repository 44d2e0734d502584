"""Frozen values; no input or output, no foreign library."""
