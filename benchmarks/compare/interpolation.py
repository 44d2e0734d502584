"""How far interpolation is off: each point of our own curves, from its two neighbours, a factor of 4 apart.

    python benchmarks/compare/interpolation.py

Prints how many points lie below the bound of 90 % (single values) that the interpolated value would give, and
the worst. Deterministic: it reads the curves that busbw ships.
"""

from __future__ import annotations

import math
from itertools import pairwise

from busbw.judge.references.load import built_in

BOUND = 0.90


def main() -> None:
    shares = []
    for curve in built_in():
        if curve.kind != "own":
            continue
        for placement in {point.placement for point in curve.points}:
            points = sorted((p for p in curve.points if p.placement == placement), key=lambda p: p.size_bytes)
            for (below, middle), (_, above) in pairwise(pairwise(points)):
                if above.size_bytes > 4 * below.size_bytes:
                    continue
                part = math.log(middle.size_bytes / below.size_bytes) / math.log(
                    above.size_bytes / below.size_bytes
                )
                ends = math.log(below.busbw_gb_per_s), math.log(above.busbw_gb_per_s)
                shares.append(middle.busbw_gb_per_s / math.exp(ends[0] + part * (ends[1] - ends[0])))
    low = sum(share < BOUND for share in shares)
    print(
        f"{low} of {len(shares)} points below {BOUND:.0%} of the interpolated value; worst {min(shares):.3f}"
    )


if __name__ == "__main__":
    main()
