"""Compressed logs (gzip), read up to where they can be: a copy that was cut keeps its beginning."""

from __future__ import annotations

import io
import zlib
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zlib import _Decompress

MAGIC: Final = b"\x1f\x8b"
_PIECE_BYTES: Final = 2**16
_GZIP: Final = 16 + zlib.MAX_WBITS  # for zlib: with gzip's header


class Gunzip(io.RawIOBase):
    """The text of a compressed file, whose members follow each other; ``head`` are its first bytes, which
    were read already. ``damage`` is why the text ends before the file does; empty where it does not.
    """

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._file = file
        self._member: _Decompress | None = None  # that is being read
        self._waiting = head
        self.damage = ""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a part of a buffer; 0 at the end."""
        try:
            found = b"" if self.damage else self._some(len(buffer))
        except zlib.error as error:
            self.damage = f"the compressed file is damaged from here on: {error}"
            return 0
        buffer[: len(found)] = found
        return len(found)

    def _some(self, size: int) -> bytes:
        while data := self._waiting or self._file.read(_PIECE_BYTES):
            member = self._member = self._member or zlib.decompressobj(_GZIP)
            found = member.decompress(data, size)
            if member.eof:
                self._member, self._waiting = None, member.unused_data.lstrip(b"\0")
            else:
                self._waiting = member.unconsumed_tail
            if found:
                return found
        if self._member is not None:
            self.damage = "the compressed file is cut here"
        return b""
