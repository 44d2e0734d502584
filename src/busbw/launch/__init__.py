"""Plan to request (pure), request to processes (effect)."""
