"""Numbers to numbers. Ranks need numpy only."""
