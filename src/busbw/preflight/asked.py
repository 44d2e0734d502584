"""Asked against used: what variables and presets ask of NCCL, and what its log says. Pure.

NCCL goes on without a plugin, NIC or feature that it cannot have, and says so in its log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from busbw.model.finding import Finding, Severity, strictly, worst_first
from busbw.preflight.facts import NodeFacts
from busbw.preflight.gathered import Gathered
from busbw.preflight.nccl_log import NcclUse
from busbw.preflight.network import fabric
from busbw.preflight.odd import difference, few, name_ranks, split

# What a word of --expect-use means in NCCL's own names, lower case. aws-ofi-nccl dropped "AWS" in 1.14.
_NETWORKS: Final[Mapping[str, tuple[str, ...]]] = {
    "ofi": ("aws libfabric", "libfabric"),
    "aws libfabric": ("aws libfabric", "libfabric"),
    "libfabric": ("aws libfabric", "libfabric"),
}
_OWN_NETWORKS: Final = ("ib", "socket")


@dataclass(frozen=True)
class Used:
    """What every rank's NCCL said, in rank order, beside what the ranks said before."""

    gathered: Gathered
    uses: tuple[NcclUse, ...]

    @property
    def is_one_host(self) -> bool:
        """Whether nothing has to leave the host."""
        return len(set(self.gathered.hosts)) == 1

    def of(self, variable: str, rank: int) -> str:
        """A variable's value on a rank."""
        return self.gathered.ranks[rank].environ.get(variable, "")

    def ranks(self, holds: Callable[[int, NcclUse], bool]) -> list[int]:
        """The ranks that were heard and for which this holds."""
        return [at for at, use in enumerate(self.uses) if use.heard and holds(at, use)]

    def where(self, ranks: Sequence[int]) -> str:
        """The ranks in words."""
        if len(ranks) == len(self.uses):
            return "on all ranks" if len(ranks) > 1 else "here"
        return f"on {name_ranks(ranks, self.gathered.hosts)}"

    def one(self, ranks: Sequence[int]) -> tuple[int | None, str]:
        """Rank and host, where it is not all of them."""
        return (None, "") if len(ranks) == len(self.uses) else (ranks[0], self.gathered.hosts[ranks[0]])


def _finding(
    used: Used, severity: Severity, claim: str, ranks: Sequence[int], *, evidence: str = "", hint: str = ""
) -> Finding:
    rank, host = used.one(ranks)
    return Finding(severity, f"{claim} {used.where(ranks)}", evidence, hint, rank, host)


# ---- the network -------------------------------------------------------------------------------------


def network(used: Used) -> Iterator[Finding]:
    """The network that was asked for is the one in use."""
    wanted = used.gathered.wants("net")
    for variable in ("NCCL_NET", "NCCL_NET_PLUGIN", ""):
        wrong = used.ranks(partial(_is_other_network, used, wanted, variable))
        if not wrong:
            continue
        first = used.uses[wrong[0]]
        asked = f"{variable}={used.of(variable, wrong[0])}" if variable else f"net={wanted}"
        reasons = [first.no_plugin, f"provider {first.provider}" if first.provider else "", *first.warnings]
        yield _finding(
            used,
            Severity.ERROR,
            f"{asked} is asked for, and NCCL uses {first.network}",
            wrong,
            evidence=few([reason for reason in reasons if reason]),
            hint="put the plugin's folder on LD_LIBRARY_PATH; NCCL_DEBUG=INFO says more of why it was left",
        )
        return


def _is_other_network(used: Used, wanted: str, variable: str, rank: int, use: NcclUse) -> bool:
    network_ = use.network.lower()
    if not network_:
        return False
    if not variable:
        return bool(wanted) and network_ not in _NETWORKS.get(wanted, (wanted,))
    value = used.of(variable, rank).lower()
    if variable == "NCCL_NET":
        return bool(value) and network_ not in _NETWORKS.get(value, (value,))
    return bool(value) and value != "none" and network_ in _OWN_NETWORKS and not use.plugins


def sockets(used: Used) -> Iterator[Finding]:
    """NCCL does not use sockets between hosts that have a faster network, unless told to."""
    if used.is_one_host or used.gathered.wants("net") == "socket":
        return
    most = max((_active_ports(node) for _, node in used.gathered.each_node()), default=0)
    fallen = used.ranks(lambda at, use: use.network == "Socket" and not _asks_for_sockets(used, at))
    if most and fallen:
        first = used.uses[fallen[0]]
        yield _finding(
            used,
            Severity.WARNING,
            f"NCCL uses sockets, though hosts have up to {most} active fabric ports,",
            fallen,
            evidence=few([*filter(None, [first.no_plugin]), *first.warnings]),
            hint="give the job the devices and the network plugin, or say NCCL_NET=Socket to mean it",
        )


