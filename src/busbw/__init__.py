"""busbw: measure collective communication on any cluster, and say whether the number is right.

In Python: ``run`` measures, ``open_run`` and ``runs`` read what was measured, ``compare`` and ``expect``
judge it, ``import_log`` reads other tools' logs. They are loaded when first used, because every rank imports
this package.
"""

from __future__ import annotations

from busbw._version import __version__

TYPE_CHECKING = False  # as typing's, which ranks need not load for this
if TYPE_CHECKING:
    from busbw.api.commands import Answer, compare, expect, import_log, run
    from busbw.api.run import Run, open_run, runs

__all__ = [
    "Answer",
    "Run",
    "__version__",
    "compare",
    "expect",
    "import_log",
    "open_run",
    "run",
    "runs",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from busbw.api import commands

    return getattr(commands, name)


def __dir__() -> list[str]:
    return __all__
