"""What one iteration of busbw's timing loop costs: the loop around a call that does nothing.

With k = 1 the clock is read after every call, with k = 1000 almost never, so the first is loop and clock, the
second the loop alone. A timed call of an MPI or NCCL function pays the same, on top of the function itself.

    python benchmarks/overhead/null_loop.py
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from busbw.machine.host import read_processors
from busbw.machine.native import core
from busbw.stats.interval import estimate

BOUND_NS = 50.0
CALLS_PER_SAMPLE = (1, 10, 100, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--looks", type=int, default=20)
    options = parser.parse_args()
    print(f"{read_processors().model}, load {os.getloadavg()[0]:.2f}")
    print(f"{'k':>6} {'ns per iteration':>17} {'95% interval':>14} {'fastest':>8}  bound {BOUND_NS:.0f} ns")
    call = core.Call.null()
    for k in CALLS_PER_SAMPLE:
        # A look's median is one observation: samples of one look share its state of caches and clocks.
        looks = np.array([np.median(call.time_host(k, options.samples, k)) / k for _ in range(options.looks)])
        result = estimate(looks, 0.95)
        verdict = "holds" if result.median <= BOUND_NS else "BROKEN"
        between = f"{result.low:.2f}-{result.high:.2f}"
        print(f"{k:>6} {result.median:>17.2f} {between:>14} {looks.min():>8.2f}  {verdict}")
    call.close()


if __name__ == "__main__":
    main()
