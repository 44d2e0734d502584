"""A reader of nccom-test's output, written from the description of the format and from nothing of busbw's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

WIDTHS: Final = {
    **dict.fromkeys(("uint8", "int8", "fp8", "fp8e4"), 1),
    **dict.fromkeys(("uint16", "int16", "fp16", "bf16"), 2),
    **dict.fromkeys(("uint32", "int32", "fp32"), 4),
}
_HEADING: Final = re.compile(
    r" *size\(B\) +count\(elems\)(?: +total_input_size\(B\) +total_output_size\(B\))? +type"
    r"(?: +time:(?:avg|p\d+(?:\.\d+)?)\(us\))+ +algbw\(GB/s\) +busbw\(GB/s\)(?: +algorithm)?"
)
_AVERAGE: Final = re.compile(r"Avg bus bandwidth:\s+(\d+\.\d{4})GB/s")
_ERRORS: Final = re.compile(r"(\d+) errors found - test failed")
_ALGORITHMS: Final = ("-", "ring", "mesh", "rdh", "kangaring", "hier")


@dataclass
class Table:
    """Rows as words by heading; ``failures`` by size."""

    columns: list[str]
    rows: list[dict[str, str]] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    average: float | None = None
    errors: int = 0

    @property
    def sizes(self) -> list[int]:
        return [int(row["size(B)"]) for row in self.rows]

    @property
    def times(self) -> list[str]:
        return [name for name in self.columns if name.startswith("time:")]


def parse(text: str) -> list[Table]:
    """Every table of an output; a line that the format does not have is an AssertionError."""
    tables: list[Table] = []
    ends: list[int] = []
    for line in text.splitlines():
        if _HEADING.fullmatch(line):
            tables.append(Table(line.split()))
            ends = [match.end() for match in re.finditer(r"\S+", line)]
        elif match := _AVERAGE.fullmatch(line):
            assert tables[-1].average is None
            tables[-1].average = float(match[1])
        elif match := _ERRORS.fullmatch(line):
            tables[-1].errors = int(match[1])
        else:
            _row(line, tables[-1], ends)
    for table in tables:
        _check(table)
    return tables


def _row(line: str, table: Table, ends: list[int]) -> None:
    assert table.average is None, f"a row below the average: {line}"
    words = line.split()
    assert words[0].isdecimal(), line
    if len(words) > 1 and words[1].startswith("Failure"):
        table.failures.append((int(words[0]), line.split(maxsplit=1)[1]))
        return
    assert len(words) == len(table.columns), line
    found = [match.end() for match in re.finditer(r"\S+", line)]
    assert found == ends or any(len(word) > 14 for word in words), f"not aligned: {line}"
    table.rows.append(dict(zip(table.columns, words, strict=True)))


def _check(table: Table) -> None:
    """What follows from the description: counts, decimal bandwidths from the first time, the plain mean."""
    for row in table.rows:
        size, count = int(row["size(B)"]), int(row["count(elems)"])
        assert count * WIDTHS[row["type"]] == size, row
        time_us, algbw = float(row[table.times[0]]), float(row["algbw(GB/s)"])
        if time_us > 1:
            expected = size / time_us / 1e3
            assert abs(algbw - expected) <= 0.005 + expected * 0.005 / time_us + 1e-9, row
        assert row.get("algorithm", "-") in _ALGORITHMS, row
    busbw = [float(row["busbw(GB/s)"]) for row in table.rows if row["busbw(GB/s)"] != "nan"]
    if table.average is not None:
        assert abs(table.average - sum(busbw) / len(busbw)) <= 0.00505 + 1e-9
    assert table.errors == len(table.failures)
