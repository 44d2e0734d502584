"""What NCCL and libfabric say of the network that they use, by kind of statement. Pure.

The words of a log are its evidence; those of a run of busbw stand with the first rank of each host. On one
host no byte takes the network that NCCL names, so a run there says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from busbw.model.record import RunRecord, WorldInfo
from busbw.units import first_of

Said = Mapping[str, Sequence[str]]
FACT: Final = "nccl"  # of a rank: what its NCCL said
MOST_SHOWN: Final = 4
_KINDS: Final = {
    "nccl_version": "",
    "mpi_version": "",
    "network": "network ",
    "network_started": "started network ",
    "provider": "provider ",
    "network_plugin": "plugin ",
    "devices": "NICs ",
    "no_devices": "no device of ",
    "setting": "",
    "warning": "warning: ",
}


def said_in(record: RunRecord) -> Said:
    """What a log says, or the ranks of a run over several hosts did."""
    if record.source is not None:
        return {kind: texts(record.source.evidence, kind) for kind in record.source.evidence}
    return said_by(record.world) if record.world is not None else {}


def said_by(world: WorldInfo) -> Said:
    """What the ranks said, each statement once; nothing on one host."""
    found: dict[str, dict[str, None]] = {}
    for rank in world.ranks if len(world.hosts) > 1 else ():
        for kind, words in rank.facts.get(FACT, {}).items():
            found.setdefault(kind, {}).update(dict.fromkeys(words))
    return {kind: list(words) for kind, words in found.items()}


def texts(said: Mapping[str, Any], kind: str) -> list[str]:
    """Statements of one kind: a list, or one text."""
    value = said.get(kind, ())
    return [value] if isinstance(value, str) else [str(each) for each in value]


def said_words(said: Mapping[str, Any]) -> Iterator[str]:
    """For readers, by kind: ``network FasTrak``, ``NICs ...``."""
    for kind, word in _KINDS.items():
        if found := texts(said, kind):
            shown = (text.replace(" ", "=", 1) if kind == "setting" else text for text in found)
            yield word + first_of(shown, MOST_SHOWN)
