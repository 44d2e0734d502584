"""Bytes that belong to no text, ends of lines of other systems, reports among other words."""

import json
from collections.abc import Callable

import pytest

from busbw.foreign.aws_kit.read_csv import is_csv
from busbw.foreign.read_any import Reading
from busbw.model.record import RunRecord

Read = Callable[..., Reading]
Imported = Callable[..., list[RunRecord]]


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
