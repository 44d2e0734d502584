"""A negative amount begins as a flag does: it is refused as what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from busbw.units import parse_duration


@pytest.mark.parametrize(("flag", "value"), [("--precision", "-1%"), ("--budget", "-5s")])
def test_it_must_be_positive(called: Any, tmp_path: Path, flag: str, value: str) -> None:
    code, _, err = called(tmp_path, "run", "all_reduce", flag, value, "--dry-run")
    assert code == 2
    assert f"{flag}: {value!r} must be positive" in err
    assert f"hint: leave out the -: {flag} {value[1:]}" in err


def test_a_flag_without_its_value_is_still_said_so(called: Any, tmp_path: Path) -> None:
    assert "requires an argument" in called(tmp_path, "run", "all_reduce", "--budget", "--dry-run")[2]


def test_microseconds_are_a_duration() -> None:
    assert parse_duration("1us") == pytest.approx(1e-6)
