"""What --topology names, read: files, runs, and what Slurm itself says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import UsageError
from busbw.launchers import topology
from busbw.record.folder import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from busbw.settings.launch import LaunchSettings

# The word that stands for what the cluster's own Slurm says.
SLURM: Final = "slurm"
# The fact of ``Engine.inquire`` that has the texts.
FACT: Final = "topology"


def read_texts(launch: LaunchSettings) -> dict[str, str]:
    """The fact for ``topology_of``; empty without --topology. Raises UsageError for what cannot be read or
    is not understood, SiteError where Slurm does not answer.
    """
    if not launch.topology:
        return {}
    texts = [(name, _text(name)) for name in launch.topology]
    topology.read(texts)
    return {FACT: json.dumps(texts)}


def topology_of(facts: Mapping[str, str]) -> topology.Topology | None:
    """What the texts say; None without --topology. Pure."""
    return topology.read(json.loads(facts[FACT])) if FACT in facts else None


def _text(name: str) -> str:
    if name == SLURM:
        from busbw.launchers.slurm_commands import call

        return call("scontrol", "show", "topology")
    path = Path(name) / RUN_FILE if Path(name).is_dir() else Path(name)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read --topology {name}: {error}", hint="name a file, a run's folder, or slurm"
        ) from error
