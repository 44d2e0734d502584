"""busbw: measure collective communication on any cluster, and say whether the number is right.

``open_run`` opens a run that was measured or imported; it is loaded when first used, because every rank
imports this package.
"""

from __future__ import annotations

from busbw._version import __version__

TYPE_CHECKING = False  # as typing's, which ranks need not load for this
if TYPE_CHECKING:
    from busbw.judge.run import Run, open_run

__all__ = ["Run", "__version__", "open_run"]


def __getattr__(name: str) -> object:
    if name in {"Run", "open_run"}:
        from busbw.judge import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
