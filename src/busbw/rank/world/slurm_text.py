"""Slurm's two small notations: lists of hosts and counts per node."""

from __future__ import annotations

import re
from collections.abc import Iterator


def first_host(nodelist: str) -> str:
    """First name of a Slurm host list: ``h[01-04,7],x3`` gives ``h01``, ``r[1-2]n[3,5]`` gives ``r1n3``.

    An empty list gives an empty string.
    """
    depth = 0
    for position, letter in enumerate(nodelist):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            nodelist = nodelist[:position]
            break
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", nodelist.strip())


def expand_hosts(nodelist: str) -> tuple[str, ...]:
    """All names of a Slurm host list, in its order: ``h[08-10],x3`` gives h08, h09, h10 and x3."""
    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodelist)
    return tuple(name for part in parts for name in _expanded(part.strip()) if name)


def _expanded(part: str) -> Iterator[str]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if match is None:
        yield part
        return
    head, numbers, tail = match.groups()
    for word in numbers.split(","):
        first, _, last = word.strip().partition("-")
        names = [first]
        if first.isdecimal() and last.isdecimal():
            names = [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
        yield from (f"{head}{name}{rest}" for name in names for rest in _expanded(tail))


def local_size_of(tasks_per_node: str, node: str) -> int | None:
    """Tasks on node number ``node`` of a list such as ``4(x2),3``: 4 for nodes 0 and 1, 3 for node 2.

    None where the text is missing or not understood: the number is a convenience, never a reason to stop.
    """
    if not node.isdecimal():
        return None
    index = int(node)
    for part in tasks_per_node.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            return None
        repeat = int(match[2] or 1)
        if index < repeat:
            return int(match[1])
        index -= repeat
    return None
