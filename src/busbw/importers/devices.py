"""The device list of nccl-tests: which rank ran where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, overload


@dataclass(frozen=True)
class RankLine:
    """One rank as the log names it; empty or -1 where the line has no such word."""

    rank: int
    group: int = 0
    pid: int = 0
    host: str = ""
    device: int = -1
    bus_id: str = ""
    device_name: str = ""


_DEVICE: Final = r" +\[(?P<bus_id>[^\]]*)\] *(?P<device_name>.*)"
_FORMS: Final = (
    re.compile(
        r"# *Rank +(?P<rank>\d{1,9})(?: +Group +(?P<group>\d{1,9}))?(?: +Pid +(?P<pid>\d{1,18}))?"
        r" +on +(?P<host>\S+) +device +(?P<device>\d{1,9})" + _DEVICE
    ),
    re.compile(r"# *Rank +(?P<rank>\d{1,9}) +uses device +(?P<device>\d{1,9})" + _DEVICE),
    re.compile(r"# *Device +(?P<rank>\d{1,9}) -> +(?P<device>\d{1,9})" + _DEVICE),
)

# An address in hex before the name; CPU ranks in our own tables have none, whoever made the CPU.
_AMD_GPU: Final = re.compile(rb"[0-9a-fA-F]\] AMD ")


def names_rank(line: str) -> bool:
    """Whether a line is one of the device list."""
    return ("device" in line or "Device" in line) and any(form.match(line) for form in _FORMS)


def rank_line(line: str) -> RankLine | None:
    """The rank that a line of the device list names."""
    for form in _FORMS:
        match = form.match(line)
        if match is not None:
            words = match.groupdict()
            return RankLine(
                rank=int(words["rank"]),
                group=int(words.get("group") or 0),
                pid=int(words.get("pid") or 0),
                host=words.get("host") or "",
                device=int(words["device"]),
                bus_id=words["bus_id"],
                device_name=words["device_name"].strip(),
            )
    return None


class DeviceText(NamedTuple):
    """Lines of the device list as they stand in a log, behind so many letters of a launcher."""

    text: bytes
    prefix: int = 0


class Devices(Sequence[RankLine]):
    """The ranks of a launch, of lines that are taken apart when a rank is asked for: in a log of short tables
    that takes longer than reading the rows does, and checking these needs none.
    """

    def __init__(self, texts: Sequence[DeviceText]) -> None:
        self._texts = texts

    @cached_property
    def _ranks(self) -> tuple[RankLine, ...]:
        lines = (
            line[text.prefix :].decode("utf-8", "replace").strip()
            for text in self._texts
            for line in text.text.splitlines()
        )
        return tuple(rank for rank in map(rank_line, lines) if rank is not None)

    def __len__(self) -> int:
        return len(self._ranks) if self._texts else 0

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __iter__(self) -> Iterator[RankLine]:
        return iter(self._ranks)

    @overload
    def __getitem__(self, index: int) -> RankLine: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RankLine]: ...
    def __getitem__(self, index: int | slice) -> RankLine | Sequence[RankLine]:
        return self._ranks[index]

    @cached_property
    def communicator(self) -> int:
        """``communicator_size``, which several questions about a table ask for."""
        return _communicator_size(self._ranks)

    @property
    def is_amd(self) -> bool:
        """Whether a GPU is one of AMD's: it has a bus id, which a CPU of theirs has not."""
        return any(_AMD_GPU.search(text.text) for text in self._texts)


def communicator_size(ranks: Sequence[RankLine]) -> int:
    """How many ranks a communicator has by the device list.

    An excerpt may show the last line of the list only: then the highest rank counts. Split communicators
    (NCCL_TESTS_SPLIT) are several groups, and bandwidth is that of one.
    """
    return ranks.communicator if isinstance(ranks, Devices) else _communicator_size(ranks)


def _communicator_size(ranks: Sequence[RankLine]) -> int:
    listed = len({rank.rank for rank in ranks})
    total = max(listed, max(rank.rank for rank in ranks) + 1)
    return total // len({rank.group for rank in ranks}) if listed == total else total
