"""The exception tree of busbw.

BusbwError                  exit code 1, anything that ends the command
├── UsageError              2, the request itself is wrong: unknown operation, bad size, -b > -e
├── UndecidedError          3, measured, but no decision was possible
│   └── NotHome             3, the job has ended, and its result could not be brought home yet
├── SiteError               4, this machine or job cannot do it: no NCCL, no MPI, too little memory
│   ├── LauncherMismatch    4, the launcher and the world disagree about who takes part
│   └── AllocationOver      4, the nodes that were held for all launches are gone
└── RankFailed              5, a rank or its launcher died; what was finished is kept

Foreign exceptions are translated once, at the edge where they occur, keeping the cause (``raise ... from``).
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What scripts can rely on; documented in docs/reference/exit-codes.md."""

    OK = 0
    BAD_VERDICT = 1
    USAGE = 2
    UNDECIDED = 3
    ENVIRONMENT = 4
    RANK_FAILED = 5
    INTERRUPTED = 130


class BusbwError(Exception):
    """Something the user must know, with what to try next.

    ``hint`` is one sentence starting with a verb; ``rank`` and ``host`` name the place where it happened,
    when there is one.
    """

    exit_code = ExitCode.BAD_VERDICT

    def __init__(self, message: str, *, hint: str = "", rank: int | None = None, host: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.rank = rank
        self.host = host


class UsageError(BusbwError):
    """The request is wrong, whatever the machine."""

    exit_code = ExitCode.USAGE


class UndecidedError(BusbwError):
    """The data do not allow a decision."""

    exit_code = ExitCode.UNDECIDED


class NotHome(UndecidedError):
    """A job on an engine has ended, and what it printed cannot be read now: it stays where it is."""


class SiteError(BusbwError):
    """The machine, its libraries or the job cannot do what was asked."""

    exit_code = ExitCode.ENVIRONMENT


class LauncherMismatch(SiteError):
    """The launcher's variables and the world contradict each other."""


class AllocationOver(SiteError):
    """The nodes of all launches are gone: what fails then says nothing of what was launched."""


class RankFailed(BusbwError):
    """A rank died, hung or reported an error; the record keeps what was finished."""

    exit_code = ExitCode.RANK_FAILED
