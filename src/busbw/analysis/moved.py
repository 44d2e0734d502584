"""How many bytes an operation must move: out of a node, and out of a GPU.

With S the message size as nccl-tests defines it, n ranks, N nodes, g = n / N. Over all channels of an
algorithm; a double tree's nodes differ a little, so its is the mean over nodes. Sources: the algorithms
themselves (nccl-tests PERFORMANCE.md for rings and pairs; NVIDIA/nccl-tests issues 212 and 239 for NVLS,
where a GPU sends and receives S (1 + 1/n)); LL sends a flag with every 4 bytes and LL128 with every 120.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_PROTOCOL: Final = {"SIMPLE": 1.0, "LL128": 128 / 120, "LL": 2.0}
_TREE: Final = "double tree: 2 S (N-1)/N, mean over nodes"
_LEAST: Final = "any algorithm of sends and receives: 2 S (N-1)/N, mean over nodes"
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
    word, factor = _words(algorithm)
    ring, hierarchy = (ranks - 1) / ranks, (nodes - 1) / nodes
    on_node = ranks / nodes
    if operation == "alltoall":
        return Moved(on_node * size_bytes * (ranks - on_node) / ranks, True, "pairs: g S (n-g)/n")
    if operation == "all_reduce":
        if word == "RING":
            return Moved(2 * size_bytes * ring * factor, True, "ring over nodes: 2 S (n-1)/n")
        if word in {"TREE", "NVLS_TREE", "NVLSTREE"}:
            return Moved(2 * size_bytes * hierarchy * factor, True, _TREE, mean=True)
        # Over several nodes NCCL takes NVLS only with a network that reduces.
        if word.startswith("COLLNET") or word == "NVLS":
            return Moved(size_bytes, True, "the network reduces: S")
        if network_reduces and not word:
            return Moved(size_bytes, False, "any algorithm, the network may reduce: S")
        return Moved(2 * size_bytes * hierarchy, False, _LEAST, mean=True)
    if operation in _SHARED:
        if word == "RING":
            return Moved(size_bytes * ring * factor, True, "ring over nodes: S (n-1)/n")
        return Moved(size_bytes * hierarchy, False, "any algorithm: S (N-1)/N")
    return None


def gpu_bytes(operation: str, algorithm: str, size_bytes: int, ranks: int) -> Moved | None:
    """What a GPU must send over NVLink, and receive, where all ranks are in one NVLink domain; None where the
    algorithm was not observed, or no model of it is known.
    """
    word, factor = _words(algorithm)
    if ranks < 2:
        return None
    ring = (ranks - 1) / ranks
    if operation == "alltoall":
        return Moved(size_bytes * ring, True, "pairs: S (n-1)/n")
    if operation == "sendrecv":
        return Moved(size_bytes, True, "one send: S")
    if operation == "all_reduce" and word == "NVLS":
        return Moved(size_bytes * (1 + 1 / ranks), True, "NVLS: S (1 + 1/n)")
    if operation == "all_reduce" and word in {"RING", "TREE"}:
        model = f"{word.lower()}: 2 S (n-1)/n, mean over GPUs"
        return Moved(2 * size_bytes * ring * factor, True, model, mean=True)
    if operation in _SHARED and word == "RING":
        return Moved(size_bytes * ring * factor, True, "ring: S (n-1)/n")
    return None


def _words(algorithm: str) -> tuple[str, float]:
    """The algorithm's name, and how many bytes its protocol sends for each of data."""
    words = algorithm.upper().split()
    protocol = words[1] if len(words) > 1 else "SIMPLE"
    return (words[0] if words else ""), _PROTOCOL.get(protocol, 1.0)
