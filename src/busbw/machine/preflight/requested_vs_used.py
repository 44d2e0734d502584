"""Asked against used: what variables and presets ask of NCCL, and what its log says. Pure.

NCCL goes on without a plugin, NIC or feature that it cannot have, and says so in its log alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from busbw.machine.preflight.environment import setting
from busbw.machine.preflight.facts import Gathered
from busbw.machine.preflight.nccl_log import NcclUse
from busbw.machine.preflight.network import SLOW_PROVIDERS, cores, fabric, means_sockets, names_a_fabric
from busbw.machine.preflight.outlier_ranks import few, judged, odd_ranks, where
from busbw.model.finding import Finding, Severity


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
        """A variable's value on a rank: of the environment, else of a file of NCCL's settings."""
        return setting(self.gathered.ranks[rank].environ, variable)

    def has_links(self, rank: int) -> bool:
        """Whether its GPU has NVLinks."""
        gpu = self.gathered.ranks[rank].gpu
        return gpu is not None and gpu.links_active > 0

    def ranks(self, holds: Callable[[int, NcclUse], bool]) -> list[int]:
        """The ranks that were heard and for which this holds."""
        return [at for at, use in enumerate(self.uses) if use.heard and holds(at, use)]


def _about(
    used: Used, severity: Severity, claim: str, ranks: Sequence[int], said: Iterable[str] = (), hint: str = ""
) -> Finding:
    """``claim`` about ranks, in words that name them; ``said`` is what the first of them logged about it."""
    words = [word for word in said if word]
    evidence = f"NCCL says: {few(words)}" if words else ""
    place, rank, host = where(ranks, used.gathered.hosts, "all ranks")
    there = "here" if len(used.uses) == 1 else f"on {place}"
    return Finding(severity, f"{claim} {there}", evidence, hint, rank, host)


# ---- the network and the provider below it -----------------------------------------------------------

# What a word of --expect-use or NCCL_NET means in NCCL's own names, lower case; other words are such a name.
# aws-ofi-nccl dropped "AWS" in 1.14; HPC-X's plugin calls InfiniBand IBext, or IBext_v8 after its interface.
# NCCL that serves an older interface keeps the name which that plugin had before it looked for devices: "NCCL
# RDMA Plugin v10" (plugin/net/net_v10.cc, since 2.26 or so). SPCX is NVIDIA's plugin for RoCE on Spectrum-X.
_LIBFABRIC: Final = re.compile(r"(aws )?libfabric")
_NETWORKS: Final[Mapping[str, re.Pattern[str]]] = {
    "ib": re.compile(r"ib(ext(_v\d+)?)?|nccl rdma plugin( v\d+)?|spcx"),
    "ofi": _LIBFABRIC,
    "aws libfabric": _LIBFABRIC,
    "libfabric": _LIBFABRIC,
}
_PLUGIN_HINT: Final = "put the plugin's folder on LD_LIBRARY_PATH; NCCL_DEBUG=INFO shows why it was not used"
_HINTS: Final = {
    "ib": "give the job the devices (/dev/infiniband), and check NCCL_IB_HCA and NCCL_IB_DISABLE",
    "socket": "unset NCCL_NET_PLUGIN, or check which network the plugin prefers",
}
_OWN_NETWORKS: Final = ("ib", "socket")
# What says which network is to be used: variables, and words of --expect-use.
_NAMING: Final = ("NCCL_NET", "NCCL_NET_PLUGIN", "net", "provider", "FI_PROVIDER")


def _is_network(network: str, wanted: str) -> bool:
    """Whether NCCL's name of a network is one that a word of --expect-use or NCCL_NET means."""
    network, wanted = network.lower(), wanted.lower()
    pattern = _NETWORKS.get(wanted)
    return network == wanted or (pattern is not None and pattern.fullmatch(network) is not None)


