"""Whether the hosts that a preset names have slots, which say how many ranks each gets; in a file too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_IN_LIST: Final = re.compile(r":\d+\s*(,|$)")
# ``name:N`` or ``name slots=N``; not ``max_slots=N``, nor what a comment says.
_IN_FILE: Final = re.compile(r"^\s*[^\s#]+(:\d+(\s|#|$)|[^#\n]*\sslots=\d)", re.MULTILINE)


def have_slots(place: Mapping[str, Any]) -> bool:
    """Of a preset's ``hosts``, else of its ``hostfile``: one that cannot be read has none, and is refused by
    whoever reads its hosts.
    """
    if hosts := place.get("hosts"):
        return _IN_LIST.search(str(hosts)) is not None
    if not place.get("hostfile"):
        return False
    try:
        return _IN_FILE.search(Path(str(place["hostfile"])).read_text()) is not None
    except (OSError, ValueError):
        return False
