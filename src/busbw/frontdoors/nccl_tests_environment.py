"""The variables that nccl-tests reads beside its flags: NCCL_TESTS_* (src/common.cu, src/alltoallv.cu)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.frontdoors.nccl_tests_flags import Options, c_atoi

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_CTA_POLICY: Final = "NCCL_CTA_POLICY"
_SPLIT: Final = re.compile(
    r"\s*(AND|&|OR|\||MOD|%|DIV|/)\s*(0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|[0-9]{1,18})\s*", re.IGNORECASE
)
_WORDS: Final = {"&": "AND", "|": "OR", "%": "MOD", "/": "DIV"}
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_HEXADECIMAL: Final = re.compile(r"\s*(?:0[xX])?([0-9a-fA-F]+)")


@dataclass(frozen=True)
class Variables:
    """What the variables ask for. ``device`` is the first device of a process; ``min_bandwidth`` in GB/s, the
    average must reach 0.9 of it; ``split`` an expression as ``busbw run --split`` takes it. The last four are
    alltoallv_perf's.
    """

    device: int | None = None
    min_bandwidth: float | None = None
    split: str = ""
    matrix: str = ""
    matrix_scale: float = 1.0
    spread: float = 1.0
    print_summary: bool = False


def read_variables(environ: Mapping[str, str]) -> Variables:
    """Read them. Raises UsageError for a split that nccl-tests would silently take for no split, or for
    another (text behind the number, a number below zero).
    """
    device, minimum = environ.get("NCCL_TESTS_DEVICE"), environ.get("NCCL_TESTS_MIN_BW")
    number = None if device is None else c_atoi(device)
    return Variables(
        device=None if number == -1 else number,
        min_bandwidth=None if minimum is None else _leading_float(minimum),
        split=_split(environ),
        matrix=environ.get("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", ""),
        matrix_scale=max(0.0, _whole_float(environ.get("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", ""))),
        spread=min(1.0, max(0.0, _whole_float(environ.get("NCCL_TESTS_ALLTOALLV_SPREAD", "")))),
        print_summary=c_atoi(environ.get("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "")) != 0,
    )


def _split(environ: Mapping[str, str]) -> str:
    """The mask wins over the expression; it is hexadecimal with or without 0x."""
    mask = environ.get("NCCL_TESTS_SPLIT_MASK")
    if mask is not None:
        match = _HEXADECIMAL.match(mask)
        return f"AND 0x{match[1] if match else 0}"
    text = environ.get("NCCL_TESTS_SPLIT")
    if not text:
        return ""
    match = _SPLIT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"NCCL_TESTS_SPLIT={text!r} is no split",
            hint="write AND, OR, MOD or DIV and a number: MOD 8, AND 0x7",
        )
    word, digits = match[1].upper(), match[2]
    value = int(digits, 0) if digits[:2].lower() in ("0b", "0x") else _c_unsigned(digits)
    return f"{_WORDS.get(word, word)} {value}"


def color(split: str, rank: int) -> int:
    """The number of a rank's group, as the list of devices shows it; 0 without a split. A second term takes
    the value of the first.
    """
    words = split.split()
    for word, text in zip(words[::2], words[1::2], strict=True):
        rank = _value(word, rank, int(text, 0))
    return rank if split else 0


def _value(word: str, rank: int, number: int) -> int:
    if word in ("MOD", "DIV"):
        return rank % number if word == "MOD" else rank // number
    return rank & number if word == "AND" else rank | number


def _c_unsigned(digits: str) -> int:
    return int(digits, 8) if re.fullmatch("0[0-7]+", digits) else int(digits)


def _leading_float(text: str) -> float:
    """C's atof."""
    match = _NUMBER.match(text)
    return float(match[0]) if match else 0.0


def _whole_float(text: str) -> float:
    """alltoallv_perf's reading: a number and nothing behind it, else its default of 1."""
    match = _NUMBER.fullmatch(text)
    value = float(match[0]) if match else 1.0
    return value if math.isfinite(value) else 1.0


def prepare(environ: MutableMapping[str, str], options: Options, ranks_here: int) -> None:
    """Put what nccl-tests passes through calls into the variables that NCCL and CUDA read, before either is
    loaded; ranks that are started later inherit them. Every rank of a launcher does it alike.

    ``-x`` is NCCL_CTA_POLICY. NCCL_TESTS_DEVICE names the first of ``ranks_here`` neighbouring devices among
    the visible ones.
    """
    if options.cta_policy >= 0:
        environ[_CTA_POLICY] = str(options.cta_policy)
    first = read_variables(environ).device
    if first is None:
        return
    visible = [word.strip() for word in environ.get(_VISIBLE, "").split(",") if word.strip()]
    wanted = range(first, first + ranks_here)
    if visible and wanted.stop > len(visible):
        raise UsageError(
            f"NCCL_TESTS_DEVICE={first} and {ranks_here} ranks need {wanted.stop} visible devices,"
            f" and {_VISIBLE} has {len(visible)}",
            hint="lower NCCL_TESTS_DEVICE, or -g",
        )
    environ[_VISIBLE] = ",".join(visible[i] if visible else str(i) for i in wanted)