def network(used: Used) -> Iterator[Finding]:
    """The network that was asked for is the one in use."""
    for name in _NAMING:
        wrong = used.ranks(partial(_is_other_network, used, name))
        if wrong:
            value, first = _asked(used, name, wrong[0]), used.uses[wrong[0]]
            claim = f"{name}={value} was requested, but NCCL uses {first.network}"
            hint = _HINTS.get(value.lower(), _PLUGIN_HINT)
            yield _about(used, Severity.ERROR, claim, wrong, said=_reasons(value, first), hint=hint)
            return


def _asked(used: Used, name: str, rank: int) -> str:
    """The value of a variable, or of a word of --expect-use."""
    return used.gathered.wants(name) if name.islower() else used.of(name, rank)


def _reasons(asked: str, use: NcclUse) -> Iterator[str]:
    """Why a network is not in use. NCCL looks for a plugin in every run, so that none is there says something
    only where one was meant: NCCL's own networks need none.
    """
    if asked.lower() == "ib":
        yield use.no_device
    elif asked.lower() != "socket" and not use.plugins:
        yield use.no_plugin
    yield from (f"failed to initialize {name}" for name in use.failed)
    yield f"provider {use.provider}" if use.provider else ""
    yield from use.warnings


def _is_other_network(used: Used, name: str, rank: int, use: NcclUse) -> bool:
    there, value = use.network.lower(), _asked(used, name, rank).lower()
    if not there or not value:
        return False
    if name in ("NCCL_NET", "net"):
        return not _is_network(there, value)
    if name == "provider":
        return not _is_network(there, "ofi")
    if name == "FI_PROVIDER":  # it may be meant for MPI beside NCCL over InfiniBand
        return names_a_fabric(value) and there == "socket" and _is_fallen(used, rank)
    if value == "none" or there not in _OWN_NETWORKS:
        return False
    # Loaded is not used: NCCL leaves a plugin that finds no device. One may have the name of NCCL's own.
    is_named = used.of("NCCL_NET", rank).lower() in _OWN_NETWORKS
    return not is_named and there not in (plugin.lower() for plugin in use.plugins)


def _is_fallen(used: Used, rank: int) -> bool:
    """Whether sockets, which are in use between hosts, are what nobody asked for."""
    if used.is_one_host or used.gathered.wants("net") == "socket":
        return False
    if used.uses[rank].network != "Socket":  # libfabric's: named, or already said to be wrong
        return not (used.of("FI_PROVIDER", rank) or _falls_back(used, rank, used.uses[rank]))
    return not means_sockets(used.gathered.ranks[rank].environ)


def provider(used: Used) -> Iterator[Finding]:
    """Libfabric uses the provider that was asked for, and one of a fabric where a fabric is asked for."""
    asked = {at: _other_provider(used, at, use) for at, use in enumerate(used.uses) if use.heard}
    first = next((at for at, words in asked.items() if words), None)
    if first is None:
        return
    use = used.uses[first]
    claim = f"{asked[first]} was requested, but libfabric's provider is {use.provider}"
    ranks = [at for at, words in asked.items() if words == asked[first]]
    said = (f"network {use.network or 'not said'}", *use.warnings)
    hint = "give the job the fabric's devices and a libfabric with its provider (`fi_info -l`)"
    yield _about(used, Severity.ERROR, claim, ranks, said=said, hint=hint)


def _other_provider(used: Used, rank: int, use: NcclUse) -> str:
    """What asks for another provider than the one in use; ``^`` excludes those that follow, as libfabric
    reads it. Empty where nothing does.
    """
    there = _providers(use)
    asked = (("provider", used.gathered.wants("provider")), ("FI_PROVIDER", used.of("FI_PROVIDER", rank)))
    for name, value in asked:
        named, excludes = cores(value.removeprefix("^")), value.startswith("^")
        if named and there and bool(named & there) is excludes:
            return f"{name}={value}"
    return "a fabric over libfabric" if _falls_back(used, rank, use) else ""


def _providers(use: NcclUse) -> set[str]:
    """Those in use: a plugin may choose one, and NCCL another network after all."""
    return set() if _is_without_libfabric(use) else cores(use.provider)


def _is_without_libfabric(use: NcclUse) -> bool:
    """Whether NCCL is known to use another network, which has no provider."""
    return bool(use.network) and not _is_network(use.network, "ofi")


