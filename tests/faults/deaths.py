"""Kills and stops ranks at random moments and compares what busbw says with what was done.

``python tests/faults/deaths.py --kills 40 --stops 20`` prints a line for each shot and a table, and ends with
1 where a wrong rank was named, or something was left in /dev/shm or /tmp. Where others use these folders,
start it in a mount namespace of its own, with an empty file system on each.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

BUSBW = (sys.executable, "-m", "busbw", "run", "--ranks", "3", "--stall", "5s")
LONG = ("all_reduce", "-b", "8", "-e", "4K", "-n", "200000")
ENDLESS = ("all_reduce", "-b", "8", "-e", "64M", "-n", "10000000000000")
SHORT = ("all_reduce", "-b", "8", "-e", "64", "-n", "50")
WORLDS = {"mpi": ("--backend", "mpi"), "null": ("--backend", "null", "--world", "nccl")}
PHASES = ("starting", "joining", "measuring", "end")
# MPI's, UCX's and NCCL's files in shared memory, hydra's and busbw's own in /tmp.
LEFT = re.compile(r"(mpich_|ucx_shm_|nccl-|hydra_|busbw).*")
PATIENCE_S = 90.0
TRIES = 8


@dataclass(frozen=True)
class Shot:
    """What was done, and what was said of it."""

    kind: str
    world: str
    phase: str
    victim: int
    seconds: float
    outcome: str  # right, complete (the record was whole), or what is wrong

    @property
    def is_good(self) -> bool:
        return self.outcome in ("right", "complete")


def listed(folder: str) -> list[str]:
    """The names of interest in a folder."""
    return [path.name for path in Path(folder).iterdir() if LEFT.fullmatch(path.name)]


def files() -> set[str]:
    """What is in the folders that are to be as before."""
    folders = ("/dev/shm", "/tmp")
    return {f"{folder}/{name}" for folder in folders for name in listed(folder)}


def rank_process(home: str, rank: int) -> int | None:
    """The process of a rank of the run with this home, seen from outside."""
    wanted = {f"PMI_RANK={rank}".encode(), f"BUSBW_RANK={rank}".encode()}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"BUSBW_HOME={home}".encode() in words and wanted & set(words):
            return int(folder.name)
    return None


def wait_for_phase(phase: str, home: str, random_: random.Random) -> None:
    """The rank's process is there; wait for the phase, and for a random moment of it."""
    deadline = time.monotonic() + PATIENCE_S
    if phase in ("measuring", "end"):
        wanted = r'"complete"' if phase == "end" else r'"good"'
        while time.monotonic() < deadline:
            texts = [path.read_text() for path in Path(home).glob("*/run.json")]
            if any(re.search(r'"world": ?\{' if phase == "measuring" else wanted, text) for text in texts):
                break
            time.sleep(0.002)
    least, most = {"starting": (0, 0.1), "joining": (0.1, 0.8), "measuring": (0, 2), "end": (0, 0.02)}[phase]
    time.sleep(random_.uniform(least, most))


def shoot(kind: str, world: str, phase: str, victim: int, random_: random.Random) -> Shot | None:
    """One run with one shot; None where the run was over before."""
    before = files()
    with tempfile.TemporaryDirectory(prefix="deaths-") as home:
        endless = LONG if world == "mpi" else ENDLESS
        words = (*BUSBW, *WORLDS[world], *(SHORT if phase == "end" else endless))
        run = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"BUSBW_HOME": home},
        )
        pid = None
        while pid is None and run.poll() is None:
            pid = rank_process(home, victim)
        wait_for_phase(phase, home, random_)
        try:
            os.kill(pid or 0, signal.SIGKILL if kind == "kill" else signal.SIGSTOP) if pid else None
        except ProcessLookupError:
            pid = None
        began_s = time.monotonic()
        _, err = run.communicate(timeout=PATIENCE_S)
        seconds = time.monotonic() - began_s
    if pid is None:
        return None
    outcome = judge(kind, victim, run.returncode, err)
    if phase != "end" and outcome == "complete":
        outcome = "not noticed"
    if left := files() - before:
        outcome = f"left {', '.join(sorted(left))}"
    return Shot(kind, world, phase, victim, seconds, outcome)


def judge(kind: str, victim: int, code: int, err: str) -> str:
    """Compare what was said with what was done."""
    # Who is stopped in its first moments has no page, and no host is known.
    how = "(is stopped|never started)" if kind == "stop" else "(was killed by SIGKILL|ended first)"
    said = re.search(r"^error: (.*)", err, re.MULTILINE)
    if said is None:
        return "complete" if code == 0 else f"nothing said, exit code {code}"
    is_right = re.match(rf"rank {victim}( on {re.escape(socket.gethostname())}\b.*)? {how}", said[1])
    return "right" if is_right and code == 5 else said[1]


def campaign(kills: int, stops: int, seed: int) -> list[Shot]:
    """All shots, worlds and phases in turn, victims and moments at random."""
    random_ = random.Random(seed)
    kinds = ["kill"] * kills + ["stop"] * stops
    places = [(world, phase) for phase in PHASES for world in WORLDS]
    shots = []
    for number, kind in enumerate(kinds):
        world, phase = places[number % len(places)]
        tries = (shoot(kind, world, phase, random_.randrange(3), random_) for _ in range(TRIES))
        shot = next((each for each in tries if each is not None), None)
        if shot is None:
            continue  # ranks of this world are gone with their record
        shots.append(shot)
        print(f"{kind} {world} {phase} rank {shot.victim}: {shot.seconds:.1f} s, {shot.outcome}", flush=True)
    return shots


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shots = campaign(options.kills, options.stops, options.seed)
    table = Counter((shot.kind, shot.world, shot.phase, "good" if shot.is_good else "bad") for shot in shots)
    for kind in ("kill", "stop"):
        for world in WORLDS:
            for phase in PHASES:
                good, bad = (table[kind, world, phase, word] for word in ("good", "bad"))
                print(f"{kind:5} {world:5} {phase:10} {good} right, {bad} wrong")
    return int(any(not shot.is_good for shot in shots))


if __name__ == "__main__":
    raise SystemExit(main())