def _active_ports(node: NodeFacts) -> int:
    return sum(bool(nic.up) for nic in fabric(node.nics))


def _asks_for_sockets(used: Used, rank: int) -> bool:
    return used.of("NCCL_NET", rank).lower() == "socket" or used.of("NCCL_IB_DISABLE", rank) == "1"


def one_network(used: Used) -> Iterator[Finding]:
    """All ranks use the same network."""
    names = {at: use.network for at, use in enumerate(used.uses) if use.network}
    found = split(names)
    if found is not None:
        yield Finding(
            Severity.ERROR,
            f"NCCL's network: {difference(found, used.gathered.hosts)}",
            hint="give all hosts the same devices, plugin and variables",
            rank=found.odd,
            host=used.gathered.hosts[found.odd],
        )


_OFF: Final = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_CUMEM_ENABLE")


def inside_hosts(used: Used) -> Iterator[Finding]:
    """Ranks of one host reach each other over NVLink or PCIe, not over a network or host memory."""
    over_net = used.ranks(lambda at, use: any(kind.startswith("NET/") for kind in use.inside))
    over_memory = used.ranks(lambda at, use: "SHM" in use.inside and _has_links(used, at))
    for ranks, how in ((over_net, "a network"), (over_memory, "host memory, though its GPUs have NVLinks,")):
        if ranks:
            kinds = [f"{kind} {count}" for kind, count in used.uses[ranks[0]].inside.items()]
            told = [f"{name}={value}" for name in _OFF if (value := used.of(name, ranks[0]))]
            yield _finding(
                used,
                Severity.WARNING,
                f"NCCL's ranks of one host talk over {how}",
                ranks,
                evidence=f"connections by kind: {few(kinds)}" + (f"; set: {few(told)}" if told else ""),
                hint=f"unset {told[0].partition('=')[0]}" if told else "look at `nvidia-smi topo -p2p n`",
            )


def _has_links(used: Used, rank: int) -> bool:
    gpu = used.gathered.ranks[rank].gpu
    return gpu is not None and gpu.links_active > 0


# ---- features ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Feature:
    """``word`` is that of --expect-use. ``asks`` are variables, and whether a value of theirs switches it on;
    ``used`` says whether it is in use, None where the log does not tell. ``beyond_host``: it means nothing on
    one host.
    """

    word: str
    name: str
    asks: tuple[tuple[str, Callable[[str], bool]], ...]
    used: Callable[[NcclUse], bool | None]
    reason: Callable[[NcclUse], str] = lambda use: ""
    beyond_host: bool = False
    hint: str = "look at NCCL_DEBUG=INFO for the reason, or do not ask for it"


def _is_one(value: str) -> bool:
    return value == "1"


def _gdr(use: NcclUse) -> bool | None:
    if not any(kind.startswith("NET/") for kind in use.between):
        return None
    return any(kind.endswith("/GDRDMA") for kind in use.between)


FEATURES: Final = (
    Feature(
        "gdr",
        "GPUDirect RDMA",
        (
            ("NCCL_NET_GDR_LEVEL", lambda value: value.upper() not in ("", "0", "LOC")),
            ("NCCL_NET_GDR_READ", _is_one),
            ("NCCL_NET_GDR_C2C", _is_one),
        ),
        _gdr,
        lambda use: use.gdr_reason,
        beyond_host=True,
        hint="load nvidia_peermem, or look how far GPU and NIC are apart (nvidia-smi topo -m)",
    ),
    Feature(
        "collnet",
        "CollNet (SHARP)",
        (("NCCL_COLLNET_ENABLE", _is_one),),
        lambda use: use.collnet or False,
        lambda use: use.collnet_reason,
        beyond_host=True,
        hint="give NCCL the SHARP plugin, and look whether sharpd and the fabric's aggregation run",
    ),
    Feature(
        "nvls",
        "NVLink SHARP (NVLS)",
        (("NCCL_NVLS_ENABLE", _is_one),),
        lambda use: use.nvls,
        hint="look at the fabric manager, and whether the job may create multicast objects (cgroups, imex)",
    ),
    Feature(
        "mnnvl",
        "multi-node NVLink (MNNVL)",
        (("NCCL_MNNVL_ENABLE", _is_one),),
        lambda use: use.mnnvl or False,
        beyond_host=True,
        hint="look at nvidia-imex on all hosts of the rack, and at the job's IMEX channel",
    ),
    Feature(
        "gdrcopy",
        "GDRCopy",
        (("NCCL_GDRCOPY_ENABLE", _is_one),),
        lambda use: use.gdrcopy or False,
        hint="load gdrdrv, and give the job /dev/gdrdrv and libgdrapi.so",
    ),
)


