"""The files of setups, and of knobs (variables that need a launch of their own, and the values to try):
pydantic models, which name the line of every mistake.

NCCL_BUFFSIZE: [4194304, 8388608]      # a file of knobs

default: tcp              # the baseline; without it, the first
setups:
  tcp: {}
  plugin:
    extends: tcp
    env: {NCCL_NET: AWS Libfabric}
    prepend: {LD_LIBRARY_PATH: /soft/lib}
    unset: [NCCL_NET_PLUGIN]
    flags: {buffers: nccl}
    why: one sentence
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, RootModel, model_validator

from busbw.errors import UsageError
from busbw.files import read_input
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import read_settings
from busbw.plan.presets.schema import Section, Variable, Word, fitting, matches, refused
from busbw.plan.yaml_file import read_model

# In a file name, a table and a shell alike.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
# Flags that a setup may set: how the same calls are made. What is measured is the same for all setups.
FLAGS: Final = ("nccl", "buffers", "local_register", "cudagraph", "unalign", "hot")


def _flags(found: Any) -> dict[str, Any]:  # noqa: ANN401 (YAML)
    """Values as `busbw run` reads them."""
    if not isinstance(found, Mapping):
        raise refused("it is not a list of FLAG: value", "write FLAG: value")
    said = {str(name).replace("-", "_"): value for name, value in found.items()}
    for name, value in said.items():
        if name not in FLAGS:
            raise refused(f"{name!r} is not known", f"use one of: {', '.join(FLAGS)}")
        if isinstance(value, str):
            fitting(value)
    try:
        settings = read_settings(RunSettings, said)
    except UsageError as error:
        raise refused(error.message, error.hint) from error
    return {name: getattr(settings, name) for name in said}


class SetupSpec(Section):
    """One setup as written. ``env`` are variables to set, ``prepend`` folders to put before what a variable
    has, ``unset`` variables to remove, ``flags`` settings of ``run`` (``FLAGS``).
    """

    extends: Word = ""
    env: dict[Variable, Word] = Field(default_factory=dict)
    prepend: dict[Variable, Word] = Field(default_factory=dict)
    unset: list[Variable] = Field(default_factory=list)
    flags: Annotated[dict[str, Any], BeforeValidator(_flags)] = Field(default_factory=dict)
    why: Word = ""


Name = Annotated[str, matches(_NAME, "name of a setup", "use letters, digits, and . _ + -")]
Spec = Annotated[SetupSpec, BeforeValidator(lambda body: {} if body is None else body)]


class SetupFile(Section):
    """All setups of a file in its order; ``default`` is the baseline's name. ``source`` says where they come
    from, ``version`` of what, ``about`` what to know of them.
    """

    default: Word = ""
    setups: Annotated[dict[Name, Spec], Field(min_length=1)]
    source: Word = ""
    version: Word = ""
    about: Word = ""

    @model_validator(mode="after")
    def _names_are_there(self) -> SetupFile:
        self.default = self.default or next(iter(self.setups))
        for word in (self.default, *(setup.extends for setup in self.setups.values() if setup.extends)):
            if word not in self.setups:
                raise refused(f"no setup {word!r}", f"the file has: {', '.join(self.setups)}")
        return self


def read_setups(path: Path) -> SetupFile:
    """A spec file. Raises UsageError where it cannot be read or says what no setup can be."""
    return parse_setups(read_input(path, "name a file of setups in YAML"), str(path))


def parse_setups(text: str, where: str) -> SetupFile:
    """A spec file's text. Raises UsageError."""
    return read_model(SetupFile, text, where, guide="setups")


# ---- knobs --------------------------------------------------------------------------------------------


_Values = Annotated[list[Word], Field(min_length=1)]


class _Knobs(RootModel[Annotated[dict[Variable, _Values], Field(min_length=1)]]):
    """Values by variable."""


def read_knobs(path: Path) -> dict[str, tuple[str, ...]]:
    """The values of each variable, in the file's order. Raises UsageError."""
    text = read_input(path, "name a file with a line a variable, as NCCL_BUFFSIZE: [4194304, 8388608]")
    found = read_model(_Knobs, text, str(path), guide="tune")
    return {name: tuple(dict.fromkeys(values)) for name, values in found.root.items()}
