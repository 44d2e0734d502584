"""An SQLite export of Nsight Systems, table by table.

Tables are made only for what was recorded, and columns differ between versions, so each is looked for. Names
and columns are those of the exporter's documentation (SQLite schema reference of the user guide, 2021.5 on).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError

_EXPORT: Final = "nsys export --type sqlite --include-blobs true REPORT.nsys-rep"
# One of these has every export of something that we can read.
_OWN_TABLES: Final = frozenset(
    ("META_DATA_EXPORT", "ANALYSIS_DETAILS", "TARGET_INFO_SYSTEM_ENV", "EXPORT_META_DATA")
)
# The lower 24 bits of a thread's number are the thread's, the rest is its process's.
PROCESS_MASK: Final = ~0xFFFFFF


class Export:
    """An open export."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.tables = frozenset(str(name) for (name,) in rows)
        self._strings: dict[int, str] | None = None

    def rows(self, table: str, wanted: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """These columns of every row, None for a column that this version does not have."""
        if table in self.tables:
            there = {row[1] for row in self._connection.execute(f'PRAGMA table_info("{table}")')}
            words = ", ".join(f'"{name}"' if name in there else "NULL" for name in wanted)
            yield from self._connection.execute(f'SELECT {words} FROM "{table}"')

    def string(self, number: int | None) -> str:
        """A text by its number in StringIds; empty if there is no such text."""
        if self._strings is None:
            self._strings = {int(key): str(value) for key, value in self.rows("StringIds", ("id", "value"))}
        return "" if number is None else self._strings.get(int(number), "")

    def fields(self, table: str) -> dict[str, str]:
        """A table of names and values."""
        return {str(name): str(value) for name, value in self.rows(table, ("name", "value"))}


@contextmanager
def opened(path: Path) -> Iterator[Export]:
    """The export in a file. Raises UsageError if it is not an export, is damaged or cannot be read, also
    while it is being read.
    """
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            yield _checked(path, connection)
        finally:
            connection.close()
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        raise UsageError(
            f"cannot read {path} as an export of Nsight Systems: {error}", hint=f"export it with: {_EXPORT}"
        ) from error


def _checked(path: Path, connection: sqlite3.Connection) -> Export:
    export = Export(path, connection)
    if not export.tables & _OWN_TABLES or "StringIds" not in export.tables:
        raise UsageError(
            f"{path} is not an export of Nsight Systems: it has"
            f" {'no tables' if not export.tables else 'tables such as ' + min(export.tables)}",
            hint=f"export it with: {_EXPORT}",
        )
    return export


def json_object(text: object) -> dict[str, Any]:
    """An object of JSON; empty for anything else."""
    try:
        value = json.loads(text) if isinstance(text, str | bytes) else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
