"""Words of a job's form that say what a flag says (slots, replicas, image, np), as that flag's field: under
its own name a typed flag wins over it, as over everything else that a preset says.

They are keys of a preset's ``kubernetes``, whose keys are those of --set, and words of any ``set``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from busbw.settings.engines import FORM_FLAGS

RANKS: Final = "ranks"  # of RunSettings; the others are of LaunchSettings
_FIELDS: Final = {**FORM_FLAGS, "np": RANKS}


def fields_of(section: Mapping[str, Any], *, is_form: bool = False) -> dict[str, Any]:
    """A section's fields, its ``set`` less the words that are fields. Where both say one thing, ``set`` does,
    as on the command line. ``is_form``: its keys are those of --set.
    """
    if is_form:
        section = {"set": [f"{key}={value}" for key, value in section.items() if value != ""]}
    found = dict(section)
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


def less(section: Mapping[str, Any], said: Collection[str]) -> dict[str, Any]:
    """A section without its words for the fields ``said``."""
    found = {key: value for key, value in section.items() if _FIELDS.get(key, key) not in said}
    if "set" in found:
        found["set"] = [word for word in found["set"] if _field(word) not in said]
    return found


def _field(word: str) -> str:
    """Of a word of --set; empty for one that no flag says."""
    return _FIELDS.get(word.partition("=")[0], "")
