"""How many bytes an operation moves through a GPU's link and through the NICs of a node, by algorithm.

With S the message size as nccl-tests defines it, n ranks, N nodes, g = n / N. Sources: the algorithms
themselves (nccl-tests PERFORMANCE.md for rings and pairs; NVIDIA/nccl-tests issues 212 and 239 for NVLS,
where a GPU sends and receives S (1 + 1/n); NVIDIA/nccl issue 320 for trees over two nodes). LL sends a flag
with every 4 bytes and LL128 with every 120.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_PROTOCOL: Final = {"SIMPLE": 1.0, "LL128": 128 / 120, "LL": 2.0}
_SHARED: Final = ("all_gather", "reduce_scatter")


@dataclass(frozen=True)
class Moved:
    """Bytes of one call in each direction. ``exact`` is False where any algorithm must move that much, and
    the one that ran may have moved more. ``mean`` is whether single nodes or GPUs may move less, and only
    the mean over all of them is meant.
    """

    bytes: float
    exact: bool
    model: str
    mean: bool = False


@dataclass(frozen=True)
class Part:
    """What goes through one kind of link, over S. ``most`` is of the busiest one, where links differ (0: not
    known). ``counts``: the counters of each link show it, else it is a bound alone.
    """

    share: float
    words: str
    most: float | None = None
    mean: bool = False
    counts: bool = True

    @property
    def bound(self) -> float:
        """Of the busiest link."""
        return self.share if self.most is None else self.most


@dataclass(frozen=True)
class Way:
    """An algorithm for an operation. ``gpu`` is of a GPU's link inside one node, ``node`` of the NICs of a
    node, ``inside`` of a GPU's link where there are several nodes (over S): whatever switches add up, a GPU
    sends its own part once. None where no model is known. ``exact`` is as of Moved; ``flags``: the flags of
    LL and LL128 count too. ``switched`` is done by the NVSwitch, so not over PCIe.
    """

    name: str
    gpu: Part | None = None
    node: Part | None = None
    inside: float | None = None
    exact: bool = True
    flags: bool = False
    switched: bool = False


def way_of(operation: str, algorithm: str, ranks: int, nodes: int) -> Way | None:
    """How an operation moves its bytes; None where the algorithm was not observed and matters, or no model
    of it is known. ``algorithm`` is the library's word (RING, TREE, NVLS, ...), and its protocol.
    """
    word, _ = _words(algorithm)
    once = (ranks - 1) / ranks  # each rank's part to all others
    part = Part(once, "S (n-1)/n")
    # Whatever the algorithm: every rank must send to every other, or to the next one; all that is broadcast
    # comes into every GPU and node but the root's, and what is reduced into the root's.
    if operation == "alltoall":
        here = ranks / nodes
        return Way("pairs", part, Part(here * (ranks - here) / ranks, "g S (n-g)/n"))
    whole = Part(1.0, "S", counts=False)
    if operation == "sendrecv":
        return Way("one send", Part(1.0, "S"), whole, inside=1.0)
    if operation in ("broadcast", "reduce"):
        return Way("all data through the busiest link", whole, whole, inside=1.0)
    if operation == "all_reduce":
        return _all_reduce(word, ranks, nodes)
    if operation not in _SHARED:
        return None
    if word == "RING":
        return Way("ring", part, part, inside=once, flags=True)
    each_node = Part((nodes - 1) / nodes, "S (N-1)/N")
    if word == "NVLS":
        name = "NVLS, the own share comes back too"
        return Way(name, whole, each_node, inside=once, exact=False, switched=True)
    if word in ("PAT", "COLLNET_DIRECT"):
        return Way("each byte once to each node", None, each_node, inside=once, exact=False)
    return None


def _all_reduce(word: str, ranks: int, nodes: int) -> Way | None:
    twice = 2 * (ranks - 1) / ranks
    reduced = Part(1.0, "S, the network reduces")
    if word == "RING":
        gpu, node = Part(twice, "2 S (n-1)/n", mean=True), Part(twice, "2 S (n-1)/n")
        return Way("ring", gpu, node, inside=twice, flags=True)
    if word in ("TREE", "NVLS_TREE", "NVLSTREE"):
        edges = {2: 1.0, 3: 1.5}.get(nodes, 2.0)  # of the busiest node in both trees together
        node = Part(2 * (nodes - 1) / nodes, "2 S (N-1)/N", most=edges, mean=True)
        inside = Part(twice, "2 S (n-1)/n", most=0.0, mean=True)
        return Way("double tree", inside if word == "TREE" else None, node, inside=1.0, flags=True)
    # Over several nodes NCCL takes NVLS only with a network that reduces.
    if word == "NVLS":
        gpu = Part(1 + 1 / ranks, "S (1 + 1/n)")
        return Way("NVLS, the switch reduces", gpu, reduced, inside=1.0, switched=True)
    return Way("CollNet", None, reduced, inside=1.0) if word.startswith("COLLNET") else None


def node_bytes(
    operation: str, algorithm: str, size_bytes: int, ranks: int, nodes: int, *, network_reduces: bool = False
) -> Moved | None:
    """What a node must send to the others, and receive; None where no model is known, or one node is
    all there is. ``network_reduces`` is whether switches may have reduced where no algorithm was seen.

    The least of an all_reduce by sends and receives is a mean: each byte of the result takes N - 1 sends to
    come together and N - 1 to be spread, but a leaf of a tree has only one of each.
    """
    if nodes < 2 or ranks < nodes:
        return None
    way = way_of(operation, algorithm, ranks, nodes)
    if way is not None and way.node is not None:
        return _moved(way, way.node, algorithm, size_bytes)
    least = size_bytes * (nodes - 1) / nodes
    if operation == "all_reduce" and network_reduces and not algorithm:
        return Moved(size_bytes, False, "any algorithm, the network may reduce: S")
    if operation == "all_reduce":
        words = "any algorithm of sends and receives: 2 S (N-1)/N, mean over nodes"
        return Moved(2 * least, False, words, mean=True)
    return Moved(least, False, "any algorithm: S (N-1)/N") if operation in _SHARED else None


def gpu_bytes(operation: str, algorithm: str, size_bytes: int, ranks: int) -> Moved | None:
    """What a GPU must send over NVLink, and receive, where all ranks are in one NVLink domain; None where the
    algorithm was not observed, or no model of it is known.
    """
    way = way_of(operation, algorithm, ranks, 1) if ranks > 1 else None
    return None if way is None or way.gpu is None else _moved(way, way.gpu, algorithm, size_bytes)


def _moved(way: Way, part: Part, algorithm: str, size_bytes: int) -> Moved | None:
    if not part.counts:
        return None
    factor = _words(algorithm)[1] if way.flags else 1.0
    words = f"{way.name}: {part.words}{', a mean' if part.mean else ''}"
    return Moved(size_bytes * part.share * factor, way.exact, words, part.mean)


def _words(algorithm: str) -> tuple[str, float]:
    """The algorithm's name, and how many bytes its protocol sends for each of data."""
    words = algorithm.upper().split()
    protocol = words[1] if len(words) > 1 else "SIMPLE"
    return (words[0] if words else ""), _PROTOCOL.get(protocol, 1.0)
