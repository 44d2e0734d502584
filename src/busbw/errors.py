"""The exception tree of busbw.

BusbwError                  exit code 1, anything that ends the command
├── UsageError              2, the request itself is wrong: bad size, -b > -e
│   └── UnknownWord         2, a name that is not known: operation, type, run, preset, flag, command
├── UndecidedError          3, measured, but no decision was possible
│   └── NotHome             3, the job has ended, and its result could not be brought home yet
├── SiteError               4, this machine or job cannot do it: no NCCL, no MPI, too little memory
│   ├── LauncherMismatch    4, the launcher and the world disagree about who takes part
└── RankFailed              5, a rank or its launcher died; what was finished is kept

Foreign exceptions are translated once, at the edge where they occur, keeping the cause (``raise ... from``).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from enum import IntEnum
from typing import Final

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
# What a limit of the shell refuses, and the limit's letter.
_LIMITS: Final = {errno.EFBIG: "-f", errno.EMFILE: "-n", errno.ENOMEM: "-v", errno.EAGAIN: "-u"}


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
        if hint:
            self.add_note(f"hint: {hint}")  # where Python shows the error, as in a notebook


class UsageError(BusbwError):
    """The request is wrong, whatever the machine."""

    exit_code = ExitCode.USAGE


@contextmanager
def refused_in(place: str) -> Iterator[None]:
    """What is refused in a part of a file or of a request says in which."""
    try:
        yield
    except UsageError as error:
        error.message = f"{place}: {error.message}"
        error.args = (error.message,)
        raise


class UnknownWord(UsageError):
    """A name that is none of those known. ``likely`` is the one that was probably meant, empty where none is
    near; ``hint`` is for that case.
    """

    def __init__(
        self, message: str, word: str, known: Iterable[str], *, hint: str = "", cutoff: float = 0.7
    ) -> None:
        known = tuple(known)
        self.word, self.known, self.likely = word, known, nearest(word, known, cutoff)
        otherwise = hint or f"use one of: {', '.join(known)}"
        super().__init__(message, hint=f"use {self.likely}" if self.likely else otherwise)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str:
    """The known word that is most like this one, whatever its case, - and _; empty where none is like it."""
    by_letters = {_letters(each): each for each in reversed(tuple(known))}
    found = get_close_matches(_letters(word), by_letters, n=1, cutoff=cutoff)
    return by_letters[found[0]] if found else ""


def _letters(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "") or word


def why(error: Exception) -> str:
    """What happened, in words: a system's error without its number and file, which is named beside it."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


class UndecidedError(BusbwError):
    """The data do not allow a decision."""

    exit_code = ExitCode.UNDECIDED


class NotHome(UndecidedError):
    """A job on an engine has ended, and what it printed cannot be read now: it stays where it is."""


class SiteError(BusbwError):
    """The machine, its libraries or the job cannot do what was asked."""

    exit_code = ExitCode.ENVIRONMENT


def of_system(error: OSError) -> SiteError:
    """What the system refused: a full disk, a limit on files, no permission."""
    if error.errno in _FULL:
        words = f"cannot write {error.filename or 'a file'}: {error.strerror}"
        return SiteError(words, hint="free space there, or set BUSBW_HOME to a folder elsewhere")
    limit = _LIMITS.get(error.errno or 0, "")
    words = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    return SiteError(words, hint=f"raise `ulimit {limit}`" if limit else "check its permissions")


class LauncherMismatch(SiteError):
    """The launcher's variables and the world contradict each other."""


class RankFailed(BusbwError):
    """A rank died, hung or reported an error; the record keeps what was finished."""

    exit_code = ExitCode.RANK_FAILED
