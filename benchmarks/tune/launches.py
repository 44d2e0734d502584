"""`busbw tune --knobs` on MPI beside every combination of the values: launches, and how much it leaves.

Values are planted (tests/faults/planted.c, a preloaded MPI_Allreduce that takes as long as two variables
say), so that the truth is known on a busy machine too: factors of 1.5 apart, in random order each time. All
combinations are measured once in each place (`busbw compare`), which says what a race saves in time. A race
that the output has is not made again.

    python benchmarks/tune/launches.py --races 5 --output planted.json
    ... --open-mpi PYTHON    # one that has the same packages and loads Open MPI
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from busbw_testing.environ import clean_environ  # noqa: E402
from busbw_testing.host_cluster import ENVIRON  # noqa: E402
from busbw_testing.mpi_ranks import YIELDING  # noqa: E402
from busbw_testing.namespaces import Hosts, seen_of_tmp  # noqa: E402
from busbw_testing.started import completed  # noqa: E402

from busbw.plan.setup_file import read_knobs  # noqa: E402

PLANTED = ROOT / "tests" / "faults" / "planted.c"
BLOCKS = 3
ALGORITHMS, SEGMENTS, FACTOR = 7, 4, 1.5
# Without dynamic rules Open MPI's other variables say nothing.
SHARED_CORES = {**ENVIRON, **YIELDING, "OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
WORDS = ("-b", "4K", "-e", "4K", "-c", "0", "-w", "1", "-n", "3", "--backend", "mpi")


@dataclass(frozen=True)
class Place:
    """Where ranks run, and by which MPI: the words of a command, and what its environment is."""

    name: str
    python: str
    where: tuple[str, ...]
    front: Any
    home: Path

    def busbw(self, words: Sequence[str], environ: dict[str, str]) -> str:
        """What a command printed."""
        sent = [word for name, value in environ.items() for word in ("--env", f"{name}={value}")]
        command = [self.python, "-m", "busbw", *words, *WORDS, *self.where, *sent]
        done = completed(self.front(command), clean_environ(BUSBW_HOME=str(self.home)), 3600)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stdout + done.stderr)
        return done.stdout

    def launches(self) -> int:
        """That were made here so far."""
        return sum(1 for _ in self.home.glob("*setups*/launches/*"))


@contextlib.contextmanager
def places(options: argparse.Namespace, folder: Path) -> Iterator[list[Place]]:
    """One host of four ranks, and four hosts that are network namespaces, each with each library."""
    pythons = {"mpich": sys.executable, "openmpi": options.open_mpi}
    shared = [folder, *(Path(python).parents[1] for python in pythons.values() if python), *seen_of_tmp()]
    with contextlib.ExitStack() as stack:
        found = []
        for name in options.places.split(","):
            where: tuple[str, ...] = ("--ranks", "4")
            front: Any = list
            if name == "hosts":
                (folder / "net").mkdir()
                net = stack.enter_context(Hosts(folder / "net", 4, private=["/tmp"], shared=shared))
                where = ("--on", "hosts", "--hosts", ",".join(net.names))
                front = lambda argv, net=net: net.command("h1", argv)  # noqa: E731
            for library in options.libraries.split(","):
                if pythons[library]:
                    home = folder / f"{name}-{library}"
                    found.append(Place(f"{library}, {name}", pythons[library], where, front, home))
        yield found


def planted_race(
    place: Place, shim: Path, folder: Path, seed: int, least_ms: float, made: list[dict[str, Any]]
) -> dict[str, Any]:
    """One race whose truth is known; how it is takes the middle algorithm and a small segment."""
    draw = random.Random(seed)
    algorithms = [round(1000 * least_ms * FACTOR**step) for step in range(ALGORITHMS)]
    segments = [f"{FACTOR**step:.3f}" for step in range(SEGMENTS)]
    as_it_is = {"PLANTED_ALGORITHM": algorithms[ALGORITHMS // 2], "PLANTED_SEGMENT": segments[1]}
    draw.shuffle(algorithms)
    draw.shuffle(segments)
    knobs = folder / "knobs.yaml"
    knobs.write_text(f"PLANTED_ALGORITHM: {algorithms}\nPLANTED_SEGMENT: [{', '.join(segments)}]\n")
    unset = {"PLANTED_UNSET_ALGORITHM": str(as_it_is["PLANTED_ALGORITHM"])}
    environ = {**SHARED_CORES, "LD_PRELOAD": str(shim), **unset}
    told = raced(place, knobs, environ)
    taken = {**as_it_is, **told["taken"]}
    took_us = float(taken["PLANTED_ALGORITHM"]) * float(taken["PLANTED_SEGMENT"])
    all_of_them = known(place, made) or exhaustive(place, knobs, environ, folder)
    return {
        "place": place.name,
        "seed": seed,
        **told,
        "regret": took_us / (1000 * least_ms) - 1,
        **all_of_them,
    }


def raced(place: Place, knobs: Path, environ: dict[str, str]) -> dict[str, Any]:
    """What a race took, and in how many launches and seconds."""
    before, began = place.launches(), time.monotonic()
    told = json.loads(place.busbw(tuned(knobs), environ))
    return {
        "load": os.getloadavg()[0],
        "taken": told["taken"],
        "confirmed": told["confirmed"],
        "launches": place.launches() - before,
        "seconds": round(time.monotonic() - began, 1),
    }


def known(place: Place, made: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What all combinations said and took in this place, if they were measured."""
    return next(
        (
            {name: value for name, value in race.items() if name.startswith("exhaustive")}
            for race in made
            if race["place"] == place.name
        ),
        None,
    )


