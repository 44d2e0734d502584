"""What a job's ranks are to measure: settings that were read already, as JSON in a word of their command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import changed, read_settings

RUN: Final = "run"
SETTINGS: Final = "--settings="  # read by ranks as well: ``rank.profile.option``
DELIVER: Final = "--deliver="
# What the front process does itself.
_OF_THE_FRONT: Final = (
    *("format", "dry_run", "show_secrets", "launches", "ranks", "deliver", "expect"),
    *("presets_used", "overridden", "name", "tag"),
)


def rank_words(operations: Sequence[str], settings: RunSettings, folder: object) -> tuple[str, ...]:
    """What ranks of a job execute, behind ``python -m busbw``. Sizes are bytes in it, durations seconds."""
    plain = {name: value for name, value in changed(settings).items() if name not in _OF_THE_FRONT}
    text = json.dumps(plain, separators=(",", ":"))
    return (RUN, *operations, *([f"{SETTINGS}{text}"] if plain else []), f"{DELIVER}{folder}")


def is_request(words: Sequence[str]) -> bool:
    """Whether these are ``rank_words``, not a user's."""
    return list(words[:1]) == [RUN] and any(word.startswith(DELIVER) for word in words)


def read_request(words: Sequence[str]) -> tuple[tuple[str, ...], RunSettings]:
    """The inverse of ``rank_words``: operations and settings, whose ``deliver`` is the run folder for whose
    record a front process waits.
    """
    said = {word.partition("=")[0] + "=": word.partition("=")[2] for word in words if word.startswith("--")}
    settings = read_settings(RunSettings, json.loads(said.get(SETTINGS, "{}")))
    operations = tuple(word for word in words[1:] if not word.startswith("--"))
    return operations, replace(settings, deliver=said[DELIVER])
