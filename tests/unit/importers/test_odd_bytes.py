"""Bytes that belong to no text, ends of lines of other systems, reports among other words."""

import json
import struct
from collections.abc import Callable

import pytest

from busbw.importers.files import Reading
from busbw.importers.nccl_tests_csv import is_csv
from busbw.model.record import RunRecord

Read = Callable[..., Reading]
Imported = Callable[..., list[RunRecord]]


@pytest.fixture
def log(nccl_table: Callable[[int], str]) -> bytes:
    return "".join(map(nccl_table, range(40))).encode()


def rows(reading: Reading) -> int:
    return sum(map(len, reading.tables))


@pytest.mark.parametrize(
    ("begin", "end", "lost"),
    [(10, 10, 0), (0, 0, 0), (3000, 3000, 2), (3000, 7096, 40), (9000, 9000, 2), (5000, 70_000, 480)],
)
@pytest.mark.parametrize("nuls", [1, 4096, 70_000])
def test_nul_bytes_in_a_log_cost_their_rows_only(
    begin: int, end: int, lost: int, nuls: int, log: bytes, read: Read
) -> None:
    reading = read(log[:begin] + b"\0" * nuls + log[end:])
    assert reading.no_text == ""
    assert 1160 - lost <= rows(reading) <= 1160
    said = [*reading.findings, *(found for table in reading.tables for found in table.findings)]
    assert rows(reading) == 1160 or any(found.kind == "damaged" for found in said)
    if begin == 0:
        assert [found.text.split(" ")[0] for found in reading.findings] == [str(nuls)]


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 100_000,
        struct.pack("<3000i", *range(3000)),
        struct.pack("<1000d", *(number / 7 for number in range(1000))),
        b"\x7fELF\x02\x01\x01\0" + b"# size count type\n" * 400,
        "# size count type redop\n 8 2 float sum\n".encode("utf-16-le") * 100,
    ],
)
def test_what_is_binary_is_refused(data: bytes, read: Read) -> None:
    assert read(data).no_text == "it is binary, not text"


def test_returns_end_lines_without_other_ends(nccl_table: Callable[[int], str], imported: Imported) -> None:
    text = nccl_table(1) + nccl_table(2)
    found, wanted = imported(text.replace("\n", "\r")), imported(text)
    assert [record.results for record in found] == [record.results for record in wanted]


def test_the_length_of_a_line_is_the_true_one(nccl_table: Callable[[int], str], imported: Imported) -> None:
    lines = nccl_table(1).splitlines()
    lines[40:40] = ["x" * 5_000_000, "y" * 9_000]
    (record,) = imported("\n".join(lines) + "\n")
    said = [found.text for found in record.source.findings if found.kind == "other-output"]
    read_not = [f"a line of {length} characters was not read" for length in (5_000_000, 9_000)]
    assert said == [f"{words} (by the printed average no row is missing)" for words in read_not]


CSV = "Size_Bytes,Size_KB,Count,Data_Type,Operation,Root,{}\n".format(
    ",".join(f"{side}_{name}" for side in ("OOP", "IP") for name in ("Time_us", "AlgBW_GBps", "BusBW_GBps"))
)


def csv_text() -> str:
    text = CSV
    for power in range(12, 26):
        time = round(20 + (1 << power) / 2e5, 2)
        algbw = (1 << power) / time / 1e3
        side = f"{time},{algbw:.2f},{1.875 * algbw:.2f}"
        text += f"{1 << power},{(1 << power) / 1024},{1 << power - 2},float,sum,-1,{side},{side}\n"
    return text


def quoted(text: str) -> str:
    return "".join(",".join(f'"{cell}"' for cell in line.split(",")) + "\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "change", [quoted, lambda text: text.replace(",", ";"), lambda text: quoted(text).replace(",", ";")]
)
def test_csv_with_quotes_or_semicolons(change: Callable[[str], str], imported: Imported) -> None:
    (wanted,) = imported(csv_text(), op="all_reduce", ranks=16)
    (found,) = imported(change(csv_text()), op="all_reduce", ranks=16)
    assert len(wanted.results) == 28
    assert (found.plan.cases, found.results) == (wanted.plan.cases, wanted.results)
    assert is_csv(change(csv_text()).splitlines()[0])


def nccl_report() -> str:
    side = {"time": 100.0, "alg_bw": 10.48576, "bus_bw": 19.6608, "nwrong": 0}
    row = {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "    -1"}
    results = [row | {"out_of_place": side, "in_place": side} for _ in range(6)]
    content = {"nccl_version": 22703, "args": ["./all_reduce_perf"], "config": {}, "results": results}
    return json.dumps(content, indent=1)


def nccom_report() -> str:
    results = [
        {"size(B)": 1 << power, "count(elems)": 1 << power - 2, "type": "fp32", "time:avg(us)": 100.0}
        | {"algbw(GB/s)": (1 << power) / 1e5, "busbw(GB/s)": 1.875 * (1 << power) / 1e5}
        for power in range(16, 22)
    ]
    return json.dumps({"results": results}, indent=1)


@pytest.mark.parametrize("report", [nccl_report, nccom_report])
@pytest.mark.parametrize(
    "around",
    [
        lambda text: "".join(f"0: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines()),
        lambda text: f"starting\nNeuron 2.31\n{text}\ndone\n",
    ],
)
def test_reports_behind_prefixes_and_among_other_words(
    report: Callable[[], str], around: Callable[[str], str], imported: Imported
) -> None:
    (wanted,) = imported(report(), op="all_reduce", ranks=16)
    (found,) = imported(around(report()), op="all_reduce", ranks=16)
    assert (found.plan.cases, found.results) == (wanted.plan.cases, wanted.results)
    assert found.source.findings == wanted.source.findings


def test_a_second_report_is_not_lost_without_a_word(imported: Imported) -> None:
    records = imported(f"first\n{nccom_report()}\nsecond\n{nccom_report()}\n", op="all_reduce", ranks=16)
    assert "cut" in [found.kind for found in records[0].source.findings]


def test_nul_bytes_in_place_of_a_heading_are_said(read: Read) -> None:
    text = b"# OSU MPI Allreduce Latency" + b"\0" * 4096 + b"\n" + b"4          20.30\n" * 3
    assert [found.kind for found in read(text).findings] == ["damaged"]
