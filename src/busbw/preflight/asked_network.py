"""The network, the provider below it and the paths inside hosts: asked against used. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from busbw.model.finding import Finding, Severity
from busbw.preflight.facts import NodeFacts
from busbw.preflight.meant import SLOW_PROVIDERS, cores, means_sockets, names_a_fabric, setting_of_a_fabric
from busbw.preflight.nccl_log import NcclUse
from busbw.preflight.network import fabric
from busbw.preflight.odd import difference, few, split
from busbw.preflight.used import Used, about, said

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
_PLUGIN_HINT: Final = (
    "put the plugin's folder on LD_LIBRARY_PATH; NCCL_DEBUG=INFO says more of why it was left"
)
_HINTS: Final = {
    "ib": "give the job the devices (/dev/infiniband), and look at NCCL_IB_HCA and NCCL_IB_DISABLE",
    "socket": "unset NCCL_NET_PLUGIN, or look which network the plugin prefers",
}
_OWN_NETWORKS: Final = ("ib", "socket")


def is_network(network: str, wanted: str) -> bool:
    """Whether NCCL's name of a network is one that a word of --expect-use or NCCL_NET means."""
    network, wanted = network.lower(), wanted.lower()
    pattern = _NETWORKS.get(wanted)
    return network == wanted or (pattern is not None and pattern.fullmatch(network) is not None)


# What says which network is to be used: variables, and words of --expect-use.
_NAMING: Final = ("NCCL_NET", "NCCL_NET_PLUGIN", "net", "provider", "FI_PROVIDER", "OFI_NCCL_PROTOCOL")


def network(used: Used) -> Iterator[Finding]:
    """The network that was asked for is the one in use."""
    for name in _NAMING:
        wrong = used.ranks(partial(_is_other_network, used, name))
        if not wrong:
            continue
        value = _asked(used, name, wrong[0])
        yield about(
            used,
            Severity.ERROR,
            f"{name}={value} is asked for, and NCCL uses {used.uses[wrong[0]].network}",
            wrong,
            evidence=said(used, wrong, partial(_reasons, value)),
            hint=_HINTS.get(value.lower(), _PLUGIN_HINT),
        )
        return


def _asked(used: Used, name: str, rank: int) -> str:
    """The value of a variable, or of a word of --expect-use."""
    return used.gathered.wants(name) if name.islower() else used.of(name, rank)


def _reasons(asked: str, rank: int, use: NcclUse) -> Iterator[str]:  # noqa: ARG001 (as ``said`` calls it)
    """Of a network that is not in use. NCCL looks for a plugin in every run, so that none is there says
    something only where one was meant: NCCL's own networks need none.
    """
    if asked.lower() == "ib":
        yield use.no_device
    elif asked.lower() != "socket" and not use.plugins:
        yield use.no_plugin
    yield from (f"failed to initialize {name}" for name in use.failed)
    yield f"provider {use.provider}" if use.provider else ""
    yield from use.warnings


def _is_other_network(used: Used, name: str, rank: int, use: NcclUse) -> bool:
    network_, value = use.network.lower(), _asked(used, name, rank).lower()
    if not network_ or not value:
        return False
    if name in ("NCCL_NET", "net"):
        return not is_network(network_, value)
    if name == "provider":
        return not is_network(network_, "ofi")
    if name in ("FI_PROVIDER", "OFI_NCCL_PROTOCOL"):  # they may be meant for MPI beside NCCL over InfiniBand
        is_fabric = name != "FI_PROVIDER" or names_a_fabric(value)
        return is_fabric and network_ == "socket" and _is_fallen(used, rank)
    if value == "none" or network_ not in _OWN_NETWORKS:
        return False
    # Loaded is not used: NCCL leaves a plugin that finds no device. One may have the name of NCCL's own.
    named = used.of("NCCL_NET", rank).lower() in _OWN_NETWORKS
    return not named and network_ not in (name.lower() for name in use.plugins)


def _is_fallen(used: Used, rank: int) -> bool:
    """Whether sockets, which are in use between hosts, are what nobody asked for."""
    return not (used.is_one_host or used.gathered.wants("net") == "socket" or _asks_for_sockets(used, rank))


