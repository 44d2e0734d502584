"""Settings to plan: pure expansion."""
