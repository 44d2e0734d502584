"""Which container image this process runs in, as the image itself says.

A process cannot see its image's labels, so the recipes of ``busbw container`` write them into a file too. Any
other image can have one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from busbw.probes.sysfs import read_text

FILE: Final = Path("/etc/busbw-image.json")


def read_image(file: Path = FILE) -> dict[str, Any]:
    """``recipe``, ``image``, ``base``, ``versions`` and ``packages``; empty outside such an image."""
    try:
        told = json.loads(read_text(file) or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def image_name(file: Path = FILE) -> str:
    """The image's tag, empty outside such an image."""
    return str(read_image(file).get("image", ""))
