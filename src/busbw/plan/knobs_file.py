"""The file of knobs: variables that need a launch of their own, and the values to try.

NCCL_BUFFSIZE: [4194304, 8388608]
NCCL_IB_QPS_PER_CONNECTION: [2, 4]
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, RootModel, ValidationError

from busbw.errors import UsageError, why
from busbw.plan.presets.schema import Variable, Word
from busbw.plan.yaml_file import read_yaml, refusal

_Values = Annotated[list[Word], Field(min_length=1)]


class _Knobs(RootModel[Annotated[dict[Variable, _Values], Field(min_length=1)]]):
    """Values by variable."""


def read_knobs(path: Path) -> dict[str, tuple[str, ...]]:
    """The values of each variable, in the file's order. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a file with a line a variable, as NCCL_BUFFSIZE: [4194304, 8388608]"
        raise UsageError(f"cannot read {path}: {why(error)}", hint=hint) from error
    try:
        found = _Knobs.model_validate(read_yaml(text, str(path)))
    except ValidationError as error:
        raise refusal(error, text, str(path), guide="tune") from error
    return {name: tuple(dict.fromkeys(values)) for name, values in found.root.items()}
