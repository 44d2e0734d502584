"""How a setting is called on a command line."""

from __future__ import annotations


def flag_of(name: str) -> str:
    """``ranks_per_node`` -> ``--ranks-per-node``; not for a setting whose Parameter names it otherwise."""
    return "--" + name.replace("_", "-")
