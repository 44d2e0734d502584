"""Files that a user named, and files that nobody else may read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from busbw.errors import UsageError, why


def store(path: Path, content: bytes) -> None:
    """Write what the user named. A plain file is replaced whole, with its mode, so that nobody reads half of
    it; a device, a pipe, a link, and a file that would lose its owner or its other names is written through.
    """
    partial = path.parent / f".{path.name}.{os.getpid()}.new"
    before = None
    with suppress(FileNotFoundError):
        before = path.lstat()
    if before is not None:
        is_plain = stat.S_ISREG(before.st_mode) and before.st_nlink == 1
        is_ours = (before.st_uid, before.st_gid) == (os.geteuid(), os.getegid())
        if not (is_plain and is_ours and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            path.write_bytes(content)
            return
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(content)
            if before is not None:
                os.fchmod(out.fileno(), stat.S_IMODE(before.st_mode))
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read_input(path: Path, hint: str, flag: str = "") -> str:
    """The text of a file that the user named (with ``flag``), or may have changed. Raises UsageError where it
    cannot be read, or is no UTF-8.
    """
    named = f"{flag} {path}" if flag else str(path)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {named}: {why(error)}", hint=hint) from error
    except ValueError as error:
        raise UsageError(f"cannot read {named}: it is not UTF-8 text ({error})", hint=hint) from error


def write_output(path: Path, content: bytes) -> None:
    """Store what a flag asked for. Raises UsageError where it cannot be written."""
    try:
        store(path, content)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {why(error)}", hint="name a file in a folder that you can write"
        ) from error


def store_private(path: Path, text: str) -> None:
    """Write a file with the values of secrets: no one else can read it at any moment."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w") as out:
        os.fchmod(out.fileno(), 0o600)
        out.write(text)
