"""The variables that nccl-tests reads beside its flags: NCCL_TESTS_* (src/common.cu, src/alltoallv.cu)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError

_DEVICE: Final = "NCCL_TESTS_DEVICE"
_WORDS: Final = {"&": "AND", "|": "OR", "%": "MOD", "/": "DIV"}


@dataclass(frozen=True)
class Variables:
    """What the variables ask for. ``min_bandwidth`` in GB/s, the average must reach 0.9 of it; ``split`` an
    expression as ``busbw run --split`` takes it. The last four are alltoallv_perf's.
    """

    min_bandwidth: float | None = None
    split: str = ""
    matrix: str = ""
    matrix_scale: float = 1.0
    spread: float = 1.0
    print_summary: bool = False


def read_variables(environ: Mapping[str, str]) -> Variables:
    """Read them. Raises UsageError if a value is not a number, for which nccl-tests silently takes another
    one, and for NCCL_TESTS_DEVICE, which busbw does not support.
    """
    if environ.get(_DEVICE, "-1").strip() != "-1":
        raise UsageError(f"{_DEVICE} is not supported", hint="choose GPUs with CUDA_VISIBLE_DEVICES")
    return Variables(
        min_bandwidth=_number(environ, "NCCL_TESTS_MIN_BW"),
        split=_split(environ),
        matrix=environ.get("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", ""),
        matrix_scale=_number(environ, "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 1.0) or 0.0,
        spread=_number(environ, "NCCL_TESTS_ALLTOALLV_SPREAD", 1.0) or 0.0,
        print_summary=bool(_number(environ, "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY")),
    )


def _number(environ: Mapping[str, str], name: str, default: float | None = None) -> float | None:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{name}={text!r} is not a number", hint=f"unset {name}, or give a number")
    return value


def _split(environ: Mapping[str, str]) -> str:
    """The mask wins over the expression; it is hexadecimal with or without 0x."""
    mask = environ.get("NCCL_TESTS_SPLIT_MASK")
    if mask is not None:
        return f"AND 0x{mask.strip().lower().removeprefix('0x')}"
    text = environ.get("NCCL_TESTS_SPLIT", "")
    for symbol, word in _WORDS.items():
        text = text.replace(symbol, f"{word} ")
    return text
