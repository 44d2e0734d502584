"""The environment of processes that a test starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import busbw

# The launcher that runs the tests must not be taken for the launcher of the ranks.
LAUNCHERS: Final = (
    *("OMPI_", "PMI", "PMIX_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_"),
)
FOREIGN: Final = ("BUSBW_", *LAUNCHERS)


def clean_environ(**variables: str) -> dict[str, str]:
    """This process's without any launcher's variables; the busbw under test and this package on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    places = (str(Path(busbw.__path__[0]).parent), str(Path(__file__).parents[1]), kept.get("PYTHONPATH", ""))
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, places)), **variables}
