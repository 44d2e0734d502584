"""Presets: what is known of a cluster as data, so that one word sets it up.

A file holds a family: presets by name, each with the environment, sweep and place of its source, the date of
those values, and what was wrong in the original. ``extends`` takes everything from another preset of the
family, ``versions`` has older values under their dates (``NAME@DATE``). Users' own files have the same form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from busbw.errors import UsageError
from busbw.settings.preset_file import MAPPINGS, load_file, parse


@dataclass(frozen=True)
class Preset:
    """One preset with everything that it extends, before an engine is chosen.

    ``body`` has the sections of the file; ``date`` is that of the values, and ``versions`` the dates that can
    be asked for.
    """

    name: str
    family: str
    source: str
    date: str
    versions: tuple[str, ...]
    body: Mapping[str, Any] = field(default_factory=dict)

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
        """What the library must be seen to use: net=ofi, collnet=1, nvls=1, mnnvl=1, gdrcopy=1."""
        return tuple(self.body.get("expects", ()))

    @property
    def references(self) -> tuple[str, ...]:
        """Names of the references that were measured on such a cluster (`busbw expect --list`)."""
        return tuple(self.body.get("references", ()))

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines that its source runs it on: it is known to fit there. Others are not refused."""
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

    def run_values(self) -> Mapping[str, str]:
        """Fields of RunSettings, as text."""
        return dict(self.body.get("run", {}))

    def launch_values(self, engine: str) -> Mapping[str, str | list[str]]:
        """Fields of LaunchSettings for an engine, as text; ``set`` is a list of KEY=VALUE words."""
        found: dict[str, Any] = dict(self.body.get("launch", {}))
        own = self.body.get(engine, {})
        if engine == "kubernetes":  # its form has keys of its own
            found["set"] = [f"{key}={value}" for key, value in own.items() if value != ""]
        else:
            found.update(own)
        return {name: value for name, value in found.items() if value != ""}


def names(extra: Iterable[Path] = ()) -> tuple[str, ...]:
    """Every preset that can be used, in the files' order; abstract ones only exist to be extended."""
    return tuple(
        f"{family}/{name}"
        for family, (_, presets) in _families(extra).items()
        for name, body in presets.items()
        if not body.get("abstract")
    )


def read_preset(name: str, extra: Iterable[Path] = ()) -> Preset:
    """The preset FAMILY/NAME or FAMILY/NAME@DATE; of a file, its path or PATH:NAME. Raises UsageError."""
    wanted, _, version = name.partition("@")
    families = _families(extra)
    family, _, own = wanted.partition("/")
    if family not in families or own not in families[family][1]:
        near = [known for known in names(extra) if len(own) > 1 and own in known]
        near = near or get_close_matches(wanted, names(extra))
        raise UsageError(
            f"no preset {wanted!r}",
            hint=f"did you mean {', '.join(near[:4])}?" if near else "`busbw presets list` names them",
        )
    head, presets = families[family]
    body = _extended(own, presets, version, f"{family}/{own}")
    versions = _versions(own, presets)
    if version and version not in versions:
        known = ", ".join(versions) or "none"
        raise UsageError(f"preset {wanted} has no version {version!r}", hint=f"its versions: {known}")
    return Preset(
        name=name,
        family=family,
        source=str(head.get("source", "")),
        date=version or str(head.get("date", "")),
        versions=versions,
        body=body,
    )


def _versions(name: str, presets: Mapping[str, Any]) -> tuple[str, ...]:
    """Dates that a preset or any it extends has values for, newest first."""
    found: set[str] = set()
    at: str | None = name
    while at is not None:
        found.update(map(str, presets[at].get("versions", {})))
        at = presets[at].get("extends")
    return tuple(sorted(found, reverse=True))


def _extended(name: str, presets: Mapping[str, Any], version: str, place: str) -> Mapping[str, Any]:
    """A preset over what it extends. A version is looked up at each step of the way: the newest values that
    are not newer than it; without one, the values outside ``versions``.
    """
    own = presets[name]
    body: dict[str, Any] = {}
    if base := own.get("extends"):
        if base not in presets:
            raise UsageError(f"preset {place} extends {base!r}, which its file does not have")
        body = dict(_extended(base, presets, version, place))
    body = _merged(body, own)
    dated = {str(date): values for date, values in own.get("versions", {}).items()}
    if version and version in dated:
        body = _merged(body, dated[version] or {})
    return body


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``: mappings by key, notes and expectations added, the rest replaced."""
    body = {key: value for key, value in below.items() if key != "abstract"}
    for key, value in above.items():
        if key in ("extends", "versions"):
            continue
        if key in MAPPINGS:
            body[key] = {**body.get(key, {}), **value}
        elif key == "notes":
            body[key] = [*body.get(key, []), *value]
        else:
            body[key] = value
    for name in above.get("unset", ()):
        body.get("env", {}).pop(name, None)
    return body


def _families(extra: Iterable[Path]) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Family -> (its head, its presets); users' files come last and may replace a family."""
    found = dict(_own_families())
    for path in extra:
        head = load_file(path)
        found[head["family"]] = head, head["presets"]
    return found


@cache
def _own_families() -> Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    found = {}
    folder = files("busbw.settings") / "presets"
    for path in sorted(folder.iterdir(), key=lambda item: item.name):
        if path.name.endswith(".yaml"):
            head = parse(path.read_text(encoding="utf-8"), path.name)
            found[head["family"]] = head, head["presets"]
    return found
