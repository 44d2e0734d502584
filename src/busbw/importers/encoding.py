"""The text of a file, however it is stored: compressed with gzip, or in UTF-16 as PowerShell redirects it."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from typing import IO, Final, cast

from busbw.importers.compressed import MAGIC, Gunzip

_HEAD_BYTES: Final = 4096
_PIECE_BYTES: Final = 2**16
_BUFFER_BYTES: Final = 2**20
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# First bytes of what has to be decompressed first, and the command for that.
_PACKED: Final = (
    (b"\xfd7zXZ\x00", "xz", "xz -dc"),
    (b"BZh91AY&SY", "bzip2", "bzip2 -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
)


@dataclass(frozen=True)
class Text:
    """A text that is open: its first bytes, without a byte order mark, and the stream with all others, in
    UTF-8 or what is read as if it were. ``gunzip`` is what decompresses it; ``no_text`` is why it is none.
    """

    head: bytes
    stream: IO[bytes]
    gunzip: Gunzip | None = None
    no_text: str = ""


def open_text(stream: IO[bytes]) -> Text:
    """The text in a stream of bytes, such as a file or standard input."""
    head, gunzip = stream.read(_HEAD_BYTES), None
    if head.startswith(MAGIC):
        gunzip = Gunzip(head, stream)
        stream = cast("IO[bytes]", io.BufferedReader(gunzip, _BUFFER_BYTES))
        head = stream.read(_HEAD_BYTES)
    if head.startswith(_UTF16):
        stream = cast("IO[bytes]", io.BufferedReader(_Recoder(head, stream), _BUFFER_BYTES))
        head = stream.read(_HEAD_BYTES)
    return Text(head.removeprefix(codecs.BOM_UTF8), stream, gunzip, _no_text(head))


def _no_text(head: bytes) -> str:
    for magic, name, command in _PACKED:
        if head.startswith(magic):
            return f"it is compressed with {name}: decompress it, as in `{command} FILE | busbw import -`"
    return "it is binary, not text" if b"\0" in head else ""


class _Recoder(io.RawIOBase):
    """A text in UTF-16 as one in UTF-8; ``head`` are its first bytes, which were read already."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head, self._stream = head, stream
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._waiting = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a part of a buffer; 0 at the end."""
        while not self._waiting:
            data, self._head = self._head or self._stream.read(_PIECE_BYTES), b""
            self._waiting = self._decoder.decode(data, final=not data).encode("utf-8", "replace")
            if not data:
                break
        found, self._waiting = self._waiting[: len(buffer)], self._waiting[len(buffer) :]
        buffer[: len(found)] = found
        return len(found)
