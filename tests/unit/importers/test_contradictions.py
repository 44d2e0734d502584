"""Numbers of a row that deny each other: roots, minima and maxima, rates, a text cut inside a number."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from busbw.model.record import RunRecord

Imported = Callable[..., list[RunRecord]]
INFO = "ip-10-0-1-2:14:20 [0] NCCL INFO comm 0x55 rank 0 nranks 16 - Init COMPLETE"
HEADING = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
)


def times(record: RunRecord) -> list[tuple[int, str, float | None]]:
    return [
        (case.size_bytes, case.placement.value, result.time_ns)
        for case, result in zip(record.plan.cases, record.results, strict=True)
    ]


def damaged(record: RunRecord) -> list[tuple[int, str]]:
    assert record.source is not None
    return [(found.line, found.text) for found in record.source.findings if found.kind == "damaged"]


def nccl(rows: list[tuple[int, int]], op: str, redop: str, factor: float, program: str = "") -> str:
    """Rows of (size, root)."""
    text = f"# Collective test starting: {program or op}_perf\n{HEADING}"
    for size, root in rows:
        time = f"{20 + size / 2e5:.1f}"
        algbw = size / float(time) / 1e3
        side = f"  {time:>7}  {algbw:6.2f}  {algbw * factor:6.2f}  {0:>5}"
        text += f"{size:>12}  {size // 4:>12}  {'float':>8}  {redop:>6}  {root:>6}{side}{side}\n"
    return text


SIZES = [1 << power for power in range(12, 28)]


@pytest.mark.parametrize("root", ["-7", "5", "9999", "0"])
def test_a_root_where_the_operation_has_none(
    root: str, nccl_table: Callable[[int], str], imported: Imported
) -> None:
    lines = nccl_table(1).splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.split()[:1] == ["4096"])
    lines[at] = lines[at].replace("    -1", f"{root:>6}", 1)
    (whole,), (record,) = imported(nccl_table(1)), imported("".join(lines))
    assert {case.root for case in record.plan.cases} == {-1}
    assert times(record) == [row for row in times(whole) if row[0] != 4096]
    assert [line for line, text in damaged(record) if "root" in text] == [at + 1]


@pytest.mark.parametrize("root", [9, -1, -3, 5])
def test_a_root_that_no_rank_or_no_sweep_has(root: int, imported: Imported) -> None:
    rows = [(size, 0) for size in SIZES]
    rows[6] = (SIZES[6], root)
    (record,) = imported(nccl(rows, "broadcast", "none", 1.0), ranks=8)
    assert {case.root for case in record.plan.cases} == {0}
    assert len(record.results) == 2 * (len(SIZES) - 1)
    assert [line for line, text in damaged(record) if "root" in text] == [9]


def test_every_root_in_turn_is_in_order(imported: Imported) -> None:
    rows = [(size, root) for root in range(8) for size in SIZES]
    (record,) = imported(nccl(rows, "reduce", "sum", 1.0), ranks=8)
    assert len(record.results) == 2 * len(rows)
    assert damaged(record) == []


def test_roots_beyond_a_number_of_ranks_that_is_wrong(imported: Imported) -> None:
    (record,) = imported(nccl([(size, 5) for size in SIZES], "broadcast", "none", 1.0), ranks=4)
    assert len(record.results) == 2 * len(SIZES)
    assert "contradiction" in [found.kind for found in record.source.findings]


def test_a_root_of_two_rows_without_one(imported: Imported) -> None:
    rows = [(SIZES[14], -1), (SIZES[15], 3)]
    (record,) = imported(nccl(rows, "all_reduce", "sum", 1.875), ranks=16)
    assert [case.size_bytes for case in record.plan.cases] == [SIZES[14]] * 2


def test_sendrecv_and_unnamed_tables_have_no_root(imported: Imported) -> None:
    rows = [(size, -1) for size in SIZES]
    (record,) = imported(nccl(rows, "sendrecv", "sum", 1.0), ranks=2)
    assert damaged(record) == []
    rows[4] = (SIZES[4], 1)
    (record,) = imported(nccl(rows, "x", "sum", 1.875, "unknown"))
    assert [line for line, text in damaged(record) if "root" in text] == [7]


def test_a_root_in_json(imported: Imported) -> None:
    side = {"time": 100.0, "alg_bw": 10.48576, "bus_bw": 19.6608, "nwrong": 0}
    rows: list[dict[str, Any]] = [
        {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "    -1"}
        | {"out_of_place": side, "in_place": side}
        for _ in range(6)
    ]
    rows[3]["root"] = "    -7"
    content = {"nccl_version": 22703, "args": ["./all_reduce_perf"], "results": rows, "config": {}}
    (record,) = imported(json.dumps(content))
    assert len(record.results) == 10
    assert [line for line, _ in damaged(record)] == [4]


# ---- minimum, mean, maximum ----------------------------------------------------------------------------


def osu_full(count: int = 12) -> list[str]:
    lines = [
        "# OSU MPI Allreduce Latency Test v7.4",
        "# Datatype: MPI_FLOAT.",
        "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations",
    ]
    return lines + [
        f"{1 << power:<10d}{3.06:18.2f}{2.06:18.2f}{4.06:18.2f}{1000:12d}" for power in range(2, 2 + count)
    ]


@pytest.mark.parametrize(
    ("old", "new"), [("  3.06", "  9.06"), ("  3.06", "  1.06"), ("   3.06", "9000.06"), ("  2.06", "  5.06")]
)
@pytest.mark.parametrize("count", [1, 12])
def test_a_mean_beyond_its_minimum_or_maximum(old: str, new: str, count: int, imported: Imported) -> None:
    lines = osu_full(count)
    lines[-1] = lines[-1].replace(old, new, 1)
    (record,) = imported("\n".join(lines) + "\n", ranks=4)
    assert len(record.results) == count - 1
    assert [line for line, text in damaged(record) if "order" in text] == [len(lines)]
    (record,) = imported("\n".join(osu_full(count)) + "\n", ranks=4)
    assert (len(record.results), damaged(record)) == (count, [])


def imb(benchmark: str, factor: float, unit: float = 1.0, rows: int = 18) -> list[str]:
    rule = "#" + "-" * 40
    lines = [rule, f"# Benchmarking {benchmark} ", "# #processes = 4 ", rule]
    lines.append("       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec")
    for size in [0, *(1 << power for power in range(rows - 1))]:
        least, most = 3 + size / 1e3, 4 + size / 1e3
        mean, rate = (least + most) / 2, factor * unit * size / round(most, 2)
        lines.append(f"{size:13}{1000:13}{least:13.2f}{most:13.2f}{mean:13.2f}{rate:13.2f}")
    return lines


@pytest.mark.parametrize("unit", [1.0, 1e6 / 2**20])
@pytest.mark.parametrize(
    ("benchmark", "factor"), [("Sendrecv", 2.0), ("PingPong", 1.0), ("Exchange", 4.0), ("Unknown", 2.0)]
)
def test_a_rate_of_imb_follows_from_size_and_time(
    benchmark: str, factor: float, unit: float, imported: Imported
) -> None:
    lines = imb(benchmark, factor, unit)
    (whole,) = imported("\n".join(lines) + "\n")
    assert (len(whole.results), damaged(whole)) == (18, [])
    time = lines[19].split()[3]
    changed = time.replace(time[0], str(int(time[0]) % 9 + 1), 1)
    lines[19] = lines[19].replace(time, changed, 1).replace(lines[19].split()[4], changed, 1)
    (record,) = imported("\n".join(lines) + "\n")
    assert set(times(record)) < set(times(whole))
    assert [(line, text) for line, text in damaged(record) if "Mbytes/sec" in text] == [
        (20, "left out: Mbytes/sec is not size / time")
    ]


def test_an_average_of_imb_beyond_its_bounds(imported: Imported) -> None:
    lines = imb("Allreduce", 1.0)
    lines[4] = lines[4].removesuffix("   Mbytes/sec")
    lines[5:] = [line[:-13] for line in lines[5:]]
    lines[10] = f"{lines[10][:-13]}{18.1:13.2f}"
    (record,) = imported("\n".join(lines) + "\n")
    assert (len(record.results), [line for line, _ in damaged(record)]) == (17, [11])


# ---- the end of a text ---------------------------------------------------------------------------------


def osu_row(decimals: int = 2) -> str:
    text = "# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_FLOAT.\n# Size       Avg Latency(us)\n"
    return text + f"{4:<10d}{20.30:20.{decimals}f}"


@pytest.mark.parametrize("lost", [1, 3, 4])
def test_a_text_that_ends_inside_its_only_number(lost: int, imported: Imported) -> None:
    (record,) = imported(osu_row(), ranks=4)
    assert [result.time_ns for result in record.results] == [pytest.approx(20_300)]
    (record,) = imported(osu_row()[:-lost], ranks=4)
    assert len(record.results) == 0
    assert len(damaged(record)) == 1


def test_a_text_that_ends_inside_a_verdict(imported: Imported) -> None:
    head = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)        Validation\n"
    row = f"{4:<10d}{20.30:20.2f}{'Fail':>18}"
    (record,) = imported(head + row, ranks=4)
    assert record.results[0].status.value == "wrong"
    (record,) = imported(head + row[:-1], ranks=4)
    assert (len(record.results), len(damaged(record))) == (0, 1)


def test_a_text_that_ends_inside_a_count_of_wrong_elements(imported: Imported) -> None:
    text = nccl([(SIZES[14], -1)], "all_reduce", "sum", 1.875).rstrip("\n")[:-5] + "   12"
    assert imported(text, ranks=16)[0].results[1].wrong == 12
    (record,) = imported(text[:-1], ranks=16)
    assert (len(record.results), len(damaged(record))) == (0, 1)


# ---- a row and other output in one line ----------------------------------------------------------------


@pytest.mark.parametrize("tool", ["nccl-tests", "nccom-test", "imb"])
def test_a_whole_row_before_other_output_is_kept(
    tool: str, tool_tables: dict[str, Callable[[int], str]], imported: Imported
) -> None:
    lines = tool_tables[tool](1).splitlines()
    rows = [number for number, line in enumerate(lines) if line.strip()[:1].isdigit()]
    (whole,) = imported("\n".join(lines) + "\n", op="all_reduce", ranks=16)
    at = rows[8]
    glued = [*lines[:at], lines[at] + INFO, "", *lines[at + 1 :]]
    (record,) = imported("\n".join(glued) + "\n", op="all_reduce", ranks=16)
    assert times(record) == times(whole)
    assert [found.line for found in record.source.findings if found.kind == "joined"] == [at + 1]
    cut = [*lines[:at], lines[at][:-1] + INFO, "", *lines[at + 1 :]]
    (record,) = imported("\n".join(cut) + "\n", op="all_reduce", ranks=16)
    assert set(times(record)) < set(times(whole))


def test_swapped_columns_are_damaged_rows(nccl_table: Callable[[int], str], imported: Imported) -> None:
    text = nccl_table(1)
    swapped = text.replace("   time   algbw   busbw", "  algbw    time   busbw", 1)
    assert swapped != text
    whole = set(times(imported(text)[0]))
    for record in imported(swapped, op="all_reduce", ranks=16):
        assert set(times(record)) <= whole


def test_a_root_in_a_table_that_is_said_to_have_none(imported: Callable[..., list[RunRecord]]) -> None:
    """The log lost its test's line, and the user says which it was: two of three rows cannot be right."""
    heading = "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor)\n" + HEADING
    rows = [
        (1024, 256, 3, "20.00    0.05    0.10      0   20.00    0.05    0.10      0"),
        (2048, 512, 3, "20.00    0.10    0.19      0   20.00    0.10    0.19      0"),
        (4096, 1024, -1, "20.00    0.20    0.38      0   20.00    0.20    0.38      0"),
    ]
    text = "".join(f"{size} {count} float sum {root} {words}\n" for size, count, root, words in rows)
    (record,) = imported(heading + text, op="all_reduce", ranks=16)
    assert {case.size_bytes for case in record.plan.cases} == {4096}
    said = [finding.text for finding in record.source.findings if finding.kind == "damaged"]
    assert said == ["left out: root 3 in a table of all_reduce, which has none"] * 2


@pytest.mark.parametrize("swapped", [("time", "algbw"), ("algbw", "busbw")])
def test_a_heading_with_columns_in_no_versions_order(
    swapped: tuple[str, str], imported: Imported, nccl_table: Callable[[int], str]
) -> None:
    """In both placements: no row tells, but no version prints it so. The rows' own numbers tell the order."""
    text = nccl_table(1)
    (heading,) = (line for line in text.splitlines() if "algbw" in line and "size" in line)
    first, second = swapped
    other = heading.replace(first, "@").replace(second, first).replace("@", second)
    (whole,) = imported(text, op="all_reduce", ranks=16)
    kept = {at for record in imported(text.replace(heading, other), op="all_reduce", ranks=16)
            for at in times(record)}  # fmt: skip
    assert kept <= set(times(whole))
