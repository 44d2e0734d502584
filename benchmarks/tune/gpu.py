"""A tuning on GPUs beside the exhaustive table, and its table in a PyTorch job.

First `busbw tune` as users run it; then a PyTorch job with that table and without it, in turn; then the same
race once more, in which no arm is dropped; then fresh launches by the table of its best arms and by the
tuning's. Each part is printed and kept as it ends.

    python benchmarks/tune/gpu.py --ranks 4 --seconds 190 --output gpu.json
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from busbw.judge.tune import Tuned
from busbw.machine.plugins import tuner_path
from busbw.model.arm import FUNCTIONS
from busbw.model.plain import from_plain
from busbw.model.record import RunRecord
from busbw.model.result import Status
from busbw.record.read import read_record
from busbw.stats.launches import student_quantile
from busbw.units import format_size

ROOT = Path(__file__).resolve().parents[2]
JOB = ROOT / "tests" / "gpu" / "tuned_job.py"
UNDROPPED = Path(__file__).with_name("undropped")
# What the PyTorch job gathers, and its row where the tuning confirmed none: the winner of earlier tunings.
SIZES = (4 << 20, 16 << 20)
BY_HAND = "allgather,{size},{size},ring,ll128,24,1,{ranks},-1,-1\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--ops", default="all_reduce,all_gather,reduce_scatter")
    parser.add_argument("--sizes", nargs=3, default=("8", "2G", "128"), metavar=("FIRST", "LAST", "FACTOR"))
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=190.0, help="for everything")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    kept: dict[str, Any] = {"seconds": {}}
    ends_s = time.monotonic() + options.seconds
    for name, part in (("tune", as_users), ("job", in_job), ("exhaustive", exhaustive), ("fresh", fresh)):
        began_s = time.monotonic()
        kept |= part(options, kept, ends_s)
        kept["seconds"][name] = round(time.monotonic() - began_s, 1)
        options.output.write_text(json.dumps(kept, indent=1) + "\n")
    print(kept["seconds"])


# ---- the tuning -------------------------------------------------------------------------------------------


def as_users(options: argparse.Namespace, kept: dict[str, Any], ends_s: float) -> dict[str, Any]:
    """The race, and what fresh launches confirmed; the table of these is beside the output."""
    del kept, ends_s
    record, tuned = tune(words(options))
    busbw("tune", "last", "--emit", "nccl-csv", "--output", str(options.output.with_suffix(".csv")))
    devices = record.world.known_devices if record.world is not None else ()
    return {"devices": devices, "tuned": [asdict(each) for each in tuned], "race": arms_of(record)}


def exhaustive(options: argparse.Namespace, kept: dict[str, Any], ends_s: float) -> dict[str, Any]:
    """The same race without dropping."""
    left_s = ends_s - time.monotonic() - 35
    if left_s < 20:
        print(f"{left_s:.0f} s left: no exhaustive table")
        return {}
    path = f"{UNDROPPED}:{os.environ.get('PYTHONPATH', '')}"
    record, _ = tune((*words(options), "--blocks", "0", "--budget", f"{left_s:.0f}s"), PYTHONPATH=path)
    rows = arms_of(record)
    print_regrets(rows, [from_plain(Tuned, each) for each in kept["tuned"]])
    return {"exhaustive": rows}


def fresh(options: argparse.Namespace, kept: dict[str, Any], ends_s: float) -> dict[str, Any]:
    """Launches in turn by the tuning's table and by the exhaustive best, where these differ."""
    tuned = [from_plain(Tuned, each) for each in kept["tuned"]]
    if "exhaustive" not in kept or ends_s < time.monotonic() + 20:
        return {}
    chosen = {(each.operation, each.size_bytes): _answer(each) for each in tuned}
    best = {key: _best(kept["exhaustive"], key) for key in chosen}
    setups = {
        name: {"env": _environ(options, options.output.with_suffix(f".{name}.csv"), arms)}
        for name, arms in (("exhaustive", best), ("tuned", chosen))
    }
    path = options.output.with_suffix(".yaml")
    path.write_text(json.dumps({"default": "exhaustive", "setups": setups}))
    _, *where = words(options)
    done = busbw("compare", str(path), "--ops", options.ops, "--blocks", "3", "--format", "csv", *where)
    rows = [
        {
            name: row[name]
            for name in ("collective", "size_bytes", "verdict", "speedup", "speedup_low", "speedup_high")
        }
        for row in csv.DictReader(done.stdout.splitlines())
        if row["placement"] == "out-of-place"
    ]
    for row in rows:
        key = (row["collective"], int(row["size_bytes"]))
        arms = f"{best.get(key) or 'default'} against {chosen.get(key) or 'default'}"
        print(f"fresh: {arms}:", *row.values())
    return {"fresh": rows, "setups": setups}


def _answer(each: Tuned) -> str:
    """What a user gets: the arm that was confirmed, else NCCL's own choice."""
    return each.arm if each.confirmed is not None else ""


def _best(exhaustive: list[dict[str, Any]], key: tuple[str, int]) -> str:
    own = [row for row in exhaustive if (row["operation"], row["size_bytes"]) == key and row["time_ns"]]
    return str(min(own, key=lambda row: row["time_ns"])["arm"]) if own else ""


def _environ(options: argparse.Namespace, path: Path, arms: dict[tuple[str, int], str]) -> dict[str, str]:
    """For a job by a table with these arms; empty where all are NCCL's own."""
    rows = []
    for (operation, size), text in arms.items():
        if text:
            way = text.replace("/", ",").replace(",0", ",-1")
            rows.append(f"{FUNCTIONS[operation]},{size},{size},{way},1,{options.ranks},-1,-1")
    path.write_text("\n".join([*rows, ""]))
    return {"NCCL_TUNER_PLUGIN": str(tuner_path()), "BUSBW_TUNER_FILE": str(path)} if rows else {}


