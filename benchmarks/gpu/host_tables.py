"""What host.py found, as Markdown for README.md: functions of values, without effects."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from typing import Any

from fidelity import compare

from busbw.units import format_size, gb_per_s

Found = dict[str, Any]
DIAGNOSED = ("expected", "links", "algorithm", "variance", "ranks")
# Sizes of the table of fidelity, of those by a factor of 4 from 8 B.
SHOWN = (8, 128, 2 * 2**10, 32 * 2**10, 512 * 2**10, 8 * 2**20, 128 * 2**20, 2 * 2**30, 8 * 2**30)


def about(run: Found) -> Found:
    """Machine and versions of a record."""
    rank = run["world"]["ranks"][0]
    variables = run["environment"]["variables"]
    return {
        "device": rank["device"],
        "driver": run["machine"]["gpus"]["driver_version"],
        "library": f"{rank['library']} {rank['library_version']}",
        "nccl_variables": {key: value for key, value in variables.items() if key.startswith("NCCL_")},
        "busbw": run["busbw_version"],
        "date": run["created"][:10],
    }


def heading(ranks: int, about: Found) -> list[str]:
    if not about:
        return [f"## One host, {ranks} ranks: nothing could be measured"]
    settings = " ".join(f"{key}={value}" for key, value in sorted(about["nccl_variables"].items()))
    driver = f"driver {about['driver']}" if about["driver"] else "no GPU driver"
    versions = f"{driver}, {about['library']}, {settings or 'no NCCL_ variables'}"
    return [f"## One host ({ranks} x {about['device']}, {versions}, busbw {about['busbw']}, {about['date']})"]


def table(titles: str, rows: list[list[object]]) -> list[str]:
    """Titles separated by ``|``."""
    names = titles.split("|")
    lines = [f"| {' | '.join(name.strip() for name in names)} |", "|---" * len(names) + "|"]
    return [*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)]


def case_rows(run: Found) -> list[Found]:
    """The result of every applicable case, beside what was asked of it."""
    asked = ("collective", "size_bytes", "placement")
    got = ("status", "time_ns", "busbw_gb_per_s", "algorithm", "choice", "marks", "wrong")
    return [
        {key: run["plan"]["cases"][result["case"]][key] for key in asked} | {key: result[key] for key in got}
        for result in run["results"]
        if run["plan"]["cases"][result["case"]]["applicable"]
    ]


def communicator_ns(run: Found) -> int:
    return max(rank["facts"]["communicator_ns"] for rank in run["world"]["ranks"])


def number(value: float | None, form: str = ".1f") -> str:
    return "n/a" if value is None or math.isnan(value) else format(value, form)


def sweep_lines(found: list[Found]) -> list[str]:
    told = {key: value for part in found for key, value in part.items()}
    lines = (
        [f"Run {told['run']}, {told['wall_s']:.1f} s, {len(told['rows'])} cases."] if "run" in told else []
    )
    if "expect" in told:
        lines += ["", *limits(told["expect"]["cases"])]
        lines += [f"- against {one}" for one in map(reference_name, told["expect"]["references"])]
    if "diagnose" in told:
        answers = told["diagnose"]["answers"]
        lines += ["", *(f"- {question}: {answers.get(question, 'n/a')}" for question in DIAGNOSED)]
        claims = (f"  - {one['question']}: {one['claim']}" for one in told["diagnose"]["conclusions"])
        lines += dict.fromkeys(claims)
    return lines


def reference_name(reference: Any) -> str:  # noqa: ANN401 (JSON)
    return str(reference.get("name", reference)) if isinstance(reference, dict) else str(reference)


def limits(cases: list[Found]) -> list[str]:
    """A row per operation, placement and algorithm: its largest size, against the limit and references."""
    kinds: dict[tuple[str, str, str], list[Found]] = defaultdict(list)
    for case in (case for case in cases if case["size_bytes"]):  # else too small for so many ranks
        kinds[case["collective"], case["placement"], case["algorithm"] or "not seen"].append(case)
    rows: list[list[object]] = []
    for (collective, placement, algorithm), same in kinds.items():
        same.sort(key=lambda case: case["size_bytes"])
        last = same[-1]
        sizes = f"{format_size(same[0]['size_bytes'])} - {format_size(last['size_bytes'])}"
        answers = ", ".join(
            f"{count} {answer}" for answer, count in Counter(c["answer"] for c in same).items()
        )
        share = number(last["ratio"], ".3f")
        limit = [number(last["limit_gb_per_s"]), number(last["percent_of_limit"], ".0f")]
        best = number(last["busbw_gb_per_s"])
        rows.append([f"{collective} {placement}", algorithm, sizes, best, *limit, share, answers])
    titles = "operation|algorithm|sizes|GB/s at the largest|limit|% of limit|of the reference|answers"
    return table(titles, rows)


def pairs_lines(found: list[Found]) -> list[str]:
    rows: list[list[object]] = []
    for hunt in found:
        rounds = hunt["rounds"]
        tests = [test for one in rounds for test in one["tests"]]
        # Two directions of a list of lanes each: a pair is as fast as its slower direction.
        rates = [
            gb_per_s(hunt["bytes"], max(max(lanes) for lanes in test["times_ns"]["bandwidth"]))
            for test in tests
        ]
        middle = statistics.median(rates)
        latencies = [max(max(lanes) for lanes in test["times_ns"]["latency"]) / 1e3 for test in tests]
        pairs = {tuple(sorted((test["one"], test["other"]))) for test in tests}
        claims = "; ".join(finding["claim"] for finding in hunt["findings"]) or "none"
        spread = f"{(max(rates) - min(rates)) / middle:.1%}"
        seconds = f"{sum(one['seconds'] for one in rounds):.2f}", f"{hunt['wall_s']:.1f}"
        bandwidth = f"{min(rates):.1f} / {middle:.1f} / {max(rates):.1f}"
        latency = f"{min(latencies):.2f} - {max(latencies):.2f}"
        rows.append([hunt["kind"], len(pairs), len(rounds), bandwidth, spread, latency, *seconds, claims])
    return table(
        "hunt | pairs | rounds | GB/s: least / median / most | range / median | latency us | s in rounds"
        " | s of the command | findings",
        rows,
    )


def group_rows(run: Found) -> list[Found]:
    """Every group of every out-of-place case."""
    cases = run["plan"]["cases"]
    return [
        {
            **{key: group[key] for key in ("group", "size_bytes", "time_ns", "busbw_gb_per_s", "wrong")},
            "ranks": ranks,
        }
        for result in run["results"]
        if cases[result["case"]]["placement"] == "out-of-place"
        for group, ranks in zip(
            result["groups"] or [whole(result, cases)], run["plan"]["groups"], strict=True
        )
    ]


def whole(result: Found, cases: list[Found]) -> Found:
    """One group of all ranks has no rows of its own."""
    return {**result, "group": 0, "size_bytes": cases[result["case"]]["size_bytes"]}


def groups_lines(found: list[Found]) -> list[str]:
    alone = {
        (part["size"], part["alone"], row["size_bytes"]): row["busbw_gb_per_s"]
        for part in found
        for row in part["rows"]
        if part["alone"] is not None
    }
    rows: list[list[object]] = []
    for part in (part for part in found if part["alone"] is None):
        for row in sorted(part["rows"], key=lambda row: (row["group"], row["size_bytes"])):
            once, by_itself = (
                row["busbw_gb_per_s"],
                alone.get((part["size"], row["group"], row["size_bytes"])),
            )
            ratio = once / by_itself if once and by_itself else None
            ranks = ", ".join(map(str, row["ranks"]))
            cells = [number(once), number(by_itself), number(ratio, ".3f")]
            rows.append([part["size"], ranks, format_size(row["size_bytes"]), *cells])
    return table("ranks a group | ranks | size | GB/s at once | alone | at once / alone", rows)


def starts_lines(found: list[Found]) -> list[str]:
    by_ranks: dict[int, Found] = defaultdict(dict)
    for part in found:
        by_ranks[part["ranks"]].update(part)
    ways = list(dict.fromkeys(way for told in by_ranks.values() for way in told.get("first_row_s", ())))
    looks = list(
        dict.fromkeys(look["samples"] for told in by_ranks.values() for look in told.get("looks", ()))
    )
    rows: list[list[object]] = []
    for ranks, told in by_ranks.items():
        made_ms = [ns / 1e6 for ns in told.get("communicator_ns", ())]
        made = (
            f"{statistics.median(made_ms):.0f} ({min(made_ms):.0f} - {max(made_ms):.0f})"
            if made_ms
            else "n/a"
        )
        first = [
            number(statistics.median(told.get("first_row_s", {}).get(way, [math.nan])), ".2f") for way in ways
        ]
        times = {look["samples"]: look_us(look) for look in told.get("looks", ())}
        rows.append([ranks, made, *first, *(times.get(samples, "n/a") for samples in looks)])
    titles = ["ranks", "communicator ms, 3 launches", *(f"first row s: {way}" for way in ways)]
    return table(
        "|".join([*titles, *(f"look of {samples} samples us (p10 - p90)" for samples in looks)]), rows
    )


def look_us(look: Found) -> str:
    """Barrier and reduction at rank 0, over TCP."""
    both = [sum(pair) / 1e3 for pair in zip(look["barrier_ns"], look["reduction_ns"], strict=True)]
    tenths = statistics.quantiles(both, n=10)
    return f"{statistics.median(both):.0f} ({tenths[0]:.0f} - {tenths[-1]:.0f})"


def fidelity_lines(found: list[Found]) -> list[str]:
    if not found:
        return ["No round ended."]
    rounds = found[-1]["rounds"]
    compared = compare(rounds)
    cells = {
        (
            row.op,
            row.key,
        ): f"{number(row.mpirun, '.3f')} / {number(row.alone, '.3f')} ({number(row.self_half, '.1%')})"
        for row in compared
    }
    sizes = [size for size in SHOWN if any(f"{size} out-of-place" == row.key for row in compared)]
    ops = list(dict.fromkeys(row.op for row in compared))
    rows = [[op, *(cells.get((op, f"{size} out-of-place"), "n/a") for size in sizes)] for op in ops]
    verdicts = Counter(row.verdict for row in compared)
    head = f"{len(rounds)} rounds, NCCL {found[-1]['nccl']}. Out-of-place, busbw's time over nccl-tests'"
    return [
        f"{head}: under mpirun / without MPI (half-width of nccl-tests against itself).",
        "",
        *table("|".join(["", *map(format_size, sizes)]), [list(row) for row in rows]),
        "",
        "All rows, both placements: "
        + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        + ".",
        *(
            f"- {row.op} {row.key}: {row.ratio:.3f}, bound {row.bound:.1%}"
            for row in compared
            if row.verdict == "DIFFERS"
        ),
    ]
