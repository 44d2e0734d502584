"""Which network carried the bytes between hosts, as NCCL and libfabric say it (``model.network``). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from busbw.machine.preflight.network import SLOW_PROVIDERS, cores
from busbw.model.network import MOST_SHOWN, said_in, said_words
from busbw.model.record import RunRecord
from busbw.units import first_of

SOCKETS: Final = "sockets"
_LIBFABRIC: Final = "libfabric"
# Names of one thing: NCCL's own, those of plugins, and libfabric's providers. Verbs are InfiniBand or RoCE.
_SAME: Final = (
    (SOCKETS, re.compile(r"socket|fastsocket|tcp")),
    ("IB", re.compile(r"ib(ext(_v\d+)?)?|nccl rdma plugin( v\d+)?|spcx|verbs|mlx")),
    (_LIBFABRIC, re.compile(r".*(libfabric|\bofi\b).*")),
    (f"{_LIBFABRIC} efa", re.compile(r"efa")),
    (f"{_LIBFABRIC} cxi", re.compile(r"cxi")),
)
_SOCKET_PROVIDERS: Final = frozenset(SLOW_PROVIDERS) - {"shm"}  # which reaches no other host
_AND: Final = " and "


def network_of(record: RunRecord) -> str:
    """``IB``, ``libfabric efa``, ``sockets`` or NCCL's own word; several joined by "and" where ranks differ.
    Empty where nothing says it.
    """
    said = said_in(record)
    providers = [_provider(text) for text in said.get("provider", ())]
    # NCCL says which network it uses, or at least which it started.
    used = said.get("network") or said.get("network_started", ())
    names = [_name(text) for text in used] or ([_LIBFABRIC] if providers else [])
    found: list[str] = []
    for name in names:
        found += providers if name == _LIBFABRIC and providers else [name]
    return _AND.join(sorted(set(found)))


def _name(text: str) -> str:
    word = text.strip().lower()
    return next((name for name, form in _SAME if form.fullmatch(word)), text.strip())


def _provider(text: str) -> str:
    """``tcp;ofi_rxm`` is ofi_rxm over tcp."""
    words = cores(text)
    if words & _SOCKET_PROVIDERS:
        return SOCKETS
    core = next((word for word in sorted(words) if not word.startswith("ofi_")), "")
    name = _name(core)
    return name if name != core else f"{_LIBFABRIC} {core}".strip()


def is_other(ours: str, theirs: str) -> bool:
    """Whether two networks are known to differ; libfabric without its provider may be any of libfabric's."""
    if not ours or not theirs:
        return False
    one, other = ours.split(), theirs.split()
    shorter = min(len(one), len(other))
    return one[:shorter] != other[:shorter]


def over_sockets(network: str) -> bool:
    """Whether some rank used them."""
    return SOCKETS in network.split(_AND)


def said_by(records: Sequence[RunRecord]) -> str:
    """What NCCL said of its network in these records, in words; empty where it said nothing."""
    words = (word for record in records for word in said_words(said_in(record)))
    said = "; ".join(dict.fromkeys(words))
    return f"{'NCCL' if records[0].source is None else 'the log'} says: {said}" if said else ""


def cause(record: RunRecord, nodes: int) -> str:
    """What is said of the network that makes bandwidth low by itself; empty where nothing of the kind is, or
    all ranks are on one host, where no byte takes the network. ``nodes`` is 0 where not known.
    """
    if nodes == 1 or not over_sockets(network_of(record)):
        return ""
    said = said_in(record)
    lines = [f"network {text}" for text in said.get("network") or said.get("network_started", ())]
    lines += [f"provider {text}" for text in said.get("provider", ())]
    where = "between hosts" if nodes else "between hosts, if there were several,"
    told = first_of(lines, MOST_SHOWN)
    return f"the bytes {where} went over {SOCKETS} ({told}): the commonest cause of low bandwidth"