def words(options: argparse.Namespace) -> tuple[str, ...]:
    first, last, factor = options.sizes
    return (options.ops, "-b", first, "-e", last, "-f", factor, "--ranks", str(options.ranks))


def busbw(*own: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "busbw", *own],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )


def tune(own: tuple[str, ...], **environ: str) -> tuple[RunRecord, list[Tuned]]:
    done = busbw("tune", *own, "--format", "json", **environ)
    if done.returncode:
        raise SystemExit(done.stdout)
    told = json.loads(done.stdout)
    home = Path(os.environ["BUSBW_HOME"])
    return read_record(home / told["run"]), [from_plain(Tuned, each) for each in told["tuned"]]


def arms_of(record: RunRecord) -> list[dict[str, Any]]:
    """Each arm that was measured: the median and interval in ns, and in how many passes."""
    found = []
    for result in record.results:
        case = record.plan.cases[result.case]
        if result.status in (Status.GOOD, Status.WRONG):
            found.append(
                {
                    "operation": case.collective,
                    "size_bytes": case.size_bytes,
                    "arm": case.arm,
                    "status": result.status.value,
                    "time_ns": result.time_ns,
                    "low_ns": result.low_ns,
                    "high_ns": result.high_ns,
                    "passes": len(result.pass_samples),
                }
            )
    return found


def print_regrets(exhaustive: list[dict[str, Any]], tuned: list[Tuned]) -> None:
    """For each case the exhaustive best, and what the race chose by the times of the exhaustive table."""
    print("operation       size      NCCL us  best us  by                     race chose             regret")
    for each in tuned:
        own = {
            row["arm"]: row
            for row in exhaustive
            if (row["operation"], row["size_bytes"]) == (each.operation, each.size_bytes) and row["time_ns"]
        }
        chosen = _answer(each)
        if chosen not in own or "" not in own:
            continue
        best = min(own.values(), key=lambda row: row["time_ns"])
        regret = own[chosen]["time_ns"] / best["time_ns"] - 1
        least = (own[chosen]["low_ns"] or 0.0) / (best["high_ns"] or math.inf) - 1
        print(
            f"{each.operation:15} {format_size(each.size_bytes):8} {own['']['time_ns'] / 1e3:8.1f}"
            f" {best['time_ns'] / 1e3:8.1f}  {best['arm'] or 'default':22} {chosen or 'default':22}"
            f" {100 * regret:5.1f} % (at least {100 * max(0.0, least):.1f} %)"
        )


# ---- the PyTorch job --------------------------------------------------------------------------------------


def in_job(options: argparse.Namespace, kept: dict[str, Any], ends_s: float) -> dict[str, Any]:
    """Pairs of jobs, one with the table, in turn; and what NCCL says that it does with the table."""
    del kept
    if not options.pairs:
        return {}
    ranks, emitted = options.ranks, options.output.with_suffix(".csv")
    by_hand = "".join(BY_HAND.format(size=size, ranks=ranks) for size in SIZES)
    table = options.output.with_suffix(".job.csv")
    table.write_text(
        (emitted.read_text() if emitted.exists() else "") + by_hand
    )  # the first that fits counts
    with_table = {"NCCL_TUNER_PLUGIN": str(tuner_path()), "BUSBW_TUNER_FILE": str(table)}
    times: dict[str, dict[int, list[float]]] = {
        name: {size: [] for size in SIZES} for name in ("own", "tuned")
    }
    said = job(ranks, {**with_table, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING"})
    for number in range(options.pairs):
        if number > 2 and time.monotonic() > ends_s - 25:
            break
        arms = [("own", {}), ("tuned", with_table)]
        for name, variables in arms if number % 2 else reversed(arms):
            for size, us in re.findall(r"us (\d+) ([\d.]+)", job(ranks, variables)):
                times[name][int(size)].append(float(us))
    lines = sorted(set(re.findall(r"AllGather: \d+ Bytes -> Algo \w+ proto \w+ channel\S*", said)))
    hashes = re.findall(r"busbw tuner: .* rows, hash ([0-9a-f]{16})", said)
    found = {"table": table.read_text(), "us": times, "tuning_lines": lines, "hashes": hashes}
    print_job(found)
    return {"job": found}


def job(ranks: int, variables: dict[str, str]) -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, str(JOB)]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(ranks), port, *map(str, SIZES)],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    said = "".join(rank.communicate(timeout=120)[0] for rank in started)
    assert not any(rank.returncode for rank in started), said
    return said


def print_job(found: dict[str, Any]) -> None:
    print(found["table"], *found["tuning_lines"], f"hashes {found['hashes']}", sep="\n")
    for size in SIZES:
        own, tuned = (found["us"][name][size] for name in ("own", "tuned"))
        logs = [math.log(b / a) for a, b in zip(own, tuned, strict=True)]
        half = student_quantile(0.975, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
        low, middle, high = (100 * (1 - math.exp(fmean(logs) + each)) for each in (half, 0.0, -half))
        print(f"PyTorch all_gather {format_size(size)}: {fmean(own):.2f} us, tuned {fmean(tuned):.2f} us;")
        print(f"  saves {middle:.1f} % (95 %: {low:.1f} to {high:.1f}; {len(logs)} pairs of jobs)")


if __name__ == "__main__":
    main()
