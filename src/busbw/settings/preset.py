"""Presets: what is known of a cluster as data, so that one word sets it up.

A file holds a family: presets by name, each with the environment, sweep and place of its source, the date of
those values, and what was wrong in the original. ``extends`` takes everything from another preset (of the
family, or FAMILY/NAME), ``versions`` has older values under their dates (``NAME@DATE``), from ``since`` on.
``null`` for a key drops what is inherited. Users' own files have the same form, and add to shipped families.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError
from busbw.settings.preset_file import ENGINE_SECTIONS, MAPPINGS, load_file, parse
from busbw.settings.preset_form import HOSTS_SAID, RANKS, fields_of, less, said_by, superseded
from busbw.settings.preset_hosts import have_slots

# What a preset does not hand to those that extend it: it is said by merging.
_OWN_KEYS: Final = ("extends", "versions", "since", "abstract", "unset")
_SHIPPED: Final = "shipped with busbw"
# Engines whose section's keys are those of --set.
_FORMS: Final = ("kubernetes",)


@dataclass(frozen=True)
class Preset:
    """One preset with everything that it extends, before an engine is chosen.

    ``body`` has the sections of the file; ``date`` is that of the values, and ``versions`` the dates that can
    be asked for. ``shipped`` is false for one of a user's file.
    """

    name: str
    family: str
    source: str
    date: str
    versions: tuple[str, ...]
    body: Mapping[str, Any] = field(default_factory=dict)
    shipped: bool = True

    @property
    def summary(self) -> str:
        """What it is for, in a line."""
        return str(self.body.get("summary", ""))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user must know, the known defects of the original among it."""
        return tuple(self.body.get("notes", ()))

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
    def tool(self) -> str:
        """The command of busbw that measures there, where that is not ``run``; else empty."""
        return str(self.body.get("tool", ""))

    @property
    def references(self) -> tuple[str, ...]:
        """Names of the references that were measured on such a cluster (`busbw expect --list`)."""
        return tuple(self.body.get("references", ()))

    @property
    def is_abstract(self) -> bool:
        """Whether it only exists to be extended."""
        return bool(self.body.get("abstract"))

    @property
    def engine(self) -> str:
        """The engine that it names itself (``launch: {on: slurm}``), which is used where the user names none;
        empty without.
        """
        return str(self.body.get("launch", {}).get("on") or "")

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines that busbw's tests render it on. Others are not refused."""
        return tuple(self.body.get("engines", ()))

    @property
    def library_path(self) -> tuple[str, ...]:
        """Folders to put first on LD_LIBRARY_PATH."""
        return tuple(self.body.get("library_path", ()))

    def environ(self, engine: str) -> Mapping[str, str]:
        """The variables of the measured processes on an engine ("" for this host)."""
        found = dict(self.body.get("env", {}))
        for name in self.body.get(f"{engine}_unset", ()):
            found.pop(name, None)
        found.update(self.body.get(f"{engine}_env", {}))
        return found

    def run_values(self, engine: str) -> Mapping[str, str]:
        """Fields of RunSettings for an engine, as text."""
        found: dict[str, Any] = {}
        for section, place in zip(("run", f"{engine}_run"), self._places(engine), strict=True):
            found.update(self.body.get(section, {}))
            found.update({RANKS: place[RANKS]} if RANKS in place else {})
        return {name: value for name, value in found.items() if name != RANKS or value != ""}

    def launch_values(self, engine: str) -> Mapping[str, str | list[str]]:
        """Fields of LaunchSettings for an engine, as text; ``set`` is a list of KEY=VALUE words."""
        general, own = self._places(engine)
        found = {**general, **own}
        if engine in _FORMS:
            found["set"] = [*general.get("set", ()), *own["set"]]
        return {name: value for name, value in found.items() if value != "" and name != RANKS}

    def _places(self, engine: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that it says for every engine, and those for this one."""
        general, own = self.body.get("launch", {}), self.body.get(engine, {})
        if "set" in own:  # a list takes the place of another
            general = {name: value for name, value in general.items() if name != "set"}
        return fields_of(general), fields_of(own, is_form=engine in _FORMS)


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

    @property
    def where(self) -> str:
        """Its place in words."""
        return self.place if self.place == _SHIPPED else f"in {self.place}"


_Known = Mapping[str, _Entry]


def names(extra: Iterable[Path] = ()) -> tuple[str, ...]:
    """Every preset that can be used, in the files' order; abstract ones only exist to be extended."""
    return tuple(name for name, entry in _entries(extra).items() if not entry.body.get("abstract"))


def names_extending(name: str, extra: Iterable[Path] = ()) -> tuple[str, ...]:
    """The presets that can be used and have all of FAMILY/NAME in them."""
    extra = tuple(extra)
    known = _entries(extra)
    return tuple(other for other in names(extra) if other != name and name in _line_of(other, known))


def read_preset(name: str, extra: Iterable[Path] = ()) -> Preset:
    """The preset FAMILY/NAME or FAMILY/NAME@DATE. Raises UsageError."""
    wanted, _, version = name.partition("@")
    known = _entries(extra)
    if wanted not in known:
        own = wanted.rpartition("/")[2]  # the family may be left out
        near = [other for other in names(extra) if len(own) > 1 and own.lower() in other.lower()]
        near = near or get_close_matches(wanted, names(extra))
        raise UsageError(
            f"no preset {wanted!r}",
            hint=f"did you mean {', '.join(near[:4])}?" if near else "`busbw presets list` names them",
        )
    line = _line_of(wanted, known)
    versions = _versions(line, known)
    if version and version not in versions:
        listed = ", ".join(versions) or "none"
        raise UsageError(f"preset {wanted} has no version {version!r}", hint=f"its versions: {listed}")
    entry = known[wanted]
    return Preset(
        name=name,
        family=str(entry.head["family"]),
        source=str(entry.head.get("source", "")),
        date=version or str(entry.head.get("date", "")),
        versions=versions,
        body=_body(line, known, version),
        shipped=entry.place == _SHIPPED,
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
                f"preset {line[-1]} ({own.place}) has a version {date}, before it was there (since: {since})",
                hint="take the version out, or correct `since:`",
            )
    return tuple(sorted((date for date in found if date >= since), reverse=True))


def _body(line: Iterable[str], known: _Known, version: str) -> Mapping[str, Any]:
    """Each step over the one before, with its values of the version where it has some."""
    body: dict[str, Any] = {}
    for name in line:
        own = known[name].body
        body = _merged(body, own)
        dated = {str(date): values for date, values in own.get("versions", {}).items()}
        body = _merged(body, dated.get(version) or {})
    if known[name].body.get("abstract"):
        body["abstract"] = True
    return body


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``: mappings by key, where null drops the key; notes added, the rest replaced.

    What ``above`` says for every engine (``launch``, ``run``, ``env``) holds over ``below``'s word for one.
    """
    body = {**below, **_still_said_of_all(below, above)}
    for engine in ENGINE_SECTIONS:
        body.update(_still_said(below, above, engine))
    for key, value in above.items():
        if key in _OWN_KEYS:
            continue
        if key in MAPPINGS:
            both = {**body.get(key, {}), **value}
            body[key] = {name: item for name, item in both.items() if item is not None}
        elif key == "notes":
            body[key] = [*body.get(key, []), *value]
        else:
            body[key] = value
    gone = above.get("unset", ())
    if gone:
        body["env"] = {name: value for name, value in body.get("env", {}).items() if name not in gone}
    return body


def _still_said_of_all(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``launch`` and ``expects`` of ``below``, less what ``above`` has a later word for in another form."""
    found: dict[str, Any] = {}
    if "launch" in below:
        said = said_by(above.get("launch", {})) | ({RANKS} & above.get("run", {}).keys())
        found["launch"] = less(below["launch"], said | (HOSTS_SAID if said & HOSTS_SAID else frozenset()))
    if "expects" in below:
        node = above.get("node", {})
        found["expects"] = [word for word in below["expects"] if word.partition("=")[0] not in node]
    return found


def _still_said(below: Mapping[str, Any], above: Mapping[str, Any], engine: str) -> dict[str, Any]:
    """The sections of ``below`` for one engine, less what ``above`` has a later word for; what has no sense
    beside that, though it holds for other engines, is empty there.
    """
    env, run = above.get("env", {}), above.get("run", {})
    place = _place(above, engine)
    old = superseded(place, engine, has_slots=engine == "hosts" and have_slots(place))
    launch = said_by(above.get("launch", {}))
    own = said_by(above.get(engine, {})) | ({RANKS} & {*run, *above.get(f"{engine}_run", {})})
    later: Mapping[str, Collection[str]] = {
        f"{engine}_run": (*run, *({RANKS} & (launch | old))),
        f"{engine}_env": (*env, *above.get("unset", ()), *above.get(f"{engine}_unset", ())),
    }
    found: dict[str, Any] = {
        section: {name: value for name, value in below[section].items() if name not in said}
        for section, said in later.items()
        if section in below
    }
    if engine in below:
        found[engine] = less(below[engine], launch | own | old)
    unset = f"{engine}_unset"
    if unset in below:
        found[unset] = [name for name in below[unset] if name not in env]
    if general := {*below.get("run", {}), *fields_of(below.get("launch", {}))} & old:
        found[engine] = {**found.get(engine, {}), **dict.fromkeys(general, "")}
    return found


def _place(body: Mapping[str, Any], engine: str) -> dict[str, Any]:
    """What a preset itself says of the ranks' place on an engine."""
    general, own, run, own_run = (
        {name: value for name, value in body.get(section, {}).items() if value is not None}  # which drops it
        for section in ("launch", engine, "run", f"{engine}_run")
    )
    runs = {**run, **own_run}
    place = {**fields_of(general), **fields_of(own, is_form=engine in _FORMS)}
    return place | ({RANKS: runs[RANKS]} if RANKS in runs else {})


def _entries(extra: Iterable[Path]) -> dict[str, _Entry]:
    """Full name -> entry; users' files come last, and add to families. Raises UsageError for a preset that
    stands in two files.
    """
    found = dict(_own_entries())
    for path in extra:
        for name, entry in _of_file(load_file(path), str(path)).items():
            if name in found:
                raise UsageError(
                    f"preset {name} is in {path}, and {found[name].where}",
                    hint="give one of them another name; it may extend the other (`extends: FAMILY/NAME`)",
                )
            found[name] = entry
    return found


def _of_file(head: Mapping[str, Any], place: str) -> dict[str, _Entry]:
    return {f"{head['family']}/{name}": _Entry(body, head, place) for name, body in head["presets"].items()}


@cache
def _own_entries() -> _Known:
    found: dict[str, _Entry] = {}
    folder = files("busbw.settings") / "presets"
    for path in sorted(folder.iterdir(), key=lambda item: item.name):
        if path.name.endswith(".yaml"):
            found.update(_of_file(parse(path.read_text(encoding="utf-8"), path.name), _SHIPPED))
    return found
