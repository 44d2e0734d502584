"""Numbers to numbers. Ranks need numpy only; scipy belongs to tests."""
