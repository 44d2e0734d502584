"""busbw's native loop against a plain C loop around the same MPI call, in the same processes, alternated.

Each launch starts ranks under the bundled mpiexec. Per case both loops run on one communicator, the same
buffers and the same rotation, in ABBA blocks (then BAAB, and so on), with one reduction for both: per sample
of k calls the maximum over ranks, then the median over the samples of a visit. A block (two pairs) gives one
log-ratio. Launches are repeated until every case has at least --launches of them and the 95 % interval of its
median ratio is within +-1 %.

    python benchmarks/cpu/fidelity.py --output fidelity.json

What separate launches of the plain loop differ by is shown beside: it is why the arms alternate within one
launch.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from plain_loop import PlainLoop, build

from busbw.machine.host import read_processors
from busbw.machine.mpi import find_mpi, library_version_text
from busbw.model.case import Case
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import Limits, Plan, Timing
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.mpi import MpiBackend, MpiCase
from busbw.rank.measure import Conditions, warm_up
from busbw.rank.world.base import World
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create
from busbw.stats.interval import estimate
from busbw.units import format_size, parse_size

BOUND, HALF_WIDTH, CONFIDENCE = 0.02, 0.01, 0.95
# One visit of an arm lasts about this long, between these numbers of samples: short, so that whatever else
# the machine does meets both arms.
VISIT_NS, LEAST_SAMPLES, MOST_SAMPLES = 2e6, 3, 512
LEAST_BLOCKS, MOST_BLOCKS = 8, 200
CHECK_SEED = 7

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--ops", default="all_reduce,all_gather,sendrecv")
    parser.add_argument("--sizes", default="8,1K,64K,1M,16M")
    parser.add_argument("--launches", type=int, default=5, help="at least this many")
    parser.add_argument("--most-launches", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="about this long per case and launch")
    parser.add_argument("--output", type=Path, default=Path("fidelity.json"))
    # Set for the ranks that the script starts.
    parser.add_argument("--rank-library", help=argparse.SUPPRESS)
    parser.add_argument("--rank-keys", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_library:
        measure(options)
    else:
        run_launches(options)


# ---- the front process ------------------------------------------------------------------------------


def run_launches(options: argparse.Namespace) -> None:
    library = find_mpi(os.environ).library
    if library is None or not library.mpiexec:
        raise SystemExit("no MPI library with an mpiexec: pip install mpich")
    rows: list[Row] = []
    load_before = os.getloadavg()
    with tempfile.TemporaryDirectory() as name:
        plain = build(str(Path(library.mpiexec).with_name("mpicc")), Path(name))
        keys: list[str] = []  # empty: all cases
        for launch in range(options.most_launches):
            command = [library.mpiexec, "-n", str(options.ranks), sys.executable, *sys.argv]
            ranks = [*command, "--rank-library", str(plain), "--rank-keys", ",".join(keys)]
            done = subprocess.run(ranks, check=True, stdout=subprocess.PIPE, text=True)
            rows += [{**row, "launch": launch} for row in json.loads(done.stdout)]
            print(f"launch {launch + 1} done", file=sys.stderr)
            if launch + 1 >= options.launches:
                keys = [key for key, of in by_case(rows).items() if interval(of)[1] > HALF_WIDTH]
                if not keys:
                    break
    head = {
        "processor": read_processors().model,
        "cores": os.cpu_count(),
        "mpi": " ".join(library_version_text(Path(library.path)).splitlines()[0].split()),
        "ranks": options.ranks,
        "load_before": load_before,
        "load_after": os.getloadavg(),
    }
    lines = ",\n".join(json.dumps(row) for row in rows)
    options.output.write_text(f'{json.dumps(head)[:-1]}, "rows": [\n{lines}\n]}}\n')
    print_table(head, rows)


def by_case(rows: list[Row]) -> dict[str, list[Row]]:
    cases: dict[str, list[Row]] = {}
    for row in rows:
        cases.setdefault(row["key"], []).append(row)
    return cases


def interval(launches: list[Row]) -> tuple[float, float]:
    """(median log-ratio over all blocks, half-width of its 95 % interval)."""
    result = estimate(np.concatenate([row["log_ratios"] for row in launches]), CONFIDENCE)
    return result.median, (result.high - result.low) / 2


def print_table(head: Row, rows: list[Row]) -> None:
    machine = f"{head['ranks']} ranks on {head['cores']} x {head['processor']}, {head['mpi']}"
    print(f"{machine}, load before {head['load_before'][0]:.2f}, after {head['load_after'][0]:.2f}")
    print(
        f"{'':>18} {'k':>4} {'plain us':>9} {'ratio':>7} {'+-95%':>6} {'launches':>8} {'pairs':>5}"
        f" {'ratio by launch':>15} {'launches differ':>15}  verdict"
    )
    for key, of in by_case(rows).items():
        ratio, half = interval(of)
        plain = [row["plain_us"] for row in of]
        each = [math.exp(float(np.median(row["log_ratios"]))) for row in of]
        pairs = sum(2 * len(row["log_ratios"]) for row in of)
        print(
            f"{key:>18} {of[0]['k']:>4} {np.median(plain):>9.2f} {math.exp(ratio):>7.4f} {half:>6.2%}"
            f" {len(of):>8} {pairs:>5} {f'{min(each):.3f}-{max(each):.3f}':>15}"
            f" {max(plain) / min(plain) - 1:>15.1%}  {verdict(ratio, half)}"
        )


def verdict(ratio: float, half: float) -> str:
    if half > HALF_WIDTH:
        return "wide"
    return "same" if abs(ratio) <= BOUND else "DIFFERS"


# ---- a rank -----------------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> None:
    world = create(identify(os.environ), "mpi", lambda failure: os._exit(5))
    sizes = [parse_size(text) for text in options.sizes.split(",")]
    cases = cases_of(options.ops.split(","), sizes, world.size)
    backend = MpiBackend(Plan("mpi", tuple(cases), max(sizes), Limits(), 0, 0))
    backend.connect(world)
    library = ctypes.CDLL(options.rank_library)
    cost_ns = float(world.max(np.array([backend.timing_cost_ns]))[0])
    wanted = set(options.rank_keys.split(",")) - {""} or {key_of(case) for case in cases}
    # Launches that repeat only the noisy cases last as long as the others.
    seconds = options.seconds * len(cases) / len(wanted)
    rows = [
        compare(case, backend, library, world, cost_ns, seconds) for case in cases if key_of(case) in wanted
    ]
    if world.rank == 0:
        print(json.dumps(rows))
    world.barrier()
    backend.close()
    world.close()


def cases_of(ops: list[str], sizes: list[int], ranks: int) -> list[Case]:
    """Out of place. Where a size rounds to nothing (all_gather: shares of 16 bytes), the least size."""
    cases: list[Case] = []
    for op in ops:
        for size in sizes:
            for size_bytes in (size, 16 * ranks):
                grid = Grid([collective(op)], [data_type("float")], [reduce_op("sum")], [0], [size_bytes])
                case = expand(grid, ranks, "mpi")[0]
                if case.size_bytes:
                    cases.append(case)
                    break
    return cases


def key_of(case: Case) -> str:
    return f"{case.collective} {format_size(case.size_bytes)}"


def compare(
    case: Case, backend: MpiBackend, library: ctypes.CDLL, world: World, cost_ns: float, seconds: float
) -> Row:
    """Alternated blocks of one case on this launch."""
    prepared = backend.prepare(case)
    plain = PlainLoop.of(library, case.collective, prepared.spec)
    require_right(plain, prepared, world)
    given = Conditions(world, Limits(), Timing(), cost_ns, max_samples_per_look=4096)
    pace = warm_up(prepared, given, Limits())
    samples = int(np.clip(VISIT_NS / (pace.k * pace.call_ns), LEAST_SAMPLES, MOST_SAMPLES))
    block_ns = 4 * (samples + 1) * pace.k * pace.call_ns
    blocks = int(np.clip(seconds * 1e9 / block_ns, LEAST_BLOCKS, MOST_BLOCKS))

    def visit(arm: str) -> float:
        world.barrier()
        loop = plain.time if arm == "plain" else lambda *look: prepared.time(*look).elapsed_ns
        return float(np.median(world.max(loop(pace.k, samples, pace.k)))) / pace.k

    ratios, plain_ns = [], []
    for block in range(blocks):
        first, second = ("plain", "busbw") if block % 2 == 0 else ("busbw", "plain")
        times = [(arm, visit(arm)) for arm in (first, second, second, first)]
        logs = {arm: np.mean([math.log(t) for a, t in times if a == arm]) for arm in (first, second)}
        ratios.append(round(float(logs["busbw"] - logs["plain"]), 5))
        plain_ns += [t for arm, t in times if arm == "plain"]
    prepared.close()
    return {
        "key": key_of(case),
        "k": pace.k,
        "samples": samples,
        "plain_us": float(np.median(plain_ns)) / 1e3,
        "log_ratios": ratios,
    }


def require_right(plain: PlainLoop, prepared: MpiCase, world: World) -> None:
    """The plain loop must move the very data that busbw's loop moves: busbw's check says so."""
    prepared.load(CHECK_SEED, 0)
    world.barrier()
    plain.time(0, 1, 1)
    if int(world.sum(np.array([prepared.check(CHECK_SEED, 0).wrong]))[0]):
        raise SystemExit("the plain loop does not do what the case says")


if __name__ == "__main__":
    main()
