"""Does the interval of one sweep hold the median of another sweep of the same launch?

    python benchmarks/gpu/within_launch.py --ranks 2 --sweeps 8 --launches 3 --output within.json
    python benchmarks/gpu/within_launch.py --backend mpi --last 64K --sweeps 3 --launches 1
    python benchmarks/gpu/within_launch.py --read within.json

Each launch is one `busbw run` whose ranks sweep all sizes again and again, each sweep with results of its
own. The table is of all ordered pairs of sweeps of a launch: how often the interval of one holds the other's
median, and how often the two intervals have nothing in common; by the interval that is printed, and by that
of the case's own passes alone.
"""

# ruff: noqa: PLC0415 (a rank blocks signals before numpy and others start threads)

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from busbw.model.case import LARGE

if TYPE_CHECKING:
    from busbw.rank.cases import Done, Session

SWEEPS, TOLD = "WITHIN_SWEEPS", "WITHIN_TOLD"  # variables of the ranks
Cases = list[dict[str, Any]]  # of all sweeps of a launch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--operation", default="all_reduce")
    parser.add_argument("--last", default="2G")
    parser.add_argument("--sweeps", type=int, default=8, help="of a launch; two or more")
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--output", type=Path, default=Path("within_launch.json"))
    parser.add_argument("--read", type=Path, help="a kept output, instead of measuring")
    options = parser.parse_args()
    if not options.read:
        options.output.write_text(json.dumps([launched(options) for _ in range(options.launches)]))
    print("\n".join(table(json.loads((options.read or options.output).read_text()))))


def launched(options: argparse.Namespace) -> Cases:
    sizes = ("-b", "8", "-e", options.last, "-f", "2", "--ranks", str(options.ranks))
    run = ("run", options.operation, *sizes, "--backend", options.backend)
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "launch.json"
        environ = {**os.environ, SWEEPS: str(options.sweeps), TOLD: str(told)}
        command = (sys.executable, __file__, "front", *run)
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
        found: Cases = json.loads(told.read_text())
    return found


def table(launches: list[Cases]) -> Iterator[str]:
    """Markdown: means over launches, and the worst of them."""
    yield "| sizes | interval | held | in the worst launch | disjoint | in the worst launch | half-width |"
    yield "|---|---|---|---|---|---|---|"
    for sizes, is_large in (("below 1 MiB", False), ("from 1 MiB", True)):
        parts = [[case for case in cases if (case["size_bytes"] >= LARGE) is is_large] for cases in launches]
        for kind, name in (("printed", "printed"), ("own", "by own passes")):
            found = [shares for part in parts if (shares := of_pairs(part, kind))]
            if found:
                held, disjoint, half = zip(*found, strict=True)
                shares = f"{fmean(held):.3f} | {min(held):.3f} | {fmean(disjoint):.3f} | {max(disjoint):.3f}"
                yield f"| {sizes} | {name} | {shares} | {fmean(half):.1%} |"


def of_pairs(cases: Cases, kind: str) -> tuple[float, float, float] | None:
    """The shares of pairs that are held and that are disjoint, and the median half-width; of one launch."""
    sweeps: dict[int, Cases] = defaultdict(list)
    for case in cases:
        if case[kind]:  # few samples have no interval
            sweeps[case["case"]].append(case)
    pairs = [pair for same in sweeps.values() for pair in permutations(same, 2)]
    if not pairs:
        return None
    held = [one[kind][0] <= other["time_ns"] <= one[kind][1] for one, other in pairs]
    apart = [one[kind][0] > other[kind][1] or one[kind][1] < other[kind][0] for one, other in pairs]
    return fmean(held), fmean(apart), median((e[kind][1] - e[kind][0]) / 2 / e["time_ns"] for e, _ in pairs)


def front() -> int:
    """The command ``busbw``, whose ranks are this program."""
    from busbw.launch import ahead

    ahead.RANK_COMMAND = (sys.executable, __file__, "rank")
    from busbw.__main__ import main as busbw

    sys.argv = ["busbw", *sys.argv[2:]]
    return busbw()


def rank() -> int:
    from busbw.rank import __main__ as program

    enter = program._live

    def live(*arguments: Any) -> int:  # noqa: ANN401
        from busbw.rank import cases

        sweep = cases.Session.results
        cases.Session.results = lambda session: again_and_again(session, sweep)  # type: ignore[method-assign]
        return enter(*arguments)

    program._live = live
    return program.main()


def again_and_again(session: Session, sweep: Callable[[Session], Iterator[Done]]) -> Iterator[Done]:
    """The run has the results of the last sweep; rank 0 keeps those of all."""
    told: Cases = []
    last: list[Done] = []
    for _ in range(int(os.environ[SWEEPS])):
        session._done, last = 0, list(sweep(session))
        for result, _ in last:
            size_bytes = session._plan.cases[result.case].size_bytes
            printed = None if result.low_ns is None else (result.low_ns, result.high_ns)
            intervals = {"printed": printed, "own": result.own_interval_ns}
            told.append(
                {"case": result.case, "size_bytes": size_bytes, "time_ns": result.time_ns, **intervals}
            )
    if session._given.world.rank == 0:
        Path(os.environ[TOLD]).write_text(json.dumps(told))
    yield from last


if __name__ == "__main__":
    role = {"front": front, "rank": rank}.get(" ".join(sys.argv[1:2]), main)
    sys.exit(role())
