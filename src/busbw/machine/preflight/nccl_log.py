"""What NCCL says that it uses, from its log at NCCL_DEBUG=INFO with the subsystems INIT, ENV, NET, GRAPH and
TUNING. Pure.

Words from NCCL's sources at the release tags 2.18.6 to 2.30.7 (init.cc, transport/net.cc, p2p.cc, shm.cc,
coll_net.cc, nvls.cc, mnnvl.cc, net.cc or plugin/net.cc, misc/tuner.cc or plugin/tuner.cc, gdrwrap.h,
graph/paths.cc), and from aws-ofi-nccl's (nccl_ofi_net.cpp).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_WORDS: Final = 4
_MOST_CHARACTERS: Final = 300


@dataclass(frozen=True)
class NcclUse:
    """What one rank's NCCL uses; empty or None where its log does not say.

    ``network`` is the name NCCL gives it (IB, Socket, AWS Libfabric, Libfabric, ...), ``nics`` what it says
    of its devices; ``plugins`` were loaded, ``failed`` (NCCL's own networks among them) could not be
    initialized. ``inside`` and ``between`` count connections to ranks of the same host and of others by kind:
    P2P, SHM, NET/IB, NET/IB/GDRDMA, NET/Socket, ... ``heard`` is False where there was no log, or one without
    the lines of INIT, in which silence about a feature means nothing.
    """

    heard: bool = False
    network: str = ""
    plugins: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    provider: str = ""
    no_plugin: str = ""
    nics: str = ""
    no_device: str = ""
    inside: Mapping[str, int] = field(default_factory=dict)
    between: Mapping[str, int] = field(default_factory=dict)
    gdr_reason: str = ""
    collnet: bool | None = None
    collnet_reason: str = ""
    nvls: bool | None = None
    mnnvl: bool | None = None
    gdrcopy: bool | None = None
    tuner: str = ""
    no_tuner: str = ""
    warnings: tuple[str, ...] = ()


# What NCCL says besides the reason: of every interface that a plugin does not serve, and at the end.
_NO_REASON: Final = re.compile(r"No plugin found|Failed to find \w+ symbol")
Reader = Callable[[re.Match[str], "_Found"], None]


def read_use(lines: Iterable[str], hosts: Sequence[str] = ()) -> NcclUse:
    """The words of one rank's log; ``hosts`` is each rank's, by rank in the communicator."""
    found = _Found(hosts)
    for line in lines:
        for pattern, take in _READERS if "NCCL" in line else ():
            if match := re.search(pattern, line):
                take(match, found)
                break
    return NcclUse(inside=dict(found.inside), between=dict(found.between), **found.words)


class _Found:
    """What the lines so far have said."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = hosts
        self.inside: Counter[str] = Counter()
        self.between: Counter[str] = Counter()
        self.words: dict[str, Any] = {}


def _count_path(match: re.Match[str], found: _Found) -> None:
    ends = [int(match[1]), int(match[2])]
    kind = match[3] or (match[4] + (match[5] or ""))
    known = max(ends) < len(found.hosts)
    is_inside = not match[4] if not known else found.hosts[ends[0]] == found.hosts[ends[1]]
    (found.inside if is_inside else found.between)[kind] += 1


def _no_collnet(match: re.Match[str], found: _Found) -> None:
    found.words["collnet"], found.words["collnet_reason"] = False, match[1]


def _no_plugin(match: re.Match[str], found: _Found) -> None:
    """The first line with a reason, else the last of them."""
    if _NO_REASON.search(found.words.get("no_plugin", "No plugin found")):
        found.words["no_plugin"] = match[1][:_MOST_CHARACTERS]


def _text(name: str) -> Reader:
    return lambda match, found: found.words.__setitem__(name, match[1][:_MOST_CHARACTERS])


def _one_of(name: str) -> Reader:
    """Into a tuple, up to a limit: what repeats itself says nothing new."""

    def add(match: re.Match[str], found: _Found) -> None:
        kept = found.words.get(name, ())
        if match[1] not in kept and len(kept) < _MOST_WORDS:
            found.words[name] = (*kept, match[1][:_MOST_CHARACTERS])

    return add


def _fact(name: str, decide: Callable[[re.Match[str]], bool] = lambda _: True) -> Reader:
    return lambda match, found: found.words.__setitem__(name, decide(match))


_PATH: Final = (
    r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\](?: \[(?:send|receive)\])? via"
    r" (?:(P2P|SHM)/|(NET/[^/]+)/\w+(?:\(\w+\))?(/GDRDMA)?)"
)
_NO_PLUGIN: Final = (
    r"NET/Plugin ?: (.*(?:Could not find|returned \d+ :|cannot open|No plugin found|Failed to).*?)\s*$"
)
_NO_COLLNET: Final = (
    r"(Communicator has \d+ nodes which is less than CollNet node threshold \d+"
    r"|Cannot initialize CollNet|CollNet is not supported or fails to initialize"
    r"|CollNet currently only supports up to \d+ GPUs per node)"
)
# The first that fits takes the line.
_READERS: Final[tuple[tuple[str, Reader], ...]] = (
    (_PATH, _count_path),
    (r"CollNet \d+/\d+ : \d+ \[(?:send|receive)\] via COLLNET/", _fact("collnet")),
    (r"Using network (.+?)\s*$", _text("network")),
    (r"NET/Plugin: Loaded net plugin (.+?)\s*$", _one_of("plugins")),
    (_NO_PLUGIN, _no_plugin),
    # A plugin is "loaded" once its symbols are found; this comes when it then finds no device, say.
    (r"Failed to initialize NET plugin (.+?)\s*$", _one_of("failed")),
    (r"(NET/IB ?: No device found)", _text("no_device")),
    (r"NET/[^:]+ ?: Using (.+?)\s*$", _text("nics")),
    (r"NET/OFI Selected [Pp]rovider is ([^,\s]+)", _text("provider")),
    (r"(GPU Direct RDMA Disabled for (?:GPU \S+ / )?HCA .+?)\s*$", _text("gdr_reason")),
    (_NO_COLLNET, _no_collnet),
    (r"NVLS multicast support is (not )?available on dev", _fact("nvls", lambda m: not m[1])),
    (
        r"\d+ coll channels, (?:\d+ collnet channels, )?(\d+) nvls channels",
        _fact("nvls", lambda match: int(match[1]) > 0),
    ),
    (r"MNNVL ([01]) cliqueId", _fact("mnnvl", lambda match: match[1] == "1")),
    (r"MNNVL is not supported on this system", _fact("mnnvl", lambda _: False)),
    (r"GDRCOPY enabled library", _fact("gdrcopy")),
    (r"TUNER/Plugin: Using (?:tuner plugin )?(?!internal)(.+?)(?: \(v\d+\))?\s*$", _text("tuner")),
    (r"TUNER/Plugin: (Could not find:? .+?)\.?(?: Using .*)?\s*$", _text("no_tuner")),
    (r"Init (?:START|COMPLETE)", _fact("heard")),
    (r"NCCL WARN (.+?)\s*$", _one_of("warnings")),
)


def said_of(use: NcclUse) -> dict[str, tuple[str, ...]]:
    """Its network, as a log's words are kept (``model.network``)."""
    found = {
        "network": (use.network,),
        "provider": (use.provider,),
        "network_plugin": use.plugins,
        "devices": (use.nics,),
    }
    return {kind: words for kind, words in found.items() if any(words)}
