"""How settings are called on a command line, and in which groups."""

from __future__ import annotations

from functools import partial

import cyclopts


def flag_of(name: str) -> str:
    """``ranks_per_node`` -> ``--ranks-per-node``; not for a setting whose Parameter names it otherwise."""
    return "--" + name.replace("_", "-")


# A group of flags. A flag has no opposite (``--no-hot``) but where it names one.
Group = partial(cyclopts.Group, default_parameter=cyclopts.Parameter(negative=""))
