"""busbw: measure collective communication on any cluster, and say whether the number is right."""

from __future__ import annotations

from busbw._version import __version__

__all__ = ["__version__"]
