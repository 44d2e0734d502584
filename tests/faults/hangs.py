"""Hangs ranks at random moments, in every way, and compares what busbw says with what was done.

``PYTHONPATH=tests/support python tests/faults/hangs.py --cases 120 --result hangs.jsonl`` prints a line for
each case and a table, and ends with 1 where an innocent rank was named, something was left behind, or fewer
than 95 % were right. As root, with what the tests of hosts, Slurm and Kubernetes need. A case that is already
in the result is not run again. ``hangs.jsonl`` beside this file is that of the table in README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from busbw_testing.environ import clean_environ
from busbw_testing.marked import environs, first_of
from busbw_testing.open_mpi import make_open_mpi
from hang_places import PLACES, Place

from busbw.errors import BusbwError, ExitCode
from busbw.machine.processes import STOPPED_SECONDS
from busbw.rank.world.identity import identify

SHIM_SIGNAL: Final = 62
RANKS: Final = 3
# How a rank is hung. ``start``: stopped while it starts.
FAULTS: Final = ("stop", "kill", "inside", "before", "start", "size", "cut")
IN_SHIM: Final = ("inside", "before")
FIRST_ODD_CASE: Final = 16  # of more than 2 KiB, for which MPICH takes another algorithm than for the first
# Cases of a third of a second each, and many of them; without MPI no case ends.
THIRDS: Final = ("-f", "1.1", "--case-time", "300ms", "--precision", "0.0001%")
LONG: Final = {
    **dict.fromkeys(("mpich", "openmpi"), ("-b", "1K", "-e", "64K", *THIRDS)),
    "null": ("-b", "8", "-e", "64M", "-n", "10000000000000"),
}
# The library may finish the odd case with wrong data, and then all others follow.
WITH_ODD_CASE: Final = ("-b", "1K", "-e", "4K", *THIRDS)
ALLOWED_S: Final = 10.0  # beyond --stall, or beyond its multiple outside timed calls
PATIENCE_S: Final = 150.0
GONE_S: Final = 10.0
# What is to be said of the rank.
CLASSES: Final = {
    "stop": "is stopped",
    "kill": "killed|ended|gone",
    "inside": "is asleep|has not enqueued",
    "before": "has not entered",
    "start": "is stopped|never started|has not joined",
    "size": "is in all_reduce .* waits? in all_reduce",
    "cut": "the network",
}


@dataclass(frozen=True)
class Case:
    """What is done to which run, and when."""

    number: int
    place: str
    world: str
    fault: str
    victim: int
    delay_s: float


@dataclass(frozen=True)
class Shot:
    """What was said of it. ``outcome`` is right, or what is wrong."""

    case: Case
    seconds: float
    outcome: str
    said: str
    finished: int = 0

    @property
    def is_good(self) -> bool:
        return self.outcome == "right"


def plan(count: int, places: str, worlds: str, faults: str, seed: int) -> Iterator[Case]:
    """All kinds of faults, places and worlds in turn; victims and moments at random."""
    random_ = random.Random(seed)
    kinds = [
        (place, world, fault)
        for fault in faults.split(",")
        for place in places.split(",")
        for world in worlds.split(",")
        if not (world == "openmpi" and place in ("slurm", "kubernetes"))
        and not (fault in ("inside", "size") and world == "null")
        and not (fault == "cut" and place != "hosts")
    ]
    for number in range(count):
        place, world, fault = kinds[number % len(kinds)]
        least = int(fault == "size")  # rank 0 makes the plan for all
        victim, delay_s = random_.randrange(least, RANKS), round(random_.uniform(0, 2), 3)
        yield Case(number, place, world, fault, victim, delay_s)


# ---- the processes of a run ----------------------------------------------------------------------------


def rank_process(mark: str, rank: int) -> int | None:
    """The process of a rank, and not those that it has forked."""
    found = {}
    for pid, environ in environs(f"HANG_MARK={mark}").items():
        with contextlib.suppress(OSError, BusbwError, ValueError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            is_busbw = b"\0-m\0busbw.rank\0" in line or b"\0--deliver=" in line
            is_python = Path(os.fsdecode(line.split(b"\0")[0])).name.startswith("python")
            identity = identify(environ) if is_busbw and is_python else None
            if identity is not None and identity.rank == rank:
                found[pid] = identity
    return first_of(found)


def others_came(mark: str, victim: int) -> bool:
    """Whether the processes of all other ranks are there."""
    return all(rank_process(mark, rank) is not None for rank in range(RANKS) if rank != victim)


def shown(out: Path, event: str) -> int:
    """How many of these events the front has shown so far."""
    return out.read_text(errors="replace").count(f'"event":"{event}"')


# ---- one case ------------------------------------------------------------------------------------------


def shoot(case: Case, place: Place, folder: Path, shim: Path, stall_s: float) -> Shot:
    """One run with one fault."""
    mark = secrets.token_hex(8)
    out = folder / f"{case.number}.out"
    words = ["all_reduce", *(WITH_ODD_CASE if case.fault == "size" else LONG[case.world])]
    words += [
        *(["--stall", f"{stall_s:g}s"] if stall_s else []),
        "--format",
        "jsonl",
        "--env",
        f"HANG_MARK={mark}",
    ]
    words += [word for each in variables(case, shim) for word in ("--env", each)]
    run = place.start(case.world, words, out)
    try:
        with contextlib.ExitStack() as stack:
            planted = wait_and_plant(case, place, run, mark, out, stack)
            while case.fault == "start" and run.poll() is None and not others_came(mark, case.victim):
                time.sleep(0.05)  # nobody waits for it before
            finished, began_s = shown(out, "case"), time.monotonic()
            while case.fault == "size" and run.poll() is None:  # it hangs from its last case on
                if (now := shown(out, "case")) > finished:
                    finished, began_s = now, time.monotonic()
                time.sleep(0.05)
            code = run.wait(PATIENCE_S)
            seconds = time.monotonic() - began_s
    except subprocess.TimeoutExpired:
        said = out.with_suffix(".err").read_text(errors="replace")
        return Shot(case, PATIENCE_S, "did not end", said)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        left = end_marked(mark)
    said = out.with_suffix(".err").read_text(errors="replace")
    if not planted:
        return Shot(case, 0, "not planted", said)
    outcome = judge(case, code, said)
    if left:
        outcome = f"left {left} processes"
    elif outcome == "right" and seconds > limit_s(said, stall_s) + ALLOWED_S:
        outcome = "late"
    elif outcome == "right":
        outcome = judge_record(case, place, finished)
    if outcome == "right":
        said = "\n".join(re.findall(r"^error: .*|^# evidence no rank .*", said, re.MULTILINE))
    return Shot(case, round(seconds, 1), outcome, said, finished)


def variables(case: Case, shim: Path) -> list[str]:
    """What hangs a rank from inside."""
    if case.fault in IN_SHIM:
        return [f"LD_PRELOAD={shim}", f"HANG_FAULT={case.fault}"]
    if case.fault == "size":
        number = FIRST_ODD_CASE + int(case.delay_s * 4)
        path = f"{shim.parent}:{clean_environ()['PYTHONPATH']}"
        own = {"FAULT": case.fault, "RANK": case.victim, "CASE": number}
        return [f"PYTHONPATH={path}", *(f"HANG_{name}={value}" for name, value in own.items())]
    return []


def wait_and_plant(
    case: Case, place: Place, run: subprocess.Popen[bytes], mark: str, out: Path, stack: contextlib.ExitStack
) -> bool:
    """Hang it at its moment; False where the run had ended before."""
    wanted = {"null": "header"}.get(case.world, "case")
    pid = None
    deadline = time.monotonic() + PATIENCE_S
    while run.poll() is None and time.monotonic() < deadline:
        pid = pid or rank_process(mark, case.victim)
        if pid and (case.fault == "start" or shown(out, wanted)):
            break
        time.sleep(0.005 if case.fault == "start" else 0.05)
    time.sleep(case.delay_s / (4 if case.fault == "start" else 1))
    if case.fault == "size":
        return True
    if run.poll() is not None or pid is None:
        return False
    if case.fault == "cut":
        assert place.cut is not None
        stack.enter_context(place.cut())
        return True
    numbers = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "start": signal.SIGSTOP}
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, numbers.get(case.fault, SHIM_SIGNAL))
        return True
    return False


def end_marked(mark: str) -> int:
    """How many processes of the run are left after a while; they are ended."""
    deadline = time.monotonic() + GONE_S
    while (left := environs(f"HANG_MARK={mark}")) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def judge_record(case: Case, place: Place, finished: int) -> str:
    """Whether the newest record has the cases that had finished, and says what the error says."""
    newest = max(place.home.glob("2*/run.json"), key=lambda path: path.stat().st_mtime)
    record = json.loads(newest.read_text())
    kept = sum(result.get("status") in ("good", "wrong") for result in record.get("results", []))
    if kept < finished:
        return "lost finished cases"
    if case.fault == "before" and record["hang"]["states"][0]["state"] != "not entered":
        return "other class in the record"
    return "right"


def limit_s(said: str, stall_s: float) -> float:
    """For how long nothing moved before it was certain: outside timed calls three times --stall; a stop
    counts after some seconds by itself.
    """
    quiet = re.search(r"no rank on .* moved for (?:[\d.]+ to )?([\d.]+) s", said)
    if quiet is None:
        return max(stall_s, STOPPED_SECONDS) if "is stopped" in said else stall_s
    return min(float(quiet[1]), 3 * stall_s + 1)


def judge(case: Case, code: int, said: str) -> str:
    """Compare what was said with what was done."""
    found = re.search(r"^error: (.*)", said, re.MULTILINE)
    if case.fault == "size" and code == ExitCode.BAD_VERDICT:
        return "right"  # the library did not hang, and the check found wrong data
    if found is None:
        return f"nothing said, exit code {code}"
    words = found[1]
    named = re.match(r"ranks? (\d+)(?:, \d+| and)*", words)
    if case.fault == "cut":
        ok = named is None and re.search(CLASSES["cut"], words)
    elif named is None:
        return f"nobody named: {words}"
    else:
        ok = named[1] == str(case.victim) and re.search(CLASSES[case.fault], words)
    if named is not None and (case.fault == "cut" or int(named[1]) != case.victim):
        return f"innocent named: {words}"
    if not ok:
        return f"other class: {words}"
    return "right" if code == ExitCode.RANK_FAILED else f"exit code {code}"


# ---- all of them ---------------------------------------------------------------------------------------


def campaign(cases: list[Case], result: Path, stall_s: float, open_mpi: Path) -> list[Shot]:
    """Those that are not in the result yet, a place after the other."""
    shots = [Shot(Case(**each.pop("case")), **each) for each in map(json.loads, lines_of(result))]
    done = {shot.case for shot in shots}
    by_place = defaultdict(list)
    for case in cases:
        if case not in done:
            by_place[case.place].append(case)
    for name, todo in by_place.items():
        with tempfile.TemporaryDirectory(prefix="hangs-", dir="/tmp") as top:
            folder = Path(top)
            shim = folder / "shim" / "hang.so"
            shim.parent.mkdir()
            source = Path(__file__).with_name("hang_shim.c")
            shutil.copy(Path(__file__).with_name("meddle") / "sitecustomize.py", shim.parent)
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
            if any(case.world == "openmpi" for case in todo) and not (open_mpi / "bin/python").exists():
                make_open_mpi(open_mpi)
            with PLACES[name](folder, open_mpi) as place:
                for case in todo:
                    shot = shoot(case, place, folder, shim, stall_s)
                    shots.append(shot)
                    with result.open("a") as file:
                        file.write(json.dumps(asdict(shot)) + "\n")
                    show(shot)
    return shots


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def show(shot: Shot) -> None:
    case = shot.case
    what = f"{case.place} {case.world} {case.fault} rank {case.victim}"
    print(f"{case.number:3} {what}: {shot.seconds:.1f} s, {shot.outcome}", flush=True)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--worlds", default="mpich,openmpi,null")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stall", type=float, default=3.0, help="seconds")
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--open-mpi", type=Path, default=Path("/tmp/hangs-open-mpi"), help="a folder for it")
    options = parser.parse_args()
    cases = list(plan(options.cases, options.places, options.worlds, options.faults, options.seed))
    shots = campaign(cases, options.result, options.stall, options.open_mpi)
    table = defaultdict(list)
    for shot in shots:
        table[shot.case.place, shot.case.fault].append(shot.is_good)
    for (place, fault), good in sorted(table.items()):
        print(f"{place:10} {fault:6} {sum(good)} of {len(good)} right")
    right = sum(shot.is_good for shot in shots)
    bad = ("innocent", "left", "lost")
    print(f"{right} of {len(shots)} right, longest {max(shot.seconds for shot in shots):.1f} s")
    return int(right < 0.95 * len(shots) or any(shot.outcome.startswith(bad) for shot in shots))


if __name__ == "__main__":
    raise SystemExit(main())
