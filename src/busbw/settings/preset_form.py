"""Words of a job's form that say what a flag says (slots, replicas, image, np), as that flag's field: under
its own name a typed flag wins over it, as over everything else that a preset says. And which words of the
ranks' place leave no sense to an earlier one.

Words of the form are keys of a preset's ``kubernetes``, whose keys are those of --set, and words of any
``set``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from busbw.settings.engines import FORM_FLAGS

RANKS: Final = "ranks"  # of RunSettings; the others are of LaunchSettings
_FIELDS: Final = {**FORM_FLAGS, "np": RANKS}
# A field of the ranks' place -> what a lower preset said, and this one says now in other words.
_INSTEAD: Final[Mapping[str, frozenset[str]]] = {
    "nodes": frozenset({RANKS}),
    "ranks_per_node": frozenset({RANKS}),
    RANKS: frozenset({"ranks_per_node"}),
}
HOSTS_SAID: Final = frozenset({"hosts", "hostfile"})  # one or the other
_OF_SLOTS: Final = frozenset({"ranks_per_node", RANKS})


def fields_of(section: Mapping[str, Any], *, is_form: bool = False) -> dict[str, Any]:
    """A section's fields, its ``set`` less the words that are fields. Where both say one thing, ``set`` does,
    as on the command line. ``is_form``: its keys are those of --set. An empty value stays: it says that what
    holds for every engine does not hold for this one.
    """
    found = dict(section)
    if is_form:
        found = {_FIELDS.get(key, key): "" for key, value in section.items() if value == ""}
        section = {"set": [f"{key}={value}" for key, value in section.items() if value != ""]}
        found |= section
    for word in section.get("set", ()):
        if field := _field(word):
            found[field] = word.partition("=")[2]
    if "set" in section:
        found["set"] = [word for word in section["set"] if not _field(word)]
    return found


def said_by(section: Mapping[str, Any]) -> set[str]:
    """The fields that a section has a word for."""
    words = section.get("set") or ()
    return {_FIELDS.get(key, key) for key in section} | {_field(word) for word in words if _field(word)}


def superseded(place: Mapping[str, Any], engine: str, *, has_slots: bool = False) -> set[str]:
    """The fields of an engine's place in which an earlier word has no say where ``place`` says its own, maybe
    with slots of its hosts.
    """
    said = {field for field, value in place.items() if value != ""}
    found = {old for field in said for old in _INSTEAD.get(field, ())}
    if engine == "hosts" and said & HOSTS_SAID:
        found |= {*HOSTS_SAID, "nodes"}
        found |= _OF_SLOTS if has_slots else frozenset()
    return found - said


def less(section: Mapping[str, Any], said: Collection[str]) -> dict[str, Any]:
    """A section without its words for the fields ``said``."""
    found = {key: value for key, value in section.items() if _FIELDS.get(key, key) not in said}
    if "set" in found:
        found["set"] = [word for word in found["set"] if _field(word) not in said]
    return found


def _field(word: str) -> str:
    """Of a word of --set; empty for one that no flag says."""
    return _FIELDS.get(word.partition("=")[0], "")
