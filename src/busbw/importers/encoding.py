"""The text of a file, however it is stored: compressed with gzip, or in UTF-16 as PowerShell redirects it.

A file system that crashed leaves blocks of NUL bytes where a log was not written yet: such a text is damaged,
and still one.
"""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass
from typing import IO, Final, cast

from busbw.importers.compressed import MAGIC, Gunzip

_HEAD_BYTES: Final = 4096
_PIECE_BYTES: Final = 2**16
_BUFFER_BYTES: Final = 2**20
# A file of zeros is not read further than this.
_MOST_NULS: Final = 2**28
# Of the letters of a text: what is no UTF-8, as where a block ends inside a letter.
_MOST_ODD: Final = 0.02
# In UTF-16 without a mark every letter has a NUL of its own; blocks of them are few.
_MOST_RUNS: Final = 0.1
_NULS: Final = re.compile(rb"\0+")
_CONTROLS: Final = bytes(code for code in (*range(1, 32), 127) if chr(code) not in "\a\b\t\n\v\f\r\x1b")
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
    ``nuls`` counts the NUL bytes before the first letter, which were left out.
    """

    head: bytes
    stream: IO[bytes]
    gunzip: Gunzip | None = None
    no_text: str = ""
    nuls: int = 0


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
    head, nuls = _without_nuls(head, stream)
    return Text(
        head.removeprefix(codecs.BOM_UTF8), stream, gunzip, _no_text(head or b"\0" * min(nuls, 1)), nuls
    )


def _without_nuls(head: bytes, stream: IO[bytes]) -> tuple[bytes, int]:
    """The first bytes that are not all NUL, and how many stand before them."""
    nuls = 0
    while head.startswith(b"\0") and nuls < _MOST_NULS:
        kept = head.lstrip(b"\0")
        nuls += len(head) - len(kept)
        head = kept + stream.read(_PIECE_BYTES if not kept else _HEAD_BYTES - len(kept))
    return head, nuls


def _no_text(head: bytes) -> str:
    for magic, name, command in _PACKED:
        if head.startswith(magic):
            return f"it is compressed with {name}: decompress it, as in `{command} FILE | busbw import -`"
    return "it is binary, not text" if b"\0" in head and _is_binary(head) else ""


def _is_binary(head: bytes) -> bool:
    """Whether bytes with NUL among them are something else than a text in which some are lost."""
    letters = head.replace(b"\0", b"")
    if not letters or len(_NULS.findall(head)) > 1 + _MOST_RUNS * len(letters):
        return True
    if len(letters.translate(None, _CONTROLS)) < len(letters):
        return True
    return letters.decode("utf-8", "replace").count("\ufffd") > 2 + _MOST_ODD * len(letters)


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
