"""The results CSV of the AWS kit as other programs save it."""

from collections.abc import Callable

import pytest

from busbw.foreign.aws_kit.read_csv import is_csv
from busbw.model.record import RunRecord

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
