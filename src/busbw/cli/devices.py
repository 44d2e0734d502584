"""``busbw devices``: what would be measured here, and why a backend is not usable."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from busbw.errors import BusbwError, ExitCode
from busbw.launchers.choose import rank_count
from busbw.probes.backends import BackendStatus, backend_status, choose_backend
from busbw.probes.gpus import read_gpus
from busbw.probes.host import available_memory_bytes, read_host
from busbw.probes.libraries import LibraryInfo, library_info, mapped_libraries
from busbw.probes.mpi import find_mpi, library_version_text
from busbw.probes.nics import read_nics
from busbw.reports.devices import Choice, Survey, plain, sections, tables
from busbw.world.identity import identify
from busbw.world.mpi_library import loaded_library


def devices(nccl: str, format_name: str) -> ExitCode:
    """Print what this machine offers; ENVIRONMENT where no backend is usable."""
    survey = read_survey(nccl or None)
    if format_name == "json":
        print(json.dumps(to_json(survey), indent=1))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(*tables(sections(survey)), sep="\n")
    else:
        sys.stdout.write(plain(sections(survey)))
    return ExitCode.OK if any(status.usable for status in survey.backends) else ExitCode.ENVIRONMENT


def read_survey(nccl: str | None) -> Survey:
    """Ask all probes. Loads libnccl where a GPU is visible, and libmpi for its version; starts neither."""
    host = read_host()
    backends = backend_status(nccl)
    return Survey(
        choice=_choice(nccl),
        backends=backends,
        gpus=read_gpus(),
        nics=read_nics(),
        libraries=_libraries(),
        host=host,
        memory=available_memory_bytes(host.memory),
    )


def to_json(survey: Survey) -> dict[str, Any]:
    """Plain values; ``usable`` beside each backend's reasons."""
    fields = asdict(survey)
    fields["backends"] = [_status(status) for status in survey.backends]
    return fields


def _status(status: BackendStatus) -> dict[str, Any]:
    return {**asdict(status), "usable": status.usable}


def _choice(nccl: str | None) -> Choice:
    try:
        identity = identify(os.environ)
        backend = choose_backend("auto", nccl)
        if identity is not None:
            if backend == "mpi" and identity.world != "mpi":
                problem = f"CPU ranks communicate over MPI, and {identity.launcher} sets up none"
                hint = "start the ranks with mpirun or srun --mpi=..., or use --backend nccl on GPUs"
                return Choice(launcher=identity.launcher, problem=problem, hint=hint)
            return Choice(backend, identity.size, identity.launcher)
        return Choice(backend, rank_count(None, backend))
    except BusbwError as error:
        return Choice(problem=error.message, hint=error.hint)


def _libraries() -> tuple[LibraryInfo, ...]:
    """Those that asking has loaded (driver, NVML, NCCL), and the MPI library that mpi4py would take."""
    found = {library.path: library for library in mapped_libraries()}
    library = find_mpi(os.environ).library
    if library is not None and library.path:
        text = library_version_text(Path(library.path))
        version = loaded_library(text).version if text else ""
        found[library.path] = library_info(library.path, version=version)
    return tuple(found[path] for path in sorted(found))
