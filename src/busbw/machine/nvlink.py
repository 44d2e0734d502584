"""What a GPU's NVLinks have carried so far, by NVML; ordinary users may read it.

Fields 138 and 139 count KiB of data by link (Ampere to Hopper), 202 and 204 bytes (NVLink 5); SCOPE_ALL_LINKS
asks for the sum. Some drivers give the sum for each link: then there is one counter for the GPU.
"""

from __future__ import annotations

from typing import Final

from busbw.machine.counters import Counted
from busbw.machine.native.nvml import (
    FIELD_NVLINK_DATA_RX_KIB,
    FIELD_NVLINK_DATA_TX_KIB,
    FIELD_NVLINK_RCV_BYTES,
    FIELD_NVLINK_XMIT_BYTES,
    LIBRARY,
    SCOPE_ALL_LINKS,
    Nvml,
    nvml_meanwhile,
)
from busbw.model.traffic import NVLINK

# (sent, received, bytes of one unit), the newer first.
_FIELDS: Final = (
    (FIELD_NVLINK_XMIT_BYTES, FIELD_NVLINK_RCV_BYTES, 1),
    (FIELD_NVLINK_DATA_TX_KIB, FIELD_NVLINK_DATA_RX_KIB, 1024),
)


def read_nvlinks(uuid: str, *, library: str = LIBRARY) -> tuple[Counted, ...]:
    """Every active NVLink of a GPU with ``tx_bytes`` and ``rx_bytes``; empty without NVML or links."""
    with nvml_meanwhile(library) as nvml:
        handle = nvml.device(uuid=uuid) if nvml is not None else None
        return () if nvml is None or handle is None else _read(nvml, handle, uuid)


def _read(nvml: Nvml, handle: int, uuid: str) -> tuple[Counted, ...]:
    links = [link.link for link in nvml.nvlinks(handle) if link.active]
    rate = nvml.nvlink_gb_per_s(handle)
    for sent, received, unit in _FIELDS:
        pairs = [(link, nvml.field(handle, sent, link), nvml.field(handle, received, link)) for link in links]
        total = nvml.field(handle, sent, SCOPE_ALL_LINKS), nvml.field(handle, received, SCOPE_ALL_LINKS)
        if len(links) > 1 and _is_total([tx for _, tx, _ in pairs], total[0]):
            pairs, name = [(0, *total)], "all links"
            rate = rate * len(links) if rate else None
        else:
            name = ""
        known = [(link, tx, rx) for link, tx, rx in pairs if tx is not None and rx is not None]
        if known:
            return tuple(
                Counted(
                    NVLINK, uuid, name or f"link {link}", rate, {"tx_bytes": tx * unit, "rx_bytes": rx * unit}
                )
                for link, tx, rx in known
            )
    return ()


def _is_total(sent: list[int | None], total: int | None) -> bool:
    """Whether each link answers with the sum, or only the sum is answered."""
    known = [value for value in sent if value is not None]
    if not known:
        return total is not None
    return bool(known[0]) and len(set(known)) == 1 and known[0] == total
