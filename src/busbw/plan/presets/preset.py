"""Presets: what is known of a cluster as data, so that one word sets it up.

A file holds a family: presets by name, each with the environment, sweep and place of its source, the date of
those values, and what was wrong in the original. ``extends`` takes everything from another preset (of the
family, or FAMILY/NAME), ``versions`` has older values under their dates (``NAME@DATE``), from ``since`` on.
``null`` for a key drops what is inherited. Users' own files have the same form, and add to shipped families.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from busbw.errors import UnknownWord, UsageError
from busbw.files import read_input
from busbw.plan.flags.engines import ENGINES, FORM_FLAGS
from busbw.plan.yaml_file import read_model

ENGINE_SECTIONS: Final = tuple(ENGINES)
# What a preset does not hand to those that extend it.
_OWN_KEYS: Final = ("extends", "versions", "since", "abstract")
_SHIPPED: Final = "shipped with busbw"
# The engine whose section has the keys of --set. Those that are flags, too, are read as such.
_FORM: Final = "kubernetes"


@dataclass(frozen=True)
class Preset:
    """One preset with everything that it extends, before an engine is chosen.

    ``layers`` are the sections of all that it extends and its own, the lowest first; ``body`` is what they
    come to. ``date`` is that of the values, and ``versions`` the dates that can be asked for. ``shipped`` is
    false for one of a user's file, ``is_abstract`` true for one that only exists to be extended.

    ``summary`` says in a line what it is for, ``notes`` what a user must know, the known defects of the
    original among it. ``tool`` is the command of busbw that measures there, where that is not ``run``;
    ``references`` are names of those that were measured on such a cluster (`busbw expect --list`),
    ``engines`` those that busbw's tests render it on (others are not refused), ``library_path`` folders to
    put first on LD_LIBRARY_PATH.
    """

    name: str
    source: str
    date: str
    versions: tuple[str, ...]
    layers: Sequence[Mapping[str, Any]]
    body: Mapping[str, Any]
    is_abstract: bool
    shipped: bool
    summary: str = ""
    tool: str = ""
    notes: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    library_path: tuple[str, ...] = ()

    @property
    def expects(self) -> tuple[str, ...]:
        """What the library must be seen to use (net=ofi, collnet=1, nvls=1, mnnvl=1, gdrcopy=1), and what a
        node must have (gpus=1, nics=8), as words of --expect-use.
        """
        node = self.body.get("node", {})
        of_node = {"gpus": 1 if node.get("gpus") else 0, "nics": node.get("nics") or 0}
        own = tuple(self.body.get("expects", ()))
        said = {word.partition("=")[0] for word in own}
        return (*own, *(f"{name}={count}" for name, count in of_node.items() if count and name not in said))

    @property
    def engine(self) -> str:
        """The engine that it names itself, which is used where the user names none; empty without."""
        return str(self.body.get("launch", {}).get("on") or "")

    def environ(self, engine: str) -> Mapping[str, str]:
        """The variables of the measured processes on an engine ("" for this host)."""
        hidden: Sequence[str] = ()
        for layer in self.layers:
            still = [name for name in hidden if name not in layer.get("env", {})]
            hidden = layer.get(f"{engine}_unset", still)
        of_all = {name: value for name, value in self.body.get("env", {}).items() if name not in hidden}
        return {**of_all, **self.body.get(f"{engine}_env", {})}

    def run_values(self, engine: str) -> Mapping[str, str]:
        """Fields of RunSettings for an engine, as text."""
        return {**self.body.get("run", {}), **self.body.get(f"{engine}_run", {})}

    def launch_values(self, engine: str) -> Mapping[str, str | list[str]]:
        """Fields of LaunchSettings for an engine, as text; ``set`` is a list of KEY=VALUE words. An empty
        value says that what holds for every engine does not hold for this one.
        """
        found = {**self.body.get("launch", {}), **self.body.get(engine, {})}
        if engine == _FORM:
            form = self.body.get(f"{engine}_set", {})
            words = [f"{key}={value}" for key, value in form.items() if value != ""]
            found["set"] = [*found.get("set", ()), *words]
        return {name: value for name, value in found.items() if value != ""}


def _body(layers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What layers come to, section by section: the last layer's word, but notes of all of them."""
    body = {key: value for layer in layers for key, value in layer.items()}
    body["notes"] = [note for layer in layers for note in layer.get("notes", ())]
    body["node"], _ = _section(layers, "node")
    for section in ("launch", "run", "env"):
        body[section], _ = _section(layers, section)
    for engine in ENGINE_SECTIONS:
        for section, own in (("launch", ""), ("launch", "_set"), ("run", "_run"), ("env", "_env")):
            _, body[f"{engine}{own}"] = _section(layers, section, f"{engine}{own}")
    return {key: value for key, value in body.items() if value not in ({}, [])}


