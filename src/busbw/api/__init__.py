"""What ``import busbw`` offers to Python: runs as frames and plots, and the commands as functions."""
