"""What a run was tuned with: settings that change what is timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from busbw.analysis.ways import settings_of
from busbw.model.record import RunRecord
from busbw.preflight.environment import is_compared

_TUNING: Final = (
    *("NCCL_", "RCCL_", "OFI_NCCL_", "FI_", "UCX_", "UCC_", "MPIR_CVAR_", "OMPI_MCA_", "SHARP_", "HCOLL_"),
    "NVSHMEM_",
)
# A job's own, though many jobs are tuned alike; and files whose content counts instead.
_OF_A_JOB: Final = frozenset(("NCCL_COMM_ID", "FI_CXI_DEFAULT_VNI", "NCCL_CONF_FILE", "NCCL_PROFILER_PLUGIN"))
_MOST_NAMED: Final = 4


def tuning_of(record: RunRecord) -> dict[str, str] | None:
    """Variables, and settings of NCCL's own files, of rank 0; None where the record, as that of most logs,
    does not tell what was set.
    """
    found = {
        name: value
        for name, value in sorted(settings_of(record).items())
        if value and name.startswith(_TUNING) and is_compared(name) and name not in _OF_A_JOB
    }
    return found if found or "variables" in record.environment else None


def otherwise_tuned(theirs: Mapping[str, str] | None, ours: Mapping[str, str] | None) -> str:
    """How a reference was tuned otherwise than a run; empty where it was not, or does not say how it was. A
    run that does not say it is not known to be tuned as one that was.
    """
    if theirs is None:
        return ""
    own = {} if ours is None else ours
    absent = "does not say" if ours is None else "does not"
    names = [name for name in sorted({*theirs, *own}) if theirs.get(name) != own.get(name)]
    words = [
        f"it {f'has {name}={theirs[name]}' if name in theirs else f'does not set {name}'},"
        f" the run {f'has {own[name]}' if name in own else absent}"
        for name in names[:_MOST_NAMED]
    ]
    more = len(names) - len(words)
    return "; ".join([*words, *[f"{more} more"] * bool(more)])
