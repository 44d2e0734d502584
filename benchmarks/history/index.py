"""What the index costs: adding a finished run, and `busbw history` over many runs.

    python benchmarks/history/index.py [--runs 20000] [--sizes 28] [--testbeds 4]

Makes a home of so many launches in memory, as runs of `busbw run all_reduce` would have left them, and writes
its index; then times the whole command `busbw history`, and adding a finished run from its folder to an index
with a full window of launches. Processor time is what a machine that does nothing else would take.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from busbw.judge import kept
from busbw.model.history import KeptCase, Launch, Measured, Testbed
from busbw.record.folder import environ_home
from busbw.record.index import FILE, Index
from busbw.record.read import read_record
from busbw.record.write import write_record

FIRST: Final = datetime(2025, 1, 1, tzinfo=UTC)
REPEATS: Final = 20


def launches(runs: int, sizes: int, beds: int) -> Iterator[Launch]:
    """Launches of a sweep that scatter by 2 %; the driver changes twenty times."""
    rng = np.random.default_rng(20_261)
    kind = "all_reduce float sum out-of-place"
    cases = [KeptCase("all_reduce", kind, 8 << power) for power in range(sizes)]
    machines = [{"device": "H200", "network": "", "product": f"p{bed}", "ranks": 8, "nodes": 1}
                for bed in range(beds)]  # fmt: skip
    testbeds = [Testbed(f"bed{bed}", machine, {"settings": ""}) for bed, machine in enumerate(machines)]
    for number in range(runs):
        times = 1e5 * np.exp(rng.normal(0, 0.02, sizes))
        yield Launch(
            f"run-{number:06}",
            (FIRST + timedelta(minutes=20 * number)).isoformat(timespec="milliseconds"),
            testbeds[number % beds],
            "alike",
            {case: Measured(float(time), 1e6) for case, time in zip(cases, times, strict=True)},
            {"version": "NCCL 2.28.9", "driver": f"{560 + number * 20 // runs}", "nodes": "node7"},
        )


def make(home: Path, runs: int, sizes: int, beds: int) -> float:
    """The index of a home; the seconds that a run took."""
    began = time.process_time()
    index = Index(home / FILE)
    own = list(launches(runs, sizes, beds))
    for start in range(0, runs, 1000):
        kept.add(index, own[start : start + 1000])
    index.close()
    return (time.process_time() - began) / runs


def real_run(sizes: int) -> Path:
    """A finished run of as many sizes; its index knows a window of its launches."""
    subprocess.run(
        [sys.executable, "-m", "busbw", "run", "all_reduce", "-b", "8", "-e", str(8 << sizes - 1), "-f", "2",
         "--ranks", "2", "--backend", "null", "--format", "json"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return next(environ_home().glob("2*"))


def adding_ms(folder: Path) -> list[float]:
    """Copies of a run whose times scatter by 2 %, added one by one behind a full window of them."""
    found, rng = [], np.random.default_rng(20_261)
    for number in range(100 + REPEATS):
        copy = folder.with_name(f"20270101-00{number // 60:02}{number % 60:02}-x-{number:04x}")
        shutil.copytree(folder, copy)
        record = read_record(copy)
        ended = (FIRST + timedelta(days=800, minutes=number)).isoformat(timespec="milliseconds")
        results = tuple(
            replace(each, time_ns=each.time_ns * math.exp(rng.normal(0, 0.02))) if each.time_ns else each
            for each in record.results
        )
        write_record(copy, replace(record, run_id=copy.name, ended=ended, results=results))
        began = time.process_time()
        kept.reading(folder.parent, lambda _: None)
        found.append(1e3 * (time.process_time() - began))
    return found[-REPEATS:]


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def history_s() -> list[float]:
    found = []
    for _ in range(5):
        began = _children_s()
        subprocess.run([sys.executable, "-m", "busbw", "history"], check=True, stdout=subprocess.DEVNULL)
        found.append(_children_s() - began)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--sizes", type=int, default=28)
    parser.add_argument("--testbeds", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="busbw-history-") as folder:
        os.environ["BUSBW_HOME"] = folder
        home = Path(folder)
        each_s = make(home, options.runs, options.sizes, options.testbeds)
        size_mb = (home / FILE).stat().st_size / 1e6
        print(f"index of {options.runs} runs of {options.sizes} cases: {size_mb:.0f} MB,"
              f" {1e3 * each_s:.1f} ms a run")  # fmt: skip
        for number in range(options.runs):
            (home / f"run-{number:06}").mkdir()
            (home / f"run-{number:06}" / "run.json").touch()
        seconds = history_s()
        print(f"busbw history, the whole command: {median(seconds):.2f} s of a processor")
        added = adding_ms(real_run(options.sizes))
        print(f"adding a finished run: {median(added):.0f} ms of a processor (most {max(added):.0f})")


if __name__ == "__main__":
    main()
