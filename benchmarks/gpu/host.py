"""All questions about one host of 2, 4 or 8 GPUs, in one run of at most --seconds.

    python benchmarks/gpu/host.py --nccl-tests BUILD_DIR --ranks 8 --output FOLDER

A table of steps: each has a share of the time that is left when it begins, and is ended when that is over; a
step that fails is said, and the next one begins. FOLDER gets host.md (tables), host.json (what they are made
of), host.txt (all that was printed) and runs.tar.gz (the run folders). Exit code 1: a step failed.

Without --nccl-tests there is no fidelity. Without GPUs, to try it: --backend mpi --last 1M.
NCCL's variables (NCCL_NVLS_ENABLE and others) are the caller's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import host_tables as tables
from host_job import GRACE_S, VERDICTS, Job, StepFailed

HERE = Path(__file__).parent
FIDELITY_OPS = "all_reduce,all_gather,reduce_scatter,alltoall,broadcast,sendrecv"
SWEEP_OPS = "all_reduce,all_gather,reduce_scatter,alltoall"
Found = dict[str, Any]


def sweep(job: Job) -> Iterator[Found]:
    evidence = ("--evidence", "counters,algorithm", "--stats", "algorithm", "channels")
    sizes = ("-b", "8", "-e", job.size("8G"), "-f", "4")
    budget = f"{job.left_s() / 2:.0f}s"  # the rest is for starting, evidence and the two answers
    run = job.launch("run", SWEEP_OPS, *sizes, *evidence, "--budget", budget, good=VERDICTS)
    yield {"run": run["run_id"], "rows": tables.case_rows(run), "wall_s": run["wall_s"]}
    yield {"diagnose": job.busbw("diagnose", run["run_id"], good=VERDICTS)}
    yield {"expect": job.busbw("expect", run["run_id"], good=VERDICTS)}
    if run["code"]:
        raise StepFailed(f"the run ended with exit code {run['code']}")


def pairs(job: Job) -> Iterator[Found]:
    for kind in ("pairs", "isolate") if job.options.ranks >= 4 else ("pairs",):
        told = job.launch(kind, "-b", job.size("64M"), good=VERDICTS)
        keys = ("run_id", "hunt", "findings", "rounds", "wall_s")
        yield {"kind": kind, "bytes": told["plan"]["hunt"]["size_bytes"], **{key: told[key] for key in keys}}


def groups(job: Job) -> Iterator[Found]:
    """All groups at once, then each one alone."""
    ranks = job.options.ranks
    sizes = ("-b", job.size("1M"), "-e", job.size("256M"), "-f", "16")
    run = ("run", "all_reduce", *sizes, "--case-time", "200ms")
    file = job.home / "group.json"
    for size in (size for size in range(2, ranks + 1) if ranks % size == 0):
        at_once = tables.group_rows(job.launch(*run, "--group-size", str(size)))
        yield {"size": size, "alone": None, "rows": at_once}
        for first in range(0, ranks, size) if size < ranks else ():
            file.write_text(json.dumps({"replica_groups": [[list(range(first, first + size))]]}))
            alone = tables.group_rows(job.launch(*run, "--groups", str(file)))
            yield {"size": size, "alone": first // size, "rows": alone}
    file.unlink(missing_ok=True)


def starts(job: Job) -> Iterator[Found]:
    out = job.home / "start.json"
    theirs = ("--nccl-tests", str(job.options.nccl_tests)) if job.options.nccl_tests else ()
    look = {"world": "nccl", "samples": [8, 254], "repeats": 201}
    for ranks in (ranks for ranks in (2, 4, 8) if ranks <= job.options.ranks):
        asked = json.dumps({**look, "ranks": ranks, "limit_s": max(job.left_s(), 1)})
        told, _, _ = job.python(str(HERE.parent / "control" / "looks.py"), asked)
        yield {"ranks": ranks, "looks": json.loads(told)["looks"]}
        few = ("-b", "8", "-e", "8", "-n", "20", "-c", "0")
        runs = [job.launch("run", "all_reduce", *few, ranks=ranks) for _ in range(3)]
        yield {"ranks": ranks, "communicator_ns": [tables.communicator_ns(run) for run in runs]}
        words = ("--ranks", str(ranks), "--rounds", "1", "--backend", job.options.backend, *theirs)
        job.python(str(HERE / "start.py"), *words, "--output", str(out))
        yield {"ranks": ranks, "first_row_s": json.loads(out.read_text())["first_row_s"]}
        out.unlink()


def fidelity(job: Job) -> Iterator[Found]:
    out = job.home / "fidelity.json"
    words = ("--nccl-tests", str(job.options.nccl_tests), "--ranks", str(job.options.ranks), "--rounds", "9")
    sizes = ("--ops", FIDELITY_OPS, "--last", job.options.last, "--factor", "4")
    limit = ("--seconds", f"{job.left_s():.0f}", "--output", str(out))
    try:
        job.python(str(HERE / "fidelity.py"), *words, *sizes, *limit)
    finally:  # the rounds that ended are there also when one was cut short
        if out.exists():
            yield json.loads(out.read_text())
            out.unlink()


@dataclass(frozen=True)
class Step:
    """A question, and what answers it."""

    name: str
    share: float  # of what is left, against the shares of the steps after it
    measure: Callable[[Job], Iterator[Found]]
    table: Callable[[list[Found]], list[str]]
    needs_nccl_tests: bool = False


# The last one gets all that the others left: rounds of it are as many as fit.
STEPS = (
    Step("algorithms and limits", 0.14, sweep, tables.sweep_lines),
    Step("pairs", 0.07, pairs, tables.pairs_lines),
    Step("groups at once", 0.15, groups, tables.groups_lines),
    Step("starting and control", 0.24, starts, tables.starts_lines),
    Step("against nccl-tests", 0.40, fidelity, tables.fidelity_lines, needs_nccl_tests=True),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", type=Path, help="its build folder; without it, no fidelity")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--backend", choices=("nccl", "mpi"), default="nccl")
    parser.add_argument("--last", default="8G", help="no step has larger sizes; three such buffers must fit")
    parser.add_argument("--only", default="", help="words in the names of steps, separated by commas")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    steps = [step for step in STEPS if options.nccl_tests or not step.needs_nccl_tests]
    steps = [step for step in steps if any(word in step.name for word in options.only.split(","))]
    with tempfile.TemporaryDirectory() as home, (options.output / "host.txt").open("w") as log:
        results = run_steps(Job(options, Path(home), log), steps)
        with tarfile.open(options.output / "runs.tar.gz", "w:gz") as archive:
            archive.add(home, "runs")
    return 1 if any(result["problem"] for result in results.values()) else 0


def run_steps(job: Job, steps: list[Step]) -> dict[str, Found]:
    """What every step found, why it failed if it did, and its seconds; kept after every step."""
    end_s = time.monotonic() + job.options.seconds - 2 * GRACE_S  # for ending a step, and for the archive
    results: dict[str, Found] = {}
    for number, step in enumerate(steps):
        start_s = time.monotonic()
        share = step.share / sum(later.share for later in steps[number:])
        job.deadline_s = start_s + share * (end_s - start_s)
        result: Found = {"found": [], "problem": "", "seconds": 0.0}
        results[step.name] = result
        try:
            for found in step.measure(job):
                result["found"].append(found)
        except Exception as error:  # noqa: BLE001 (the other steps have their own questions)
            result["problem"] = f"{type(error).__name__}: {error}"
        result["seconds"] = time.monotonic() - start_s
        print(f"{step.name}: {result['seconds']:.0f} s {result['problem']}", file=sys.stderr)
        keep(job, steps, results)
    return results


def keep(job: Job, steps: list[Step], results: dict[str, Found]) -> None:
    everything = {"argv": sys.argv[1:], "ranks": job.options.ranks, "about": job.about, "steps": results}
    (job.options.output / "host.json").write_text(json.dumps(everything, indent=1) + "\n")
    lines = tables.heading(job.options.ranks, job.about)
    for step in steps[: len(results)]:
        result = results[step.name]
        lines += ["", f"### {step.name.capitalize()} ({result['seconds']:.0f} s)", ""]
        lines += [f"**Failed**: {result['problem']}", ""] * bool(result["problem"])
        try:
            lines += step.table(result["found"])
        except Exception as error:  # noqa: BLE001 (what was found is in host.json)
            result["problem"] = result["problem"] or f"no table: {type(error).__name__}: {error}"
            lines += [f"**{result['problem']}**"]
    (job.options.output / "host.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
