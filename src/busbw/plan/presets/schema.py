"""What may stand in a preset file: pydantic models, which refuse an unknown word and name the known ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_type_hints

from cyclopts import Parameter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from busbw.plan.flags.engines import ENGINES, EngineName
from busbw.plan.flags.launch import VARIABLE, LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Written

_NAME: Final = re.compile(r"\w[\w.+-]*")
_DATE: Final = re.compile(r"\d{4}(-\d{2}){0,2}")
_COUNT: Final = re.compile(r"0*[1-9]\d*|")
# Flags that a section of its own says here, or that count what there cannot be none of.
_OWN_SECTIONS: Final = {
    "preset": "extends",
    "env": "env",
    "library_path": "library_path",
    "expect_use": "expects",
}
_COUNTS: Final = ("ranks", "ranks_per_node", "segment")


def refused(message: str, hint: str) -> PydanticCustomError:
    """An error of a validator, which ``yaml_file.read_model`` shows with its place and hint."""
    return PydanticCustomError("refused", "{message}", {"message": message, "hint": hint})


def matches(pattern: re.Pattern[str], what: str, hint: str) -> AfterValidator:
    """A text of that form."""

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise refused(f"{text!r} is no {what}", hint)
        return text

    return AfterValidator(check)


def fitting(text: str) -> str:
    """The text, if a process can be given it and a terminal shown it."""
    if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text):
        raise refused(f"{text!r} has a character that a variable cannot hold", "leave it out")
    return text


def _one_value(value: object) -> str | bool:
    if isinstance(value, str):
        return fitting(value)
    if isinstance(value, bool):
        return value
    raise refused("it is not a single value", 'write it in quotes, as "8M"')


Word = Annotated[str, AfterValidator(fitting)]
Value = Annotated[Any, AfterValidator(_one_value)]
Name = Annotated[
    str, matches(_NAME, "name for --preset FAMILY/NAME@DATE", "write letters, digits, . _ and -")
]
Date = Annotated[str, matches(_DATE, "date of values", "write 2026-05, or 2026-05-27")]
Count = Annotated[Word, matches(_COUNT, "count", "give 1 or more")]
Variable = Annotated[Word, matches(VARIABLE, "name of a variable", "write a name like NCCL_DEBUG")]
Variables = dict[Variable, Word | None]
Amount = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A mapping whose keys are known."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, found: Any) -> Any:  # noqa: ANN401 (YAML)
        if not isinstance(found, Mapping):
            raise refused("it is not a list of KEY: VALUE", "write `KEY: VALUE` lines below it")
        for key in found:
            if key not in cls.model_fields:
                own = _OWN_SECTIONS.get(key)
                known = f"use the preset's own `{own}:`" if own else ", ".join(sorted(cls.model_fields))
                raise refused(f"{key!r} is not known", known if own else f"use one of: {known}")
        return found


class Node(Section):
    """What is known of a node; ``networks`` are those that its pods get beside the cluster's."""

    gpu: Word | None = None
    nic: Word | None = None
    arch: Word | None = None
    gpus: Amount | None = None
    nics: Amount | None = None
    node_gbit_per_s: Amount | Annotated[float, Field(ge=0)] | None = None
    nvlinks_per_gpu: Amount | None = None
    topology_layers: Amount | None = None
    nvlink_domain_nodes: Amount | None = None
    networks: Amount | None = None
    chips: Amount | None = None
    ranks: Amount | None = None


def _flags_of(kind: type[RunSettings | LaunchSettings]) -> dict[str, Any]:
    """The flags for users that have no section of their own, each as text, or as a list of texts."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        marks = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Parameter)]
        is_hidden = any(mark.show is False or mark.parse is False for mark in marks)
        if is_hidden or name in _OWN_SECTIONS:
            continue
        default = getattr(kind, name)
        is_list = isinstance(default, tuple) and not isinstance(default, Written)
        found[name] = list[Word] if is_list else Count if name in _COUNTS else Value
    return found


def _section(name: str, types: Mapping[str, Any]) -> type[Section]:
    fields: dict[str, Any] = {each: (own | None, None) for each, own in types.items()}
    return create_model(name, __base__=Section, **fields)


Run: Final = _section("Run", _flags_of(RunSettings))
_LAUNCH: Final = _flags_of(LaunchSettings)
Launch: Final = _section("Launch", {**_LAUNCH, "on": EngineName})
Engine: Final = _section("Engine", {name: own for name, own in _LAUNCH.items() if name != "on"})
# The keys of Kubernetes are those of --set, which knows them.
Form = dict[Word, Value | None]


class Common(Section):
    """What a preset, and each of its versions, may say of every engine."""

    summary: Word = ""
    image: Word = ""
    tool: Literal["", "nccom-test"] = ""  # the command that measures where `run` cannot
    node: Node = Node()
    run: Run = Run()  # type: ignore[valid-type]
    launch: Launch = Launch()  # type: ignore[valid-type]
    env: Variables = {}
    unset: list[Variable] = []
    library_path: list[Word] = []
    expects: list[Word] = []
    references: list[Word] = []
    notes: list[Word] = []
    engines: list[EngineName] = []


def _of_engines() -> dict[str, Any]:
    """The sections for one engine: its place, sweep, variables, and the variables that it does not get."""
    found: dict[str, Any] = {}
    for name in ENGINES:
        found |= {
            name: (Form if name == "kubernetes" else Engine, None),
            f"{name}_run": (Run, None),
            f"{name}_env": (Variables, None),
            f"{name}_unset": (list[Variable], None),
        }
    return found


Version: Final = create_model("Version", __base__=Common, **_of_engines())


class Preset(Version):  # type: ignore[valid-type,misc]
    """One preset. What stands here does not differ between its versions."""

    extends: Annotated[Word, Field(min_length=1)] | None = None
    since: Date | None = None
    abstract: bool = False
    versions: dict[Date, Version | None] = Field(default_factory=dict)  # type: ignore[valid-type]


class PresetFile(Section):
    """A file: a family of presets, and where their values are from."""

    family: Name
    source: Word = ""
    date: Word = ""
    presets: dict[Name, Preset]
