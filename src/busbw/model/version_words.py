"""Versions as people write them in paths, and as libraries print them."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)+")


def is_same_version(label: str, number: str) -> bool:
    """Whether a label can be that version: 2.18, v2.18.5 and nccl-2.18.5 are 2.18.5+cuda12.2, 2.21 is not. A
    label without a version number ("new") can be any.
    """
    said, known = _NUMBER.search(label), _NUMBER.search(number)
    if said is None or known is None:
        return True
    pairs = zip(said[0].split("."), known[0].split("."), strict=False)
    return all(int(mine) == int(theirs) for mine, theirs in pairs)
