"""JSON files that say who exchanges what: read with errors that name the file and the entry."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError

# A table of 4096 x 4096 counts has about 100 MB; a larger file is a mistake.
LARGEST_FILE_BYTES: Final = 128 * 2**20
LARGEST_COUNT: Final = 2**48  # elements: beyond any buffer, and exact in every arithmetic that follows
# In place of a path: a front process sends the text to nodes that do not have the file.
INLINE: Final = "text:"
_SHOWN_CHARACTERS: Final = 40


def named(path: str) -> str:
    """How messages call the file; a text that came instead of it is none to show."""
    return "FILE" if path.startswith(INLINE) else path


def read_text(path: str, flag: str, form: str = "a file") -> str:
    """The file's text, or what follows INLINE. Raises UsageError where it cannot be read; ``form`` is how
    the flag's value is written.
    """
    if path.startswith(INLINE):
        return path.removeprefix(INLINE)
    try:
        file = Path(path)
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            # A pipe is empty when it is read again, and without a writer reading never ends.
            raise UsageError(
                f"{flag} {path} is a pipe or a device; it must be a file",
                hint=f"write it to a file, and give {flag} that",
            )
        if status.st_size > LARGEST_FILE_BYTES:
            raise UsageError(f"{flag} {path} is larger than {LARGEST_FILE_BYTES // 2**20} MiB")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{flag} {path} is not text: {error}", hint="give a UTF-8 file") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a zero character
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read {flag} {path}: {reason}", hint=f"give {flag} {form}") from error


def read_entries(path: str, flag: str, keys: Sequence[str], *, alone: bool = False) -> list[Any]:
    """The list under the first of ``keys`` that the file's object has, not empty; ``alone``: the file may say
    nothing beside. Raises UsageError.
    """
    try:
        loaded = json.loads(read_text(path, flag))
    except (RecursionError, ValueError) as error:  # also too deep, or a number of too many digits
        hint = f'write {{"{keys[0]}": [...]}}'
        raise UsageError(f"{flag} {path} is not JSON: {error}", hint=hint) from error
    if not isinstance(loaded, dict) or not any(key in loaded for key in keys):
        raise UsageError(
            f"{flag} {path} has no key {' or '.join(keys)}", hint=f'write {{"{keys[0]}": [...]}}'
        )
    if sum(key in loaded for key in keys) > 1:
        raise UsageError(f"{flag} {path} has both {' and '.join(keys)}", hint="keep one of them")
    key = next(key for key in keys if key in loaded)
    if alone and (others := sorted(set(loaded) - {key})):
        raise UsageError(
            f"{flag} {path} has {', '.join(map(shown, others))} beside {key}",
            hint="give it on the command line, where it holds for all, or in the entries",
        )
    entries = loaded[key]
    if entries == []:
        raise UsageError(f"{flag} {path}: {key} is empty", hint="give at least one entry")
    if not isinstance(entries, list):
        raise UsageError(f"{flag} {path}: {key} is {shown(entries)}, not a list of entries")
    return entries


def only_entry(entries: list[Any], place: str) -> list[Any]:
    """The one list of an outer list: more have no meaning to us. Raises UsageError."""
    if len(entries) != 1 or not isinstance(entries[0], list):
        raise UsageError(
            f"{place} has {len(entries)} outer entries, the first is {shown(entries[0])}",
            hint="give one outer list: [[[0, 1], [2, 3]]]",
        )
    if not entries[0]:
        raise UsageError(f"{place}[0] is empty", hint="give at least one entry")
    return entries[0]


def rank_numbers(value: Any, place: str, ranks: int) -> tuple[int, ...]:  # noqa: ANN401 (JSON)
    """A list of different ranks of the world. Raises UsageError naming ``place``."""
    numbers = whole_numbers(value, place)
    for number in numbers:
        if number >= ranks:
            raise UsageError(
                f"{place} names rank {number}, the ranks are 0..{ranks - 1}",
                hint="start more ranks, or correct the file",
            )
    return numbers


def whole_numbers(value: Any, place: str) -> tuple[int, ...]:  # noqa: ANN401 (JSON)
    """A list of integers from 0 to LARGEST_COUNT. Raises UsageError naming ``place``."""
    if not isinstance(value, list):
        raise UsageError(f"{place} is {shown(value)}, not a list of whole numbers")
    for position, number in enumerate(value):
        if type(number) is not int or not 0 <= number <= LARGEST_COUNT:  # a bool is an int too
            raise UsageError(f"{place}[{position}] is {shown(number)}, not a whole number from 0 to 2^48")
    return tuple(value)


def shown(value: Any) -> str:  # noqa: ANN401 (JSON)
    """A value of the file as a message shows it, cut."""
    if isinstance(value, int) and abs(value) > LARGEST_COUNT:
        return "a number beyond 2^48"  # its digits may be too many to print
    text = json.dumps(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
