"""What a profiler saw of a run: kernels with their message sizes, and rates of NICs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# NCCL names every reduction kernel Sum and LL, whatever the operation and protocol, and RING whatever is not
# a tree (2.20 to 2.30 by its generator), so these words are matched and thrown away.
_NAMES: Final = (
    re.compile(r"ncclDevKernel_(?P<what>[A-Za-z]+)(?:_Sum_(?P<type>\w+?))?(?:_(?P<shape>TREE|RING)_LL)?\b"),
    re.compile(r"ncclSymk?DevKernel_(?P<what>[A-Za-z]+)_\w*?(?:_sum_(?P<type>\w+))?\b"),
    re.compile(r"ncclKernel_(?P<what>[A-Za-z]+)_(?P<shape>TREE|RING)_LL(?:128)?_\w+_(?P<type>\w+)\b"),
)


@dataclass(frozen=True)
class KernelName:
    """All that the name of a kernel of NCCL can show: there is no place for an operation, an algorithm or a
    protocol. ``collective`` is NCCL's word (AllReduce, SendRecv), ``type_class`` its word for the element
    type (f32), empty where data are only moved; ``is_tree`` is None where the name does not say.
    """

    collective: str
    type_class: str = ""
    is_tree: bool | None = None

    @classmethod
    def read(cls, text: str) -> KernelName | None:
        """From a kernel's name, short or demangled; None for other kernels than NCCL's."""
        match = next((found for each in _NAMES if (found := each.search(text))), None)
        if match is None:
            return None
        words = match.groupdict()
        shape = words.get("shape")
        return cls(words["what"], words.get("type") or "", None if shape is None else shape == "TREE")


class Join(StrEnum):
    """How kernels came to their message sizes."""

    LAUNCH = "launch"  # the range in which the kernel was launched
    NONE = "none"


@dataclass(frozen=True)
class Kernels:
    """Kernels of one name and message size on one rank, in order of start. ``size_bytes`` is that of
    nccl-tests (of all ranks' parts for AllGather and ReduceScatter), None where nothing tells it, or NCCL's
    own word of one rank's part (``is_part``) where the number of ranks is not known. ``rank`` is None where
    neither NCCL nor the file's name says it.
    """

    rank: int | None
    name: KernelName
    durations_ns: tuple[int, ...]
    size_bytes: int | None = None
    placement: str = ""
    is_part: bool = False


@dataclass(frozen=True)
class NicRate:
    """One counter of one NIC as rates in GB/s, a value for each interval; ``counter`` is the tool's word. No
    value where nothing shows whether its samples are rates or counts.
    """

    host: str
    device: str
    counter: str
    gb_per_s: tuple[float, ...]


@dataclass(frozen=True)
class Profile:
    """One export. ``notes`` say what cannot be read from it, each with what would show it."""

    path: str
    version: str
    host: str
    join: Join = Join.NONE
    kernels: tuple[Kernels, ...] = ()
    nics: tuple[NicRate, ...] = ()
    notes: tuple[str, ...] = ()
