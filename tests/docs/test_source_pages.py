"""The page "old command to busbw command": what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

from busbw.plan.presets.preset import names

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "guides" / "from-scripts.md").read_text(encoding="utf-8")


def test_every_file_of_setups_is_there() -> None:
    named = re.findall(r"`busbw [^`]*?\b(\w+\.yaml)\b[^`]*`", TEXT)
    assert named
    assert all((ROOT / "examples" / "setups" / name).is_file() for name in named)


def test_every_preset_is_there() -> None:
    named = set(re.findall(r"\b((?:aws|alcf|coreweave)/[\w.-]*\w(?:@[\d-]+\d)?)", TEXT)) - OTHER
    known = set(names())
    assert {name.partition("@")[0] for name in named} <= known
    assert len(named) > 8


# Repositories, which look like presets.
OTHER = {"coreweave/nccl-tests"}
