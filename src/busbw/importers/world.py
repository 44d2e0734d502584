"""Who took part, as far as a log says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from busbw.importers.headings import NCCL_TESTS, RCCL_TESTS
from busbw.importers.table import Table
from busbw.model.record import RankInfo, WorldInfo

NOT_STATED: Final = "not stated"
_LIBRARIES: Final = {NCCL_TESTS: "NCCL", RCCL_TESTS: "RCCL"}


def world(table: Table, ranks: int, version: str) -> WorldInfo:
    """The world of a table: ``size`` is the communicator's, ``ranks`` are those that the log names, or one
    that stands for all where it names none; ``version`` is that of the library.
    """
    library = _LIBRARIES.get(table.tool, "")
    counted: dict[str, int] = {}
    infos = []
    for line in table.ranks:
        host = line.host or NOT_STATED
        infos.append(
            RankInfo(
                rank=line.rank,
                host=host,
                pid=line.pid,
                local_rank=counted.get(host, 0),
                device=line.device_name or NOT_STATED,
                library=library,
                library_version=version,
                facts={"device_index": line.device, "bus_id": line.bus_id, "group": line.group},
            )
        )
        counted[host] = counted.get(host, 0) + 1
    if not infos:
        infos.append(RankInfo(0, NOT_STATED, 0, 0, NOT_STATED, library=library, library_version=version))
    return WorldInfo(kind="imported", launcher=NOT_STATED, size=ranks, ranks=tuple(infos))


def library_version(
    table: Table, evidence: Mapping[str, Any], label: str = "", label_by: str = ""
) -> tuple[str, str]:
    """The version, and whose word it is: that of the log itself, else that of a label; empty and "not stated"
    where ranks differ, or nobody says it.
    """
    said = versions_said(table, evidence)
    if said:
        word = "header" if _header_version(table) else "evidence"
        return (said[0], word) if len(said) == 1 else ("", NOT_STATED)
    return (label, label_by) if label else ("", NOT_STATED)


def versions_said(table: Table, evidence: Mapping[str, Any]) -> tuple[str, ...]:
    """2.27.7 of the header's 22707, else of NCCL's own lines, of which ranks can have several."""
    version = _header_version(table)
    if version:
        return (version,)
    return tuple(str(told).split(" ")[-1] for told in evidence.get("nccl_version", []))


def _header_version(table: Table) -> str:
    code = table.header.get("library_version")
    if isinstance(code, int) and code >= 1000:
        # NCCL_VERSION: X*1000 + Y*100 + Z before 2.9, X*10000 + Y*100 + Z since.
        major = code // 10000 if code >= 10000 else code // 1000
        return f"{major}.{code % (10000 if code >= 10000 else 1000) // 100}.{code % 100}"
    return ""
