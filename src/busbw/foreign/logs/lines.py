"""Bytes to lines: decompressed, decoded, in one plain form, without what launchers put before them.

A prefix is learned from the text itself: it is what stands before the lines that a reader knows (headings,
lines of a header) and repeats, with any number in the place of its numbers and any time in the place of its
times. So no launcher has to be known here. What a prefix has beside its times is the name of the line's
stream.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Final, NamedTuple

HEAD_BYTES: Final = 4096

# ---- the text of a file ------------------------------------------------------------------------------------

_GZIP_MAGIC: Final = b"\x1f\x8b"
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
    """``data`` is the text in UTF-8, or what is read as if it were, without a byte order mark. ``damage`` is
    why it ends before its file does; ``no_text`` is why it cannot be read.
    """

    data: bytes = b""
    damage: str = ""
    no_text: str = ""


def read_text(stream: IO[bytes]) -> Text:
    """The text in a stream of bytes, such as a file or standard input."""
    head, damage = stream.read(HEAD_BYTES), ""
    if not head.startswith((_GZIP_MAGIC, *_UTF16)) and (why := _no_text(head)):
        return Text(no_text=why)  # a checkpoint among the logs has gigabytes
    data = head + stream.read()
    if data.startswith(_GZIP_MAGIC):
        data, damage = _gunzip(data)
    if data.startswith(_UTF16):
        data = data.decode("utf-16", "replace").encode("utf-8", "replace")
    return Text(data.removeprefix(codecs.BOM_UTF8), damage, _no_text(data[:HEAD_BYTES]))


def _no_text(head: bytes) -> str:
    for magic, name, command in _PACKED:
        if head.startswith(magic):
            return f"it is compressed with {name}: decompress it, as in `{command} FILE | busbw import -`"
    return "it is binary, not text" if b"\0" in head else ""


def _gunzip(data: bytes) -> tuple[bytes, str]:
    """The text of a compressed file, and why it ends before the file."""
    found, why = [], ""
    with gzip.open(io.BytesIO(data)) as file:
        try:
            while piece := file.read1(HEAD_BYTES):
                found.append(piece)
        except EOFError:
            why = "the compressed file is cut here"
        except (OSError, zlib.error) as error:
            why = f"the compressed file is damaged from here on: {error}"
    return b"".join(found), why


# ---- one plain form ----------------------------------------------------------------------------------------

# No tool prints longer lines; what does is not searched for words, which takes the square of its length.
LONGEST_LINE: Final = 4000
# Blanks, as Python sees them, that are no blanks on a screen.
_LINE_ENDS: Final = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"
# Colours, titles of windows, character sets.
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z])")


def plain(line: str) -> str:
    """A line as it stands on a screen: without its end, escapes and control characters, tabs as blanks; of a
    progress display what was written last.
    """
    line = line.rstrip("\r\n")
    if line.isprintable():
        return line
    return "".join(map(_plain_letter, _ESCAPE.sub("", line).rpartition("\r")[2]))


def _plain_letter(letter: str) -> str:
    """A line with another control character is damaged, and it must not come to a terminal as it is. Pages of
    the web have blanks of their own; some writers put a byte order mark in front of every line.
    """
    if letter.isprintable():
        return letter
    return " " if letter.isspace() and letter not in _LINE_ENDS else "" if letter == "\ufeff" else "\ufffd"


_STRING: Final = re.compile(r"(\s*)([\"'])(.*)\2,?\s*")


def _unquoted(line: str) -> str:
    """A line out of a list of lines, as Ansible prints them."""
    quoted = _STRING.fullmatch(line) if line.rstrip(", \t")[-1:] in ("'", '"') else None
    return quoted[1] + quoted[3] if quoted else line


# Docker and Fluentd, most loggers, Google Cloud.
_TEXT_OF_JSON: Final = ("log", "message", "msg", "textPayload")


class Line(NamedTuple):
    """A line without its prefix."""

    stream: str
    text: str


Start = Callable[[str], int]


def split_lines(data: bytes, start: Start) -> list[Line]:
    """The lines of a text, empty for those that are too long to be read. ``start`` gives where in a line
    begins what a reader knows, else -1.
    """
    raw = data.removesuffix(b"\n").split(b"\n") if data else []
    texts = [_unquoted(plain(_logged(each.decode("utf-8", "replace")))) for each in raw]
    return without_prefixes(["" if len(text) > LONGEST_LINE else text for text in texts], start)


def _logged(line: str) -> str:
    """The text of a line that a container engine or a collector of logs has put into JSON."""
    if not line.startswith("{"):
        return line
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return next((text for key in _TEXT_OF_JSON if isinstance(text := entry.get(key), str)), line)


# ---- prefixes ----------------------------------------------------------------------------------------------

_LONGEST_PREFIX: Final = 200
_MOST_FORMS: Final = 64
_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[.,]?"
_ZONE: Final = r"(?: ?(?:Z|UTC|[AP]M|[+-]\d\d:?\d\d))?"
_CLOCK: Final = rf"(?:(?<!\d)\d\d?:\d\d:\d\d(?:[.,]\d+)?|(?<![\d:])\d\d:\d\d(?!:?\d)){_ZONE}"
_SINCE_START: Final = r"(?<![\w.])\+?(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s(?!\w)"
_TIME: Final = (
    rf"[\[(]?(?:{_DAY} +(?:{_DAY} +)?\d\d? +{_CLOCK}(?: 20[0-3]\d(?!\d))?"  # no size is such a year
    rf"|(?:\d{{1,4}}[-/.]\d\d?[-/.]\d{{1,4}}[ T_])?{_CLOCK}|{_SINCE_START})[\])]?"
)
_PARTS: Final = re.compile(rf"(?P<time>{_TIME})|(?P<number>\d+(?:\.\d+)*)|(?P<blank> +)|.")
_TIMES_AND_BLANKS: Final = re.compile(rf"{_TIME}| +")
_PLAIN_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
# Fewer come in order by chance, as ranks do.
_FEW_TIMES: Final = 2
_FEW_LINES: Final = 8
_HARDLY_REPEATED: Final = 2 / 3
_NUMBER_FORM: Final = r"\d+(?:\.\d+)*(?!\d)"
# Rows begin with numbers, which must not be taken for a prefix.
_LIKE_A_ROW: Final = re.compile(r"[\d. ]+")
_NO_NAME: Final = re.compile(r"\W+")


def without_prefixes(lines: Sequence[str], start: Start) -> list[Line]:
    """The lines, each with its stream: "" for lines without a prefix. The blanks that all lines of a stream
    begin with belong to its prefix.
    """
    form = _learned(lines, start)
    ends = [match.end() if form and (match := form.match(line)) else 0 for line in lines]
    names = _streams([line[:end] for line, end in zip(lines, ends, strict=True)])
    found = list(zip(names, lines, ends, strict=True))
    indents: dict[str, int] = {}
    for name, line, end in found:
        text = line[end:].lstrip(" ")
        if end and text:
            blanks = len(line) - end - len(text)
            indents[name] = min(indents.get(name, blanks), blanks)
    return [Line(name, line[end + indents.get(name, 0) :] if end else line) for name, line, end in found]


def _streams(prefixes: Sequence[str]) -> list[str]:
    """The name of each prefix's stream. Numbers that count the lines or are a time name none, nor does
    punctuation (`grep -C` puts colons and dashes).
    """
    names = [_TIMES_AND_BLANKS.sub("", prefix) for prefix in prefixes]
    if clock := _clock([tuple(map(float, _PLAIN_NUMBER.findall(name))) for name in names if name]):
        names = [_PLAIN_NUMBER.sub("", name, count=clock) for name in names]
    first: dict[str, str] = {}
    return [first.setdefault(_NO_NAME.sub("", name), name) for name in names]


def _clock(numbers: Sequence[tuple[float, ...]]) -> int:
    """How many of the numbers that each prefix begins with are a counter or a time: together they never fall
    from line to line, or hardly one comes twice.
    """
    clock = 0
    for length in range(1, min(map(len, numbers), default=0) + 1):
        leading = [each[:length] for each in numbers]
        values = len(set(leading))
        rises = values > _FEW_TIMES and leading == sorted(leading)
        if rises or values > max(_FEW_LINES, _HARDLY_REPEATED * len(leading)):
            clock = length
    return clock


def _learned(lines: Sequence[str], start: Start) -> re.Pattern[str] | None:
    """The forms of the prefixes that more than one line has. One of numbers alone, as a line's, has to stand
    before all that is known: else it can be the beginning of a row.
    """
    starts = list(map(start, lines))
    found = {line[:at].strip() for line, at in zip(lines, starts, strict=True) if 0 < at <= _LONGEST_PREFIX}
    samples = {sample for sample in found if sample and sample[0] != "#"}
    if 0 in starts:
        samples = {sample for sample in samples if not _LIKE_A_ROW.fullmatch(sample)}
    forms = sorted(set(map(_form, samples)), key=len, reverse=True)[:_MOST_FORMS]
    begins = map(re.compile, forms)
    repeated = [form.pattern for form in begins if sum(form.match(line) is not None for line in lines) > 1]
    return re.compile("|".join(repeated)) if repeated else None


def _form(sample: str) -> str:
    """What all prefixes like this one have in common, as a regular expression."""
    known = {"time": _TIME, "number": _NUMBER_FORM, "blank": " *"}
    parts = _PARTS.finditer(sample)
    return " *" + "".join(known.get(part.lastgroup or "", re.escape(part[0])) for part in parts)