def _falls_back(used: Used, rank: int, use: NcclUse) -> bool:
    """A fabric is asked for and libfabric has sockets, which nobody named."""
    named = used.of("FI_PROVIDER", rank)
    if used.is_one_host or not _is_slow(use) or (named and not named.startswith("^")):
        return False
    asks = (used.gathered.wants("net"), used.of("NCCL_NET", rank))
    plugin = used.of("NCCL_NET_PLUGIN", rank).lower()
    return "ofi" in plugin or any(_NETWORKS.get(word.lower()) is _LIBFABRIC for word in asks)


def _is_slow(use: NcclUse) -> bool:
    return not _providers(use).isdisjoint(SLOW_PROVIDERS)


def sockets(used: Used) -> Iterator[Finding]:
    """NCCL does not use sockets between hosts that have a fabric, unless told to."""
    active = (sum(bool(nic.up) for nic in fabric(node.nics)) for _, node in used.gathered.nodes)
    most = max(active, default=0)
    fallen = used.ranks(lambda at, use: (use.network == "Socket" or _is_slow(use)) and _is_fallen(used, at))
    if most and fallen:
        use = used.uses[fallen[0]]
        kind = "sockets" if use.network == "Socket" else f"libfabric's provider {use.provider}"
        claim = f"NCCL uses {kind}, though hosts have up to {most} active fabric ports,"
        said = (use.no_device or use.no_plugin, *use.warnings)
        hint = "give the job the devices and the network plugin, or set NCCL_NET=Socket to accept this"
        yield _about(used, Severity.WARNING, claim, fallen, said=said, hint=hint)


def one_network(used: Used) -> Iterator[Finding]:
    """All ranks use the same network."""
    networks = {at: use.network for at, use in enumerate(used.uses)}
    hint = "give all hosts the same devices, plugin and variables"
    yield from odd_ranks(Severity.ERROR, "NCCL's network", networks, used.gathered.hosts, hint=hint)


_OFF: Final = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_CUMEM_ENABLE")


def inside_hosts(used: Used) -> Iterator[Finding]:
    """Ranks of one host reach each other over NVLink or PCIe, not over a network or host memory."""
    over_net = used.ranks(lambda at, use: any(kind.startswith("NET/") for kind in use.inside))
    over_memory = used.ranks(lambda at, use: "SHM" in use.inside and used.has_links(at))
    for ranks, how in ((over_net, "a network"), (over_memory, "host memory, though its GPUs have NVLinks,")):
        if ranks:
            kinds = [f"{kind} {count}" for kind, count in used.uses[ranks[0]].inside.items()]
            off = {name: value for name in _OFF if (value := used.of(name, ranks[0]))}
            pairs = few([f"{name}={value}" for name, value in off.items()])
            claim = f"NCCL's ranks on one host communicate over {how}"
            hint = f"unset {few(list(off))}" if off else "check `nvidia-smi topo -p2p n`"
            evidence = f"connections by kind: {few(kinds)}" + (f"; set: {pairs}" if off else "")
            yield replace(_about(used, Severity.WARNING, claim, ranks, hint=hint), evidence=evidence)


# ---- features ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Feature:
    """``word`` is that of --expect-use, and of NcclUse. A variable of ``asks`` switches it on.
    ``beyond_host``: it means nothing on one host. ``silent``: NCCL writes of it only where it has it, so that
    silence in a log that was heard says no.
    """

    word: str
    name: str
    asks: tuple[str, ...]
    beyond_host: bool = False
    silent: bool = True

    def used(self, use: NcclUse) -> bool | None:
        """Whether it is in use; None where the log does not tell."""
        if self.word == "gdr":
            paths = [kind for kind in use.between if kind.startswith("NET/")]
            return any(kind.endswith("/GDRDMA") for kind in paths) if paths else None
        told: bool | None = getattr(use, self.word)
        return False if told is None and use.heard and self.silent else told

    def asking(self, used: Used, rank: int) -> str:
        """The variable that asks, with its value; empty where none does."""
        settings = [(name, used.of(name, rank)) for name in self.asks]
        return next((f"{name}={value}" for name, value in settings if _switches_on(name, value)), "")


