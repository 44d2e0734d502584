"""Numbers of ranks and nodes that do not fit each other, in the same words on every engine. Pure."""

from __future__ import annotations

from busbw.errors import UsageError


def refuse_other_count(ranks: int | None, each: int | None, nodes: int) -> None:
    """Raises UsageError where two flags give a different number of ranks in all."""
    if ranks is not None and each and ranks != each * nodes:
        raise UsageError(
            f"--ranks {ranks}, but --ranks-per-node {each} makes {each * nodes} on {nodes}"
            f" {'node' if nodes == 1 else 'nodes'}",
            hint="leave one of them out",
        )


def refuse_too_few(ranks: int | None, nodes: int) -> None:
    """Raises UsageError where nodes that were asked for would be held, and not measured."""
    if ranks is not None and ranks < nodes:
        raise UsageError(
            f"--ranks {ranks} on {nodes} nodes", hint="give at least one rank a node, or fewer nodes (-N)"
        )


def refuse_uneven(ranks: int, nodes: int) -> int:
    """Ranks of a node, for launchers that fill one node after the other with as many: the last one may have
    fewer. Raises UsageError where it would have none.
    """
    refuse_too_few(ranks, nodes)
    each = -(-ranks // nodes)
    if (nodes - 1) * each < ranks:
        return each
    used = -(-ranks // each)
    raise UsageError(
        f"--ranks {ranks} on {nodes} nodes, {each} on each, leave {nodes - used} without a rank",
        hint=f"give --ranks {(each - 1) * nodes} or {each * nodes}, or -N {used}",
    )
