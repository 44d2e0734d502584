"""How long does a whole sweep take, beside nccl-tests?

`busbw run all_reduce -b 8 -e 2G -f 2`, with its passes, intervals and checks, alternates with nccl-tests' own
sweep of these sizes under mpirun, with its defaults but for -b, -e and -f. busbw has measured one row before,
so that it is compiled.

    python benchmarks/gpu/sweep_time.py --nccl-tests BUILD_DIR --ranks 2 --rounds 5
    python benchmarks/gpu/sweep_time.py --nccl-tests BUILD_DIR --ranks 2 --rounds 2 --ten
    python benchmarks/gpu/sweep_time.py --nccl-tests BUILD_DIR --ranks 2 --old OTHER_VENV/bin/python

--ten: ten operations in one launch of busbw against ten programs of nccl-tests. --old: another installation
of busbw takes its turns too. No round begins that would not end within --seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import alternated

from busbw.machine.native.nccl import load_nccl

NCCL_TESTS = "nccl-tests, mpirun"
TEN = (
    *("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather", "scatter"),
    *("sendrecv", "hypercube"),
)


def main() -> None:
    options = parsed()
    environ = alternated.busbw_environ()
    library = ""
    if options.backend == "nccl":
        library = load_nccl().path
        environ["LD_LIBRARY_PATH"] = f"{Path(library).parent}:{environ.get('LD_LIBRARY_PATH', '')}"
    arms = arms_of(options)
    for python in filter(None, (sys.executable, options.old)):
        one_row = ("run", "all_reduce", "-b", "8", "-e", "8", "-n", "20", "--backend", options.backend)
        alternated.run((python, "-m", "busbw", *one_row, "--ranks", str(options.ranks)), environ)
    taken = alternated.rounds(arms, environ, options.rounds, options.seconds)
    options.output.write_text(json.dumps(alternated.as_json(taken)))
    done = len(next(iter(taken.values())))
    what = "ten operations" if options.ten else "all_reduce"
    print(f"{what}, 8 B - {options.last}, {options.ranks} ranks, {done} rounds, {library or options.backend}")
    print("\n".join(alternated.lines(taken, NCCL_TESTS if NCCL_TESTS in taken else "")))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", type=Path, help="the folder of the programs; without it, busbw alone")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--ten", action="store_true")
    parser.add_argument("--old", help="the python of another installation of busbw")
    parser.add_argument("--last", default="2G")
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--output", type=Path, default=Path("sweep_time.json"))
    return parser.parse_args()


def arms_of(options: argparse.Namespace) -> dict[str, Sequence[Sequence[str]]]:
    """Name -> the commands of an arm."""
    sweep = ("-b", "8", "-e", options.last, "-f", "2")
    operations = TEN if options.ten else ("all_reduce",)
    run = ("-m", "busbw", "run", ",".join(operations), *sweep, "--ranks", str(options.ranks))
    own = (*run, "--backend", options.backend)
    arms: dict[str, Sequence[Sequence[str]]] = {"busbw": [(sys.executable, *own)]}
    if options.old:
        arms["busbw, old"] = [(options.old, *own)]
    if options.nccl_tests:
        mpirun = (options.mpirun, "-np", str(options.ranks))
        arms[NCCL_TESTS] = [
            (*mpirun, str(options.nccl_tests / f"{name}_perf"), *sweep) for name in operations
        ]
    return arms


if __name__ == "__main__":
    main()
