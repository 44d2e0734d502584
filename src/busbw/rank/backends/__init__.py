"""How a collective is issued. A backend hands the native loop a prepared call; it has no timing code."""
