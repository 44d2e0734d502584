"""Every fault of the table in tests/faults/README.md has its tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TABLE = TESTS / "faults" / "README.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_every_fault_has_a_test_that_exists() -> None:
    rows = dict(ROW.findall(TABLE.read_text()))
    counts = {"K": 21, "W": 8, "A": 7, "P": 1, "R": 14}
    wanted = {f"{letter}{number + 1}" for letter, count in counts.items() for number in range(count)}
    assert set(rows) == wanted | {"F1", "F2", "F3", "F4", "F6", "F12"}
    for fault, cell in rows.items():
        found = TEST.findall(cell)
        assert found, fault
        for file, name in found:
            assert f"\ndef {name}(" in (TESTS / file).read_text(), (fault, file, name)