def provider(used: Used) -> Iterator[Finding]:
    """Libfabric uses the provider that was asked for, and one of a fabric where a fabric is asked for."""
    wanted = used.gathered.wants("provider")
    for asked, wrong in (
        ("provider={wanted}", used.ranks(lambda at, use: bool(wanted) and _is_other_provider(wanted, use))),
        (
            "FI_PROVIDER={variable}",
            used.ranks(lambda at, use: _is_other_provider(used.of("FI_PROVIDER", at), use)),
        ),
        ("a fabric over libfabric", used.ranks(lambda at, use: _falls_back(used, at, use))),
    ):
        if wrong:
            first = used.uses[wrong[0]]
            word = asked.format(wanted=wanted, variable=used.of("FI_PROVIDER", wrong[0]))
            yield about(
                used,
                Severity.ERROR,
                f"{word} is asked for, and libfabric's provider is {first.provider}",
                wrong,
                evidence=said(
                    used, wrong, lambda _, use: (f"network {use.network or 'not said'}", *use.warnings)
                ),
                hint="give the job the fabric's devices and a libfabric that has its provider (`fi_info -l`)",
            )
            return


def _providers(use: NcclUse) -> set[str]:
    """Those in use: a plugin may choose one, and NCCL another network after all."""
    return cores(use.provider) if not is_without_libfabric(use) else set()


def is_without_libfabric(use: NcclUse) -> bool:
    """Whether NCCL is known to use another network, which has no provider."""
    return bool(use.network) and not is_network(use.network, "ofi")


def _is_other_provider(wanted: str, use: NcclUse) -> bool:
    """Whether none of ``wanted`` is in use; ``^`` excludes those that follow, as libfabric reads it."""
    named, there = cores(wanted.removeprefix("^")), _providers(use)
    if not named or not there:
        return False
    return bool(named & there) if wanted.startswith("^") else not named & there


def _falls_back(used: Used, rank: int, use: NcclUse) -> bool:
    """A fabric is asked for and libfabric has sockets, which nobody named."""
    named = used.of("FI_PROVIDER", rank)
    if used.is_one_host or not _is_slow(use) or (named and not named.startswith("^")):
        return False
    net, plugin = used.of("NCCL_NET", rank), used.of("NCCL_NET_PLUGIN", rank).lower()
    asks = (used.gathered.wants("net"), net)
    return "ofi" in plugin or any(_NETWORKS.get(word.lower()) is _LIBFABRIC for word in asks)


def _is_slow(use: NcclUse) -> bool:
    return not _providers(use).isdisjoint(SLOW_PROVIDERS)


def sockets(used: Used) -> Iterator[Finding]:
    """NCCL does not use sockets between hosts that have or are set up for a fabric, unless told to."""
    most = max((_active_ports(node) for _, node in used.gathered.each_node()), default=0)
    fallen = used.ranks(
        lambda at, use: (
            _by_sockets(use) and _is_fallen(used, at) and bool(most or _setting_of_a_fabric(used, at))
        )
    )
    if fallen:
        first = used.uses[fallen[0]]
        reason = f"hosts have up to {most} active fabric ports"
        yield about(
            used,
            Severity.WARNING,
            f"NCCL uses {_kind(first)}, though"
            f" {reason if most else f'{_setting_of_a_fabric(used, fallen[0])} is set'},",
            fallen,
            evidence=said(used, fallen, lambda _, use: (use.no_device or use.no_plugin, *use.warnings)),
            hint="give the job the devices and the network plugin, or say NCCL_NET=Socket to mean it",
        )


def _setting_of_a_fabric(used: Used, rank: int) -> str:
    return setting_of_a_fabric(used.gathered.ranks[rank].environ)


def _by_sockets(use: NcclUse) -> bool:
    return use.network == "Socket" or _is_slow(use)


def _kind(use: NcclUse) -> str:
    return "sockets" if use.network == "Socket" else f"libfabric's provider {use.provider}"


def _active_ports(node: NodeFacts) -> int:
    return sum(bool(nic.up) for nic in fabric(node.nics))


def _asks_for_sockets(used: Used, rank: int) -> bool:
    if used.uses[rank].network != "Socket":  # libfabric's: named, or already said to be wrong
        return bool(used.of("FI_PROVIDER", rank)) or _falls_back(used, rank, used.uses[rank])
    return means_sockets(used.gathered.ranks[rank].environ)


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
            told = {name: value for name in _OFF if (value := used.of(name, ranks[0]))}
            pairs = [f"{name}={value}" for name, value in told.items()]
            yield about(
                used,
                Severity.WARNING,
                f"NCCL's ranks of one host talk over {how}",
                ranks,
                evidence=f"connections by kind: {few(kinds)}" + (f"; set: {few(pairs)}" if told else ""),
                hint=f"unset {few(list(told))}" if told else "look at `nvidia-smi topo -p2p n`",
            )


def _has_links(used: Used, rank: int) -> bool:
    gpu = used.gathered.ranks[rank].gpu
    return gpu is not None and gpu.links_active > 0
