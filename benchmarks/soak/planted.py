"""Faults are planted in real soaks of two CPU ranks: are they found, and does memory stay?

First wrong data, which end a soak. Then a long soak in which a rank is stopped for 2 s and later has to share
the core of the other one for a while.

    python benchmarks/soak/planted.py [--time 1800] [--shared 180]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

SHIM: Final = Path(__file__).parents[2] / "tests/faults/shim.c"
SOAK: Final = (sys.executable, "-m", "busbw", "soak", "all_reduce", "--ranks", "2", "--backend", "mpi")
WRONG_CALL: Final = 20_000
STOPPED_S: Final = 2.0


class Soak:
    """One that runs, with its record."""

    def __init__(self, home: Path, *words: str, **environ: str) -> None:
        self.home = home
        own = {**os.environ, "BUSBW_HOME": str(home), **environ}
        self.process = subprocess.Popen([*SOAK, *words], env=own, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)  # fmt: skip

    def record(self) -> dict[str, Any]:
        """Of the newest run; empty before there is one."""
        files = sorted(self.home.glob("2*/run.json"))
        try:
            found: dict[str, Any] = json.loads(files[-1].read_text()) if files else {}
        except ValueError:  # just being written
            return self.record()
        return found

    def ranks(self) -> list[dict[str, Any]]:
        """Once they measure."""
        while not (found := (self.record().get("world") or {}).get("ranks")):
            time.sleep(0.5)
        return list(found)


def resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def run_on(pid: int, cpus: set[int]) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cpus)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def print_wrong(folder: Path) -> None:
    shim = folder / "libshim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(SHIM), "-ldl"], check=True)
    fault = {"SHIM_FAULT": "from a call on", "SHIM_BYTES": "65536", "SHIM_CALL": str(WRONG_CALL)}
    soak = Soak(folder / "wrong", "-b", "64K", "--time", "600", LD_PRELOAD=str(shim), **fault)
    code, found = soak.process.wait(), soak.record()["soak"]
    places = [(each["rank"], each["offset"]) for each in found["wrong"]]
    print(f"wrong from call {WRONG_CALL} on: exit code {code}, found after {found['calls']} timed calls and"
          f" {found['seconds']:.0f} s, (rank, element) {places}", flush=True)  # fmt: skip


def print_faults(folder: Path, seconds: float, shared_s: float) -> None:
    soak = Soak(folder / "long", "-b", "64K", "--pin", "--time", str(seconds))
    began_s = time.monotonic()
    first, second = (each["pid"] for each in soak.ranks())
    own = os.sched_getaffinity(second)
    memory = []

    def until(share: float) -> None:
        while (left_s := began_s + share * seconds - time.monotonic()) > 0:
            memory.append(resident_kb(first))
            time.sleep(min(5, left_s))

    until(0.3)
    stopped = now()
    os.kill(second, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(second, signal.SIGCONT)
    until(0.5)
    shared = now()
    run_on(second, os.sched_getaffinity(first))
    until(0.5 + shared_s / seconds)
    alone = now()
    run_on(second, own)
    until(0.98)
    load = os.getloadavg()
    code, found = soak.process.wait(), soak.record()["soak"]
    print(f"soak of {found['seconds']:.0f} s, load at its end {load}: exit code {code},"
          f" {found['windows']} windows, {found['calls']} calls")  # fmt: skip
    early, middle, late = memory[0], memory[len(memory) // 2], memory[-1]
    print(f"memory of rank 0: {early} kB at first, {middle} half-way, {late} at last")
    print(f"rank 1 stopped for {STOPPED_S:g} s at {stopped}; both ranks on one core {shared} to {alone}")
    for each in found["changes"]:
        print(f"  change {each['share']:+.1%} from {each['began']} to {each['ended'] or 'the end'}")
    print(f"  {found['slow_calls']} slow calls, the slowest of those kept:")
    for each in sorted(found["slow"], key=lambda each: -each["excess_s"])[:12]:
        print(f"    {each['at']} {each['excess_s']:.2f} s, rank {each['rank']}, timed {each['timed']}")
    for each in found["power"]:
        print(f"  power {each}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time", type=float, default=1800.0, help="seconds of the long soak")
    parser.add_argument("--shared", type=float, default=180.0, help="seconds on one core")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("wrong", "long"):
            (Path(folder) / name).mkdir()
        print_wrong(Path(folder))
        print_faults(Path(folder), asked.time, asked.shared)


if __name__ == "__main__":
    main()
