"""Programs that stand in for those of a cluster."""

from __future__ import annotations

from pathlib import Path


def stand_in(folder: Path, name: str, text: str) -> None:
    """Puts a program of this text for ``sh`` into a folder, in the place of one that is there."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