def _switches_on(name: str, value: str) -> bool:
    return value.upper() not in ("", "0", "LOC") if name == "NCCL_NET_GDR_LEVEL" else value == "1"


_GDR: Final = ("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_NET_GDR_C2C")
FEATURES: Final = (
    Feature("gdr", "GPUDirect RDMA", _GDR, beyond_host=True),
    Feature("collnet", "CollNet (SHARP)", ("NCCL_COLLNET_ENABLE",), beyond_host=True),
    Feature("nvls", "NVLink SHARP (NVLS)", ("NCCL_NVLS_ENABLE",), silent=False),
    Feature("mnnvl", "multi-node NVLink (MNNVL)", ("NCCL_MNNVL_ENABLE",), beyond_host=True),
    Feature("gdrcopy", "GDRCopy", ("NCCL_GDRCOPY_ENABLE",)),
)
_FEATURE_HINTS: Final = {
    "gdr": "load nvidia_peermem, or check how far apart GPU and NIC are (nvidia-smi topo -m)",
    "collnet": "give NCCL the SHARP plugin, and check that sharpd and the aggregation manager run",
    "nvls": "check the fabric manager, and that the job may create multicast objects (cgroups, imex)",
    "mnnvl": "check nvidia-imex on all hosts of the rack, and the job's IMEX channel",
    "gdrcopy": "load gdrdrv, and give the job /dev/gdrdrv and libgdrapi.so",
}


def _with_heads(uses: tuple[NcclUse, ...]) -> tuple[NcclUse, ...]:
    """CollNet's paths are those of one rank a host and NIC, which alone log them: the others use it through
    these. What a rank says itself holds.
    """
    if not any(use.collnet for use in uses):
        return uses
    return tuple(replace(use, collnet=True) if use.collnet is None else use for use in uses)


def features(used: Used) -> Iterator[Finding]:
    """Every feature that was asked for is in use, and none that was to be off."""
    for feature in FEATURES:
        wanted = used.gathered.wants(feature.word)
        if wanted == "0":
            there = [at for at, use in enumerate(used.uses) if use.heard and feature.used(use)]
            if there:
                claim = f"{feature.word}=0 was expected, but {feature.name} is in use"
                yield _about(used, Severity.ERROR, claim, there)
        elif not (feature.beyond_host and used.is_one_host):
            yield from _unused(used, feature, expected=wanted == "1")


def _unused(used: Used, feature: Feature, *, expected: bool) -> Iterator[Finding]:
    lacking = used.ranks(
        lambda at, use: feature.used(use) is False and (expected or bool(feature.asking(used, at)))
    )
    if lacking:
        severity = Severity.ERROR if expected else Severity.WARNING
        asked = feature.asking(used, lacking[0]) or f"{feature.word}=1"
        claim = f"{asked} was requested, but NCCL does not use {feature.name}"
        said = (getattr(used.uses[lacking[0]], f"{feature.word}_reason", ""),)
        yield _about(used, severity, claim, lacking, said=said, hint=_FEATURE_HINTS[feature.word])


def tuner(used: Used) -> Iterator[Finding]:
    """A tuner that was asked for is in use."""
    # Of tuner=NAME, NAME is a part of what NCCL calls it; 1 is any tuner and 0 none.
    wanted = used.gathered.wants("tuner")
    wrong = used.ranks(partial(_is_other_tuner, used, wanted))
    if not wrong:
        return
    use, plugin = used.uses[wrong[0]], _asked_tuner(used, wrong[0])
    if wanted == "0":
        yield _about(used, Severity.ERROR, f"tuner=0 was expected, but {use.tuner} is in use", wrong)
        return
    asked = f"NCCL_TUNER_PLUGIN={plugin}" if plugin else f"tuner={wanted}"
    severity = Severity.ERROR if wanted else Severity.WARNING
    claim = f"{asked} was requested, but NCCL uses {use.tuner or 'no tuner'}"
    hint = "read NCCL's reason with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING"
    yield _about(used, severity, claim, wrong, said=(use.no_tuner,), hint=hint)


