"""One row: from the command to the table's first line and to the prompt, ours beside nccl-tests', in turn.

    python benchmarks/gpu/start.py --nccl-tests BUILD_DIR --ranks 4 --rounds 5

Without --nccl-tests only ours; with --backend mpi ours on CPU ranks, and with --imb and --plain beside
Intel's benchmark and a script of mpi4py and numpy under the same mpiexec; with --old PYTHON also another
installation of busbw. CPU seconds are those of all processes of a command.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import alternated
from fidelity import environ as with_library

from busbw.machine.native.nccl import load_nccl

SWEEP = ("-b", "8", "-e", "8", "-n", "20")
PLAIN = Path(__file__).parent.parent / "cpu" / "plain_row.py"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", type=Path)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300.0, help="no round begins that would end later")
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--imb", type=Path, help="IMB-MPI1, built with the mpicc of the mpiexec on PATH")
    parser.add_argument("--plain", action="store_true", help="benchmarks/cpu/plain_row.py beside")
    parser.add_argument("--old", help="the python of another installation of busbw")
    parser.add_argument("--output", type=Path, help="a JSON file of all seconds")
    options = parser.parse_args()
    library = load_nccl() if options.backend == "nccl" else None
    name = f"NCCL {library.version}" if library else f"backend {options.backend}"
    environ = alternated.busbw_environ()
    if library:
        environ["LD_LIBRARY_PATH"] = with_library(library.path)["LD_LIBRARY_PATH"]
    arms = arms_of(options)
    for arm, (command,) in list(arms.items()):  # once before: compiled, and read from disk
        try:
            alternated.run(command, environ)
        except SystemExit as error:
            print(f"without {arm}: {error}")
            del arms[arm]
    taken = alternated.rounds(arms, environ, options.rounds, options.seconds)
    if options.output:
        options.output.write_text(json.dumps(alternated.as_json(taken)))
    done = len(next(iter(taken.values())))
    print(f"{name}, {options.ranks} ranks, one row, {done} rounds")
    print("\n".join(alternated.lines(taken)))


def arms_of(options: argparse.Namespace) -> dict[str, Sequence[Sequence[str]]]:
    ranks = str(options.ranks)
    run = ("-m", "busbw", "run", "all_reduce", *SWEEP, "--backend", options.backend)
    arms: dict[str, Sequence[Sequence[str]]] = {"busbw": [(sys.executable, *run, "--ranks", ranks)]}
    if options.old:
        arms["busbw, old"] = [(options.old, *run, "--ranks", ranks)]
    mpiexec = ("mpiexec", "-n", ranks)
    if options.imb:
        sizes = ("-msglog", "3:3", "-iter", "20", "-iter_policy", "off", "-npmin", ranks)
        arms["IMB-MPI1"] = [(*mpiexec, str(options.imb), "Allreduce", *sizes)]
    if options.plain:
        arms["mpi4py and numpy"] = [(*mpiexec, sys.executable, str(PLAIN))]
    if options.nccl_tests:
        perf = str(options.nccl_tests / "all_reduce_perf")
        arms["nccl-tests, mpirun"] = [("mpirun", "-np", ranks, perf, *SWEEP)]
        arms["nccl-tests, one process"] = [(perf, "-g", ranks, *SWEEP)]
        # Open MPI gives its ranks a terminal: --wide has the same rows there.
        arms["busbw, mpirun"] = [("mpirun", "-np", ranks, sys.executable, *run, "--wide")]
    return arms


if __name__ == "__main__":
    main()
