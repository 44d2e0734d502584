"""A user's own preset file, as ``--preset`` finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """The file, with ``text`` in it."""
    file = tmp_path / "ours.yaml"
    file.write_text(text)
    monkeypatch.setenv("BUSBW_PRESET_FILES", str(file))
    return file