def tuned(knobs: Path) -> tuple[str, ...]:
    return ("tune", "all_reduce", "--knobs", str(knobs), "--blocks", str(BLOCKS), "--format", "json")


def exhaustive(place: Place, knobs: Path, environ: dict[str, str], folder: Path) -> dict[str, Any]:
    """The fastest combination of the values, and what it took to see it."""
    values = read_knobs(knobs)
    picked = [[None, *tried] for tried in values.values()]
    combined = [
        {name: value for name, value in zip(values, each, strict=True) if value is not None}
        for each in itertools.product(*picked)
    ]
    before, began = place.launches(), time.monotonic()
    rows = compared(place, combined, folder / "all.yaml", environ)
    return {
        "exhaustive_best": combined[min(rows, key=lambda row: row[1])[0]],
        "exhaustive_launches": place.launches() - before,
        "exhaustive_seconds": round(time.monotonic() - began, 1),
    }


def compared(
    place: Place, setups: list[dict[str, str]], path: Path, environ: dict[str, str]
) -> list[tuple[int, float]]:
    """For each setup its number, and its time over the first's."""
    path.write_text(
        json.dumps(
            {"default": "s0", "setups": {f"s{number}": {"env": env} for number, env in enumerate(setups)}}
        )
    )
    words = ("compare", str(path), "--ops", "all_reduce", "--blocks", str(BLOCKS), "--format", "csv")
    told = csv.DictReader(place.busbw(words, environ).splitlines())
    rows = (
        (int(row["arm"][1:]), 1 / float(row["speedup"]))
        for row in told
        if row["placement"] == "out-of-place" and row["speedup"]
    )
    return [(0, 1.0), *rows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--races", type=int, default=5, help="in each place, by each library")
    parser.add_argument("--places", default="here,hosts")
    parser.add_argument("--libraries", default="mpich,openmpi")
    parser.add_argument("--open-mpi", default="", metavar="PYTHON")
    parser.add_argument(
        "--least-ms",
        type=float,
        default=20.0,
        help="what the fastest call takes: much more than ranks wait for a core",
    )
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    output: Path = options.output
    made: list[dict[str, Any]] = json.loads(output.read_text()) if output.exists() else []
    done = {(race["place"], race["seed"]) for race in made}
    with tempfile.TemporaryDirectory(dir=output.absolute().parent) as name:
        folder = Path(name)
        shim = folder / "planted.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, PLANTED, "-ldl"], check=True)
        with places(options, folder) as found:
            for seed, place in itertools.product(range(options.races), found):
                if (place.name, seed) in done:
                    continue
                race = planted_race(place, shim, folder, seed, options.least_ms, made)
                made.append(race)
                print(*race.values(), sep="  ", flush=True)
                output.write_text(json.dumps(made, indent=1) + "\n")
    good = sum(race["regret"] <= 0.02 for race in made)
    print(f"{good} of {len(made)} races within 2 %")
    for which in ("launches", "seconds"):
        share = sum(race[which] for race in made) / sum(race[f"exhaustive_{which}"] for race in made)
        print(f"{share:.0%} of the {which} of all combinations")


if __name__ == "__main__":
    main()