def features(used: Used) -> Iterator[Finding]:
    """Every feature that was asked for is in use, and none that was to be off."""
    for feature in FEATURES:
        wanted = used.gathered.wants(feature.word)
        if wanted == "0":
            there = used.ranks(partial(_in_use, feature))
            if there:
                yield _finding(
                    used, Severity.ERROR, f"{feature.word}=0 is expected, and {feature.name} is in use", there
                )
        elif not (feature.beyond_host and used.is_one_host):
            yield from _unused(used, feature, expected=wanted == "1")


def _in_use(feature: Feature, rank: int, use: NcclUse) -> bool:  # noqa: ARG001 (as Used.ranks calls it)
    return feature.used(use) is True


def _unused(used: Used, feature: Feature, *, expected: bool) -> Iterator[Finding]:
    lacking = used.ranks(
        lambda at, use: feature.used(use) is False and bool(expected or _asking(used, feature, at))
    )
    if lacking:
        yield _finding(
            used,
            Severity.ERROR if expected else Severity.WARNING,
            f"{_asking(used, feature, lacking[0]) or f'{feature.word}=1'} is asked for, and NCCL does not use"
            f" {feature.name}",
            lacking,
            evidence=feature.reason(used.uses[lacking[0]]),
            hint=feature.hint,
        )


def _asking(used: Used, feature: Feature, rank: int) -> str:
    """The variable that asks, with its value; empty where none does."""
    settings = ((name, used.of(name, rank), asks) for name, asks in feature.asks)
    return next((f"{name}={value}" for name, value, asks in settings if asks(value)), "")


def tuner(used: Used) -> Iterator[Finding]:
    """A tuner that was asked for is in use."""
    wanted = used.gathered.wants("tuner")
    lacking = used.ranks(lambda at, use: not use.tuner and bool(wanted or _asked_tuner(used, at)))
    if lacking:
        plugin = _asked_tuner(used, lacking[0])
        asked = f"NCCL_TUNER_PLUGIN={plugin}" if plugin else f"tuner={wanted}"
        yield _finding(
            used,
            Severity.ERROR if wanted else Severity.WARNING,
            f"{asked} is asked for, and NCCL uses no tuner",
            lacking,
            hint="look at NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING for the reason",
        )


def _asked_tuner(used: Used, rank: int) -> str:
    value = used.of("NCCL_TUNER_PLUGIN", rank)
    return "" if value.lower() == "none" else value


def unheard(used: Used) -> Iterator[Finding]:
    """NCCL's log was read on all ranks."""
    deaf = [at for at, use in enumerate(used.uses) if not use.heard]
    if deaf:
        yield _finding(
            used,
            Severity.INFO,
            "what NCCL uses was not observed: it wrote no log that could be read",
            deaf,
            hint="leave NCCL_DEBUG and NCCL_DEBUG_FILE unset, or set both",
        )


def warnings(used: Used) -> Iterator[Finding]:
    """NCCL warns of nothing."""
    ranks = used.ranks(lambda at, use: bool(use.warnings))
    if ranks:
        yield _finding(
            used, Severity.INFO, "NCCL warns", ranks, evidence=few(list(used.uses[ranks[0]].warnings))
        )


CHECKS: Final[Mapping[str, Callable[[Used], Iterator[Finding]]]] = {
    "network-used": network,
    "sockets": sockets,
    "one-network": one_network,
    "inside-hosts": inside_hosts,
    "features-used": features,
    "tuner-used": tuner,
    "unheard": unheard,
    "nccl-warnings": warnings,
}


def judge_use(used: Used) -> tuple[Finding, ...]:
    """All findings, the worst first."""
    found = [replace(each, check=name) for name, find in CHECKS.items() for each in find(used)]
    return worst_first(strictly(found) if used.gathered.asked.strict else found)