def _is_other_tuner(used: Used, wanted: str, rank: int, use: NcclUse) -> bool:
    if wanted == "0":
        return bool(use.tuner)
    if use.tuner and wanted not in ("", "1"):
        return wanted.lower() not in use.tuner.lower()
    if not use.tuner and wanted:
        return bool(use.no_tuner)
    # NCCL takes the tuner of the net plugin where it does not find the one that was named.
    return bool(use.no_tuner and _asked_tuner(used, rank))


def _asked_tuner(used: Used, rank: int) -> str:
    value = used.of("NCCL_TUNER_PLUGIN", rank)
    return "" if value.lower() == "none" else value


# ---- what was not observed ---------------------------------------------------------------------------


def unheard(used: Used) -> Iterator[Finding]:
    """NCCL's log was read on all ranks."""
    deaf = [at for at, use in enumerate(used.uses) if not use.heard]
    claim = "what NCCL uses was not observed: it wrote no log that could be read, or none with INIT's lines,"
    if deaf:
        yield _about(used, Severity.INFO, claim, deaf, hint=f"{_UNSET}, or log INIT,ENV,NET")


_UNSET: Final = "unset NCCL_DEBUG, NCCL_DEBUG_FILE and NCCL_DEBUG_SUBSYS"


def expected(used: Used) -> Iterator[Finding]:
    """NCCL's log says of everything that is expected whether it is so."""
    words: dict[tuple[int, ...], list[str]] = {}
    for word, is_told in _TOLD.items():
        value = used.gathered.wants(word)
        silent = tuple(at for at, use in enumerate(used.uses) if value and not is_told(used, use))
        if silent:
            words.setdefault(silent, []).append(f"{word}={value}")
    for ranks, names in words.items():
        verb = "is" if len(names) == 1 else "are"
        claim = f"{', '.join(names)} {verb} expected, but NCCL's log does not show it"
        yield _about(used, Severity.WARNING, claim, ranks, hint=f"{_UNSET}, or do not expect it")


def _tells_feature(feature: Feature, used: Used, use: NcclUse) -> bool:
    if feature.beyond_host and used.is_one_host:
        return True
    # A rank whose connections stay inside its host, beside others that leave it, or that go over NVLink.
    stays = bool(use.inside) and any(other.between for other in used.uses)
    needs_no_network = feature.word == "gdr" and (bool(use.between) or stays)
    return use.heard and (feature.used(use) is not None or needs_no_network)


_TOLD: Final[Mapping[str, Callable[[Used, NcclUse], bool]]] = {
    "net": lambda used, use: bool(use.network),
    "provider": lambda used, use: bool(use.provider or _is_without_libfabric(use)),
    "tuner": lambda used, use: (
        use.heard and bool(use.tuner or use.no_tuner or used.gathered.wants("tuner") == "0")
    ),
    **{feature.word: partial(_tells_feature, feature) for feature in FEATURES},
}


def warnings(used: Used) -> Iterator[Finding]:
    """NCCL warns of nothing."""
    ranks = [at for at, use in enumerate(used.uses) if use.warnings]
    if ranks:
        yield _about(used, Severity.INFO, "NCCL warns", ranks, said=used.uses[ranks[0]].warnings)


CHECKS: Final[Mapping[str, Callable[[Used], Iterator[Finding]]]] = {
    "network-used": network,
    "provider-used": provider,
    "sockets": sockets,
    "one-network": one_network,
    "inside-hosts": inside_hosts,
    "features-used": features,
    "tuner-used": tuner,
    "unheard": unheard,
    "expected": expected,
    "nccl-warnings": warnings,
}


def judge_use(used: Used) -> tuple[Finding, ...]:
    """All findings, the worst first."""
    return judged(CHECKS, replace(used, uses=_with_heads(used.uses)), strict=used.gathered.asked.strict)
