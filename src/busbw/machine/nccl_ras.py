"""Answers of NCCL's RAS to `VERBOSE STATUS`: JSON (2.28.7 and later), and the text of all versions.

The protocol and both forms are those of NCCL's src/ras/client_support.cc, 2.24 to 2.32.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from busbw.errors import UndecidedError
from busbw.model.hang import Communicator, JobSeen, RankSeen

# 2.28.7 and 2.28.9 leave out the comma between these two of a rank that is missing.
_NO_COMMA: Final = re.compile(r'("nvml_dev":\s*-?\d+)(\s*"status")')
_ANY: Final = "collective"  # 2.24 and 2.25 have one number for all operations

_VERSION: Final = re.compile(r"^NCCL version (\S+)", re.MULTILINE)
_COMMUNICATOR: Final = re.compile(r"^#\d+-\d+ \((\w+)\)")
_DIFFERENT: Final = re.compile(r"^ +Communicator ranks have different (?:(\w+) )?\w* ?operation counts")
_SOME_LAUNCHED: Final = re.compile(r"^ +(\d+) ranks have (?:launched up to operation (\d+)|not launched any)")
_ONE: Final = re.compile(
    r"^ +Rank (\d+)(?: has (?:launched up to operation (?P<count>\d+)|(?P<none>not launched any) \w+))?"
    r" -- (?:GPU (?P<gpu>.+?) managed by process (?P<pid>\d+) on node (?P<host>\S+)|\[.*\])"
)
_MISSING: Final = re.compile(r"^ +Missing communicator data from \d+ rank")


def read_answer(text: str) -> JobSeen:
    """A whole answer, with the lines that come before it (`SERVER PROTOCOL`, `OK`). Raises UndecidedError for
    one that is cut or is none.
    """
    start = text.find("{")
    if start >= 0:
        return _from_json(text[start:])
    version = _VERSION.search(text)
    if version is None or "Warnings\n" not in text:
        raise UndecidedError("NCCL's RAS gave no whole answer", hint="ask again")
    return JobSeen(version[1], tuple(_from_text(text)), has_counts=False)


def _from_json(text: str) -> JobSeen:
    try:
        answer = json.JSONDecoder().raw_decode(_NO_COMMA.sub(r"\1,\2", text))[0]
        found = tuple(_communicator(each) for each in answer["communicators"])
        return JobSeen(str(answer["nccl_version"]), found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = "NCCL's RAS gave no whole answer, or one in a form that is not known"
        raise UndecidedError(why, hint="ask again") from error


def _communicator(told: Mapping[str, Any]) -> Communicator:
    there = (_rank(each, is_missing=False) for each in told["ranks"])
    missing = (_rank(each, is_missing=True) for each in told.get("missing_ranks", ()))
    return Communicator(str(told["hash"]).removeprefix("0x"), int(told["size"]), (*there, *missing))


def _rank(told: Mapping[str, Any], *, is_missing: bool) -> RankSeen:
    return RankSeen(
        rank=int(told["rank"]),
        host=str(told["host"]),
        pid=int(told["pid"]),
        gpu=str(told["cuda_dev"]),
        counts={name: int(count) for name, count in told.get("collective_counts", {}).items()},
        is_missing=is_missing,
    )


def _from_text(text: str) -> Iterator[Communicator]:
    """The communicators of which the text has something to say: each operation whose counts differ has a
    section, and so have ranks that are missing.
    """
    sections: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if found := _COMMUNICATOR.match(line):
            name = found[1]
            sections.setdefault(name, [])
        elif line.startswith("  "):
            sections.get(name, []).append(line)
        else:
            name = ""
    for name, lines in sections.items():
        yield _section(name, lines)


def _section(name: str, lines: list[str]) -> Communicator:
    """Ranks are told of one by one, or some together, of which those that are few are named below."""
    ranks: dict[int, RankSeen] = {}
    together: Counter[tuple[str, int]] = Counter()  # operation, launched -> ranks that are not named
    operation, count, is_missing = _ANY, None, False
    for line in lines:
        if found := _DIFFERENT.match(line):
            operation, count, is_missing = found[1] or _ANY, None, False
        elif _MISSING.match(line):
            count, is_missing = None, True
        elif found := _SOME_LAUNCHED.match(line):
            count = int(found[2] or 0)
            together[operation, count] += int(found[1])
        elif found := _ONE.match(line):
            rank, own = int(found[1]), int(found["count"] or 0) if found["count"] or found["none"] else None
            if own is None and count is not None:
                own = count
                together[operation, count] -= 1
            counts = dict(ranks[rank].counts) if rank in ranks else {}
            counts |= {} if own is None else {operation: own}
            host, pid, gpu = found["host"] or "", int(found["pid"] or 0), found["gpu"] or ""
            ranks[rank] = RankSeen(rank, host, pid, gpu, counts, is_missing)
    others = tuple((*key, left) for key, left in together.items() if left > 0)
    size = len(ranks) + max((left for *_, left in others), default=0)
    return Communicator(name, size, tuple(ranks.values()), others)
