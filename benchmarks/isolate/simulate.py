"""Rounds, recall and false accusations of hunts in simulated fabrics, against every pair in turn.

Prints one line a case as a Markdown table; the same for the same seeds.
"""

from __future__ import annotations

import argparse
import time

from busbw.hunt.trial import trial
from busbw.model.hunt import Rules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--parts", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--noise", type=float, default=0.01, help="standard deviation of one test")
    parser.add_argument("--stalls", type=float, default=0.0, help="share of tests up to twice as long")
    parser.add_argument("--one-way", action="store_true", help="slow ones only send, or receive, slowly")
    options = parser.parse_args()
    print(f"{options.runs} hunts a case, noise {options.noise:.1%} a test, stalls {options.stalls:.1%}\n")
    heads = "N | slow | loss | rounds (most) | every pair | recall | accused wrongly | undecided | told"
    print(f"| {heads} | interval holds it | s/hunt |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for parts in options.parts:
        for bad in sorted({0, 1, 3, max(1, parts // 100)}):
            for loss in (0.05, 0.10) if bad else (0.0,):
                start_s = time.monotonic()
                how = {"stalls": options.stalls, "one_way": options.one_way}
                row = trial(Rules(), parts, bad, loss, options.noise, options.runs, **how)
                cost_s = (time.monotonic() - start_s) / options.runs
                recall = f"{row.named / row.slow:.4f}" if row.slow else ""
                told, held = (f"{row.told:.2%}", f"{row.held / row.named:.1%}") if row.named else ("", "")
                print(
                    f"| {parts} | {bad} | {loss:.0%} | {row.rounds:.2f} ({row.most_rounds}) |"
                    f" {row.every_pair} | {recall} | {row.accused} in {row.hunts_accusing} hunts |"
                    f" {row.undecided} | {told} | {held} | {cost_s:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
