"""Slurm's two small notations: lists of hosts and counts per node."""

from __future__ import annotations

import re


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
