"""Finding the slow part: rules that choose pair tests and judge them. Pure."""
