"""How settings are declared: a flag is the default of a field, with its help and the group that lists it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import get_annotations
from typing import Annotated, Any, TypeVar, dataclass_transform

import cyclopts

_T = TypeVar("_T")


def flag_of(name: str) -> str:
    """``ranks_per_node`` -> ``--ranks-per-node``; not for a setting whose Parameter names it otherwise."""
    return "--" + name.replace("_", "-")


# A group of flags. A flag has no opposite (``--no-hot``) but where it names one.
Group = partial(cyclopts.Group, default_parameter=cyclopts.Parameter(negative=""))


@dataclass(frozen=True)
class _Flag:
    """What stands in a class until ``settings`` has read it."""

    default: object
    names: tuple[str, ...]  # beside the field's own
    ranges: tuple[object, ...]
    how: Mapping[str, Any]

    def parameter(self, name: str) -> cyclopts.Parameter:
        """What cyclopts is to know of it, as the field ``name``."""
        named = {"name": [flag_of(name), *self.names]} if self.names else {}
        return cyclopts.Parameter(**{**named, **self.how})

    def typed(self, name: str) -> str:
        """As users write it: ``-n`` where it has a letter, else its first long name."""
        letter = next((each for each in self.names if len(each) == 2), "")
        return letter or self.how.get("name") or flag_of(name)


class Flags:
    """Declares flags of one group: each call is a field's default."""

    def __init__(self, title: str = "", sort_key: int = 0, **how: Any) -> None:  # noqa: ANN401 (cyclopts')
        self._how = {**({"group": Group(title, sort_key=sort_key)} if title else {}), **how}

    def __call__(self, default: _T, text: str = "", *more: object, **how: Any) -> _T:  # noqa: ANN401
        """A flag whose help is ``text``. ``more`` are its other names (``-n``) and ranges of its value
        (``values.Check``), ``how`` what else a cyclopts.Parameter takes.
        """
        names = tuple(name for each in more if isinstance(each, str) for name in each.split())
        ranges = tuple(each for each in more if not isinstance(each, str))
        said = {"help": text} if text else {}
        return _Flag(default, names, ranges, {**self._how, **said, **how})  # type: ignore[return-value]


@dataclass_transform(frozen_default=True)
def settings(kind: type[_T]) -> type[_T]:
    """A frozen dataclass of flags. Its module has no postponed annotations: cyclopts would look the names up
    in the module of a class that inherits.
    """
    hints = get_annotations(kind)
    for name, flag in list(vars(kind).items()):
        if isinstance(flag, _Flag):
            hints[name] = Annotated[hints[name], flag.parameter(name)]
            setattr(
                kind,
                name,
                field(default=flag.default, metadata={"typed": flag.typed(name), "ranges": flag.ranges}),
            )
    kind.__annotations__ = hints
    made: type[_T] = cyclopts.Parameter(name="*")(dataclass(frozen=True)(kind))
    return made
