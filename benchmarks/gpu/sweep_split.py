"""Where the seconds of a sweep go: starting, calls, what a visit of a case takes beside them, the end.

    python benchmarks/gpu/sweep_split.py --ranks 2 --launches 3 --output split.json
    python benchmarks/gpu/sweep_split.py --ranks 2 --backend null             # no calls: our own cost alone
    python benchmarks/gpu/sweep_split.py --read split.json

Each launch is `busbw run all_reduce -b 8 -e 2G -f 2`, run through sweep_rank.py, which notes the steps of
rank 0. Calls are all that it does between the first issue and the last completion of a look, untimed calls
before the timed ones included; waiting for a late rank is part of them. A visit is one pass of a case.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import alternated

SWEEP_RANK = Path(__file__).with_name("sweep_rank.py")
# What rank 0 has come to, and the row of the time until then.
MARKS = {
    "rank_began": "until rank 0 starts",
    "began": "until the first case",
    "ended": "the sweep",
    "recorded": "the end of the record",
    "closed": "communicator and buffers",
    "left": "the other ranks' end",
    "prompt": "processes, and the answer",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--last", default="2G")
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--world", default="auto", help="nccl: the control channel without MPI")
    parser.add_argument("--python", default=sys.executable, help="of another installation of busbw")
    parser.add_argument("--output", type=Path, default=Path("sweep_split.json"))
    parser.add_argument("--read", type=Path, help="a kept output, instead of measuring")
    options = parser.parse_args()
    if not options.read:
        options.output.write_text(json.dumps([*measured(options)]))
    print("\n".join(table(json.loads((options.read or options.output).read_text()))))


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    sweep = ["-b", "8", "-e", options.last, "-f", "2", "--ranks", str(options.ranks)]
    run = ["front", "run", "all_reduce", *sweep, "--backend", options.backend, "--world", options.world]
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "split.json"
        environ = {**alternated.busbw_environ(), "SWEEP_SPLIT": str(told)}
        for number in range(options.launches + 1):
            began_s = time.time()
            subprocess.run(
                [options.python, str(SWEEP_RANK), *run], env=environ, check=True, stdout=subprocess.DEVNULL
            )
            split = {"started": began_s, "prompt": time.time(), **json.loads(told.read_text())}
            if number:  # the first one has compiled everything
                yield split


def table(launches: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown: a row a part, a column a launch; steps also in ms a visit, and how often a visit has them."""
    heads = [f"launch {number + 1}" for number in range(len(launches))]
    yield f"| seconds of | {' | '.join(heads)} | ms a visit | times a visit |"
    yield "|---" * (len(launches) + 3) + "|"
    parts = [*map(outside, launches)]
    for name in parts[0]:
        yield f"| {name} | {' | '.join(f'{part[name]:.2f}' for part in parts)} | | |"
    visits = [launch["calls"]["visits"] for launch in launches]
    steps = {step for launch in launches for step in launch["spent"]}
    total = {step: sum(launch["spent"].get(step, 0.0) for launch in launches) for step in steps}
    for step in sorted(total, key=lambda step: (not step.startswith("calls"), -total[step])):
        seconds = [f"{launch['spent'].get(step, 0.0):.3f}" for launch in launches]
        often = sum(launch["calls"].get(step, 0) for launch in launches) / sum(visits)
        shown = f"{often:.2f}" if often else ""
        yield f"| {step} | {' | '.join(seconds)} | {total[step] / sum(visits) * 1e3:.3f} | {shown} |"
    beside = sum(seconds for step, seconds in total.items() if not step.startswith("calls"))
    yield f"| **beside the calls** | {' | '.join('' for _ in heads)} | {beside / sum(visits) * 1e3:.3f} | |"
    yield f"| visits | {' | '.join(map(str, visits))} | | |"


def outside(launch: dict[str, Any]) -> dict[str, float]:
    """Seconds of the whole, and until each of MARKS that the launch has."""
    marks = ["started", *(name for name in MARKS if name in launch)]
    parts = {MARKS[after]: launch[after] - launch[before] for before, after in pairwise(marks)}
    return {"the whole": launch["prompt"] - launch["started"], **parts}


if __name__ == "__main__":
    main()
