"""What NCCL found of the machine and what it made of that, as it writes both: topology and graphs in XML.

NCCL's rank 0 writes them while its communicator is made, to the files that two variables name (NCCL 2.31:
init.cc, ncclTopoDumpGraphs; which rank: NCCL_TOPO_DUMP_FILE_RANK and NCCL_GRAPH_DUMP_FILE_RANK, 0). All ranks
must have NCCL_TOPO_DUMP_FILE or none: with it a rank finds out the topology once more, which the ranks of a
host exchange (init.cc, initTransportsRank), so that rank 0 alone would wait for the others for ever.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from busbw.model.finding import Finding, Severity
from busbw.record.folder import NCCL_FILES

_VARIABLES: Final = ("NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE")


class NcclDump:
    """Made on every rank before NCCL's first call; ``finish`` once it is connected. ``folder`` is the run's
    on rank 0 and None elsewhere. A file that the user's own variable names is copied.
    """

    def __init__(self, environ: MutableMapping[str, str], folder: Path | None) -> None:
        self._environ = environ
        self._files = (
            {}
            if folder is None
            else {name: folder / file for name, file in zip(_VARIABLES, NCCL_FILES, strict=True)}
        )
        self._users = {name: environ[name] for name in _VARIABLES if name in environ}
        for name in _VARIABLES:
            path = self._files.get(name, Path(os.devnull))
            path.parent.mkdir(exist_ok=True)
            environ.setdefault(name, str(path))

    def finish(self) -> tuple[Finding, ...]:
        """What NCCL did not write, on rank 0. The variables are as they were before."""
        for name in _VARIABLES:
            if name not in self._users:
                del self._environ[name]
        missing = []
        for name, path in self._files.items():
            try:
                if name in self._users:
                    shutil.copyfile(self._users[name], path)
                path.stat()
            except OSError as error:
                missing.append(_missing(name, path.name, error))
        return tuple(missing)


def _missing(name: str, file: str, error: OSError) -> Finding:
    return Finding(
        Severity.WARNING,
        f"NCCL wrote no {file} ({name}: {error.strerror})",
        hint=f"look whether {name}_RANK names another rank than 0",
        check="nccl-topology",
    )
