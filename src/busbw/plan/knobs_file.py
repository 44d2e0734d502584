"""The file of knobs: variables that need a launch of their own, and the values to try.

NCCL_BUFFSIZE: [4194304, 8388608]
NCCL_IB_QPS_PER_CONNECTION: [2, 4]
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, RootModel

from busbw.files import read_input
from busbw.plan.presets.schema import Variable, Word
from busbw.plan.yaml_file import read_model

_Values = Annotated[list[Word], Field(min_length=1)]


class _Knobs(RootModel[Annotated[dict[Variable, _Values], Field(min_length=1)]]):
    """Values by variable."""


def read_knobs(path: Path) -> dict[str, tuple[str, ...]]:
    """The values of each variable, in the file's order. Raises UsageError."""
    text = read_input(path, "name a file with a line a variable, as NCCL_BUFFSIZE: [4194304, 8388608]")
    found = read_model(_Knobs, text, str(path), guide="tune")
    return {name: tuple(dict.fromkeys(values)) for name, values in found.root.items()}
