"""Finding the slow part: rules that choose pair tests and judge them, and a fabric to try them on. Pure."""