def _section(
    layers: Sequence[Mapping[str, Any]], everywhere: str, own: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A section of every engine, and that of one. What a layer says of every engine holds over what those
    below it say of one; null takes back what was said.
    """
    of_all: dict[str, Any] = {}
    of_one: dict[str, Any] = {}
    for layer in layers:
        said = layer.get(everywhere, {})
        of_all = _without_null({**of_all, **said})
        kept = {name: value for name, value in of_one.items() if name not in said}
        of_one = _without_null({**kept, **layer.get(own, {})})
    return of_all, of_one


@dataclass(frozen=True)
class _Entry:
    """A preset as it stands in a file, and that file's head."""

    body: Mapping[str, Any]
    head: Mapping[str, Any]
    place: str

    @property
    def base(self) -> str:
        """The full name of what it extends; empty without."""
        base = str(self.body.get("extends", ""))
        return base if not base or "/" in base else f"{self.head['family']}/{base}"


_Known = Mapping[str, _Entry]


def names(extra: Iterable[Path] = ()) -> tuple[str, ...]:
    """Every preset that can be used, in the files' order; abstract ones only exist to be extended."""
    return tuple(name for name, entry in _entries(extra).items() if not entry.body.get("abstract"))


def read_preset(name: str, extra: Iterable[Path] = ()) -> Preset:
    """The preset FAMILY/NAME or FAMILY/NAME@DATE. Raises UsageError."""
    wanted, _, version = name.partition("@")
    known = _entries(extra)
    if wanted not in known:
        own = wanted.rpartition("/")[2]  # the family may be left out
        near = [other for other in names(extra) if len(own) > 1 and own.lower() in other.lower()]
        hint = "`busbw presets list` names them"
        known_names = near[:1] or names(extra)
        raise UnknownWord(f"no preset {wanted!r}", wanted, known_names, hint=hint, cutoff=0 if near else 0.7)
    line = _line_of(wanted, known)
    versions = _versions(line, known)
    if version and version not in versions:
        listed = ", ".join(versions) or "none"
        raise UsageError(f"preset {wanted} has no version {version!r}", hint=f"use one of: {listed}")
    entry = known[wanted]
    layers = tuple(_layers(line, known, version))
    body = _body(layers)
    return Preset(
        name=name,
        source=str(entry.head.get("source", "")),
        date=version or str(entry.head.get("date", "")),
        versions=versions,
        layers=layers,
        body=body,
        is_abstract=bool(entry.body.get("abstract")),
        shipped=entry.place == _SHIPPED,
        summary=str(body.get("summary", "")),
        tool=str(body.get("tool", "")),
        **{key: tuple(body.get(key, ())) for key in ("notes", "references", "engines", "library_path")},
    )


def _line_of(name: str, known: _Known) -> list[str]:
    """A preset and all that it extends, the lowest first. Raises UsageError."""
    line = [name]
    while base := known[line[-1]].base:
        entry = known[line[-1]]
        if base not in known:
            raise UsageError(
                f"preset {line[-1]} ({entry.place}) extends {entry.body['extends']!r}, which does not exist",
                hint="name a preset of the same family, or FAMILY/NAME of another",
            )
        if base in line:
            circle = " -> ".join([*line[line.index(base) :], base])
            raise UsageError(
                f"preset {line[-1]} ({entry.place}) extends itself: {circle}",
                hint="take one `extends` out of the circle",
            )
        line.append(base)
    return line[::-1]


def _versions(line: Sequence[str], known: _Known) -> tuple[str, ...]:
    """Dates that a preset or any it extends has values for, newest first; none before it existed. Raises
    UsageError for one of its own that nobody could ask for.
    """
    found = {str(date) for name in line for date in known[name].body.get("versions", {})}
    since = max(str(known[name].body.get("since", "")) for name in line)
    own = known[line[-1]]
    for date in map(str, own.body.get("versions", {})):
        if date < since:
            raise UsageError(
                f"preset {line[-1]} ({own.place}) has a version {date}, before its start ({since})",
                hint="take the version out, or correct `since:`",
            )
    return tuple(sorted((date for date in found if date >= since), reverse=True))


def _layers(line: Iterable[str], known: _Known, version: str) -> Iterator[Mapping[str, Any]]:
    """Of each step its own words, then those of the version where it has some."""
    for name in line:
        own = known[name].body
        yield _layer(own)
        dated = {str(date): values for date, values in own.get("versions", {}).items()}
        if dated.get(version):
            yield _layer(dated[version])


def _layer(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is handed on, in the settings' names: a variable that is unset is null, and the form's words stand
    apart from its flags.
    """
    layer = {key: value for key, value in said.items() if key not in _OWN_KEYS}
    for section in ("", *(f"{engine}_" for engine in ENGINE_SECTIONS)):
        if gone := layer.get(f"{section}unset"):
            layer[f"{section}env"] = {**dict.fromkeys(gone), **layer.get(f"{section}env", {})}
    layer.pop("unset", None)
    if (form := layer.get(_FORM)) is not None:
        layer[_FORM] = {FORM_FLAGS[key]: value for key, value in form.items() if key in FORM_FLAGS}
        words = {key: value for key, value in form.items() if key not in (*FORM_FLAGS, "np")}
        layer[f"{_FORM}_set"] = words
        if "np" in form:
            layer[f"{_FORM}_run"] = {**layer.get(f"{_FORM}_run", {}), "ranks": form["np"]}
    return layer


def _without_null(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _entries(extra: Iterable[Path]) -> dict[str, _Entry]:
    """Full name -> entry, users' files last. Raises UsageError for a preset that stands in two files."""
    found = dict(_own_entries())
    for path in extra:
        for name, entry in _of_file(load_file(path), str(path)).items():
            if name in found:
                where = found[name].place
                where = where if where == _SHIPPED else f"in {where}"
                raise UsageError(
                    f"preset {name} is in {path}, and {where}",
                    hint="give one of them another name; it may extend the other (`extends: FAMILY/NAME`)",
                )
            found[name] = entry
    return found


def _of_file(head: Mapping[str, Any], place: str) -> dict[str, _Entry]:
    return {f"{head['family']}/{name}": _Entry(body, head, place) for name, body in head["presets"].items()}


@cache
def _own_entries() -> _Known:
    found: dict[str, _Entry] = {}
    folder = files("busbw.plan.presets") / "data"
    for path in sorted(folder.iterdir(), key=lambda item: item.name):
        if path.name.endswith(".yaml"):
            found.update(_of_file(parse(path.read_text(encoding="utf-8"), path.name), _SHIPPED))
    return found


def load_file(path: Path) -> Mapping[str, Any]:
    """A user's preset file, checked. Raises UsageError."""
    return parse(read_input(path, "name a readable UTF-8 file of presets"), str(path))


def parse(text: str, place: str) -> Mapping[str, Any]:
    """A preset file's content: only what was written, numbers of a node as numbers, all else as text. Raises
    UsageError naming the place.
    """
    from busbw.plan.presets.schema import PresetFile

    return read_model(PresetFile, text, place, guide="presets").model_dump(exclude_unset=True)
