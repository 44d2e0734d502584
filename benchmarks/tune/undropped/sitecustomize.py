"""In PYTHONPATH, ranks measure every arm to its end: no arm leaves a race."""

from busbw.stats import race

race.PASSES = (float("inf"),)  # type: ignore[misc]
