"""Where hosts are connected, as clusters write it: one row a kind of text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from busbw.rank.world.slurm_text import expand_hosts

# Parsed JSON, or text that is none.
Document = Any

# Labels of Kubernetes nodes, from the top layer down: AWS (cloud provider; network-node-layer-1 is the top),
# Google (gce-topology), Oracle, NVIDIA topograph. A node has those of one source.
# https://github.com/NVIDIA/topograph, docs/reference/node-labels.md (2026-04).
SWITCH_LABELS: Final = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    *(f"topology.k8s.aws/network-node-layer-{layer}" for layer in range(1, 5)),
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "oci.oraclecloud.com/host.network_block_id",
    "oci.oraclecloud.com/host.rack_id",
    *(f"network.topology.nvidia.com/{layer}" for layer in ("core", "spine", "leaf")),
)
# Labels of an NVLink domain, the narrowest first: hosts with the same value reach each other over NVLink.
DOMAIN_LABELS: Final = (
    "nvidia.com/gpu.clique",
    "ds.coreweave.com/nvlink.domain",
    "topology.k8s.aws/ultraserver-id",
    "network.topology.nvidia.com/accelerator",
)
# On these a capacity block is one NVLink domain (EC2 API reference, InstanceTopology; UltraServers).
_ULTRASERVERS: Final = "p6e-"
_INSTANCE: Final = re.compile(r"i-[0-9a-f]{8,17}\Z")
_SLURM_LINE: Final = re.compile(r"(?im)^\s*(SwitchName|BlockName|AggregatedBlock)=")
_SLURM_FIELD: Final = re.compile(r"(\w+)=(\S*)")


@dataclass(frozen=True)
class Place:
    """Where a host hangs: its ``switches`` from the top layer down to the one that it is connected to, and
    the NVLink ``domain`` that it belongs to; empty where not known.
    """

    switches: tuple[str, ...] = ()
    domain: str = ""


# The names of a host, that of the text itself first, and its place where the text says it.
Row = tuple[tuple[str, ...], Place | None]


@dataclass(frozen=True)
class Kind:
    """One kind of text. ``made_by`` is the command that writes it; ``fits`` recognises it; ``read`` gives its
    rows, and raises KeyError, TypeError, ValueError or AttributeError for one that is damaged.
    """

    name: str
    made_by: str
    fits: Callable[[Document], bool]
    read: Callable[[Document], Iterator[Row]]


def _names(name: str, *others: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((name, *filter(None, others))))


# ---- AWS ---------------------------------------------------------------------------------------------


def _read_aws(document: Document) -> Iterator[Row]:
    """All layers, however many: NetworkNodes goes from the top to the one that the instance is connected to
    (three on most instances, four from p6 on).
    """
    for instance in document["Instances"]:
        is_domain = instance.get("InstanceType", "").startswith(_ULTRASERVERS)
        domain = (instance.get("CapacityBlockId") or "") if is_domain else ""
        yield (instance["InstanceId"],), Place(tuple(instance.get("NetworkNodes") or ()), domain)


def _read_instances(document: Document) -> Iterator[Row]:
    """Instance ids and the names that hosts have in DNS, by address, and by tag."""
    for reservation in document["Reservations"]:
        for instance in reservation["Instances"]:
            tags = [tag["Value"] for tag in instance.get("Tags", ()) if tag["Key"] == "Name"]
            words = [instance.get(key, "") for key in ("PrivateDnsName", "PrivateIpAddress")]
            yield _names(instance["InstanceId"], *words, *tags), None


# ---- Slurm -------------------------------------------------------------------------------------------


def _read_slurm(document: Document) -> Iterator[Row]:
    """topology.conf or `scontrol show topology`, of topology/tree or topology/block (Slurm 22.05 to 25.05).

    The latter lists at upper switches all nodes below, too: the lowest switch of a node is the one without
    children.
    """
    above: dict[str, str] = {}
    lowest: dict[str, str] = {}
    for fields in _slurm_lines(document):
        name = fields.get("switchname") or fields.get("blockname") or ""
        children = expand_hosts(fields.get("switches") or fields.get("children") or "")
        if blocks := fields.get("aggregatedblock"):
            name, children = f"blocks {blocks}", expand_hosts(blocks)
        for child in children:
            # Larger blocks are of the same smallest ones, and come behind the smaller.
            lower = _path(child, above)[0] if blocks else child
            if lower != name:
                above.setdefault(lower, name)
        if not children:
            lowest.update(dict.fromkeys(expand_hosts(fields.get("nodes", "")), name))
    for node, name in lowest.items():
        yield (node,), Place(_path(name, above))


def _slurm_lines(text: str) -> Iterator[dict[str, str]]:
    for line in re.sub(r"\\\n", " ", text).splitlines():
        fields = {key.lower(): value for key, value in _SLURM_FIELD.findall(line.partition("#")[0])}
        if {"switchname", "blockname", "aggregatedblock"} & fields.keys():
            yield fields


def _path(name: str, above: Mapping[str, str]) -> tuple[str, ...]:
    path = [name]
    while (upper := above.get(path[0])) is not None and upper not in path:
        path.insert(0, upper)
    return tuple(path)


# ---- Kubernetes, runs of busbw, lines ----------------------------------------------------------------


def _read_nodes(document: Document) -> Iterator[Row]:
    for node in document["items"]:
        labels = node["metadata"].get("labels") or {}
        domain = next(filter(None, map(labels.get, DOMAIN_LABELS)), "")
        addresses = [one["address"] for one in (node.get("status") or {}).get("addresses", ())]
        # aws:///us-west-2a/i-0123456789abcdef0
        provider = (node.get("spec") or {}).get("providerID", "").rpartition("/")[2]
        place = Place(tuple(filter(None, map(labels.get, SWITCH_LABELS))), domain)
        yield _names(node["metadata"]["name"], *addresses, provider), place


def _read_record(document: Document) -> Iterator[Row]:
    """A run records which instances, nodes and pods its hosts were, and what Slurm and NVML said of them."""
    for host in document["world"]["places"]:
        name, others = host["host"], ("instance", "slurm_node", "pod", "kubernetes_node")
        switches = _address(host.get("slurm_topology", ""), host.get("slurm_node", "") or name)
        names = _names(name, *(host.get(key, "") for key in others))
        yield names, Place(switches, host.get("nvlink_domain", ""))


def _read_lines(document: Document) -> Iterator[Row]:
    """``HOST INSTANCE`` (EC2's), or ``HOST SWITCH.SWITCH [DOMAIN]`` as SLURM_TOPOLOGY_ADDR has it, from the
    top.
    """
    for host, what, *rest in _words(document):
        if _INSTANCE.match(what):
            yield (host, what), None
        else:
            yield (host,), Place(_address(what, host), rest[0] if rest else "")


def _address(text: str, node: str) -> tuple[str, ...]:
    """The switches of an address, which ends with the node's own name where Slurm wrote it."""
    parts = text.split("/" if "/" in text else ".")
    return tuple(filter(None, parts[:-1] if parts[-1] == node else parts))


def _words(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if words := line.partition("#")[0].split():
            yield words


def _is_lines(document: Document) -> bool:
    rows = list(_words(document)) if isinstance(document, str) else []
    return bool(rows) and all(len(words) in (2, 3) for words in rows)


def _has(*path: str) -> Callable[[Document], bool]:
    """Whether a document is an object with these keys in each other."""

    def fits(document: Document) -> bool:
        for key in path:
            if not isinstance(document, dict) or key not in document:
                return False
            document = document[key]
        return True

    return fits


KINDS: Final = (
    Kind("aws", "aws ec2 describe-instance-topology", _has("Instances"), _read_aws),
    Kind("aws instances", "aws ec2 describe-instances", _has("Reservations"), _read_instances),
    Kind(
        "slurm",
        "scontrol show topology (or topology.conf)",
        lambda document: isinstance(document, str) and bool(_SLURM_LINE.search(document)),
        _read_slurm,
    ),
    Kind("kubernetes", "kubectl get nodes -o json", _has("items"), _read_nodes),
    Kind("run", "busbw run (its run.json)", _has("world", "places"), _read_record),
    Kind("lines", "lines `HOST SWITCH.SWITCH` or `HOST INSTANCE`", _is_lines, _read_lines),
)
