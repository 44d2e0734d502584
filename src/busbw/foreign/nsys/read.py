"""Exports of Nsight Systems as evidence about a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from busbw.foreign.nsys.kernels import read_kernels
from busbw.foreign.nsys.nics import read_nics
from busbw.foreign.nsys.tables import Export, opened
from busbw.model.profile import Profile

_VERSION: Final = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "EXPORT_VERSION")
_HOST: Final = re.compile(r"host ?name", re.IGNORECASE)


def read_profile(path: Path) -> Profile:
    """What one export contains. Raises UsageError if the file is not an export or cannot be read."""
    with opened(path) as export:
        meta = export.fields("META_DATA_EXPORT")
        version = next((meta[name] for name in _VERSION if name in meta), "")
        host = _host(export)
        kernels, join, missing = read_kernels(export)
        nics, unseen = read_nics(export, host)
    return Profile(str(path), version, host, join, kernels, nics, (*missing, *unseen))


def _host(export: Export) -> str:
    """The host that was profiled; empty where the export does not say."""
    for name, value in export.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value")):
        if _HOST.fullmatch(str(name)):
            return str(value)
    return ""
