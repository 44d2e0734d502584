"""Words of ``--set`` that stand in the manifest as they are, a row each: labels, tolerations. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from busbw.errors import UsageError

# Letters, digits, and what keys of labels and annotations have besides.
_KEY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?\Z")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")
# Names of namespaces are DNS labels (RFC 1123): at most 63 characters, without dots.
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# By these busbw finds what belongs to a job.
_OWN_LABELS: Final = "app.kubernetes.io/"


class Part(Enum):
    """What of a job gets a value."""

    JOB = auto()  # the MPIJob, Job or JobSet itself
    PODS = auto()  # every pod
    RANKS = auto()  # the pods that measure


@dataclass(frozen=True)
class Row:
    """``read`` turns (key, words as given) into the value that stands at ``path`` of each of ``parts``.

    A list is added to the list there, a mapping to the mapping; anything else takes the place.
    """

    parts: tuple[Part, ...]
    path: tuple[str, ...]
    read: Callable[[str, tuple[str, ...]], Any]


def check_namespace(name: str) -> None:
    """Raises UsageError for what cannot be one's name."""
    if not _NAMESPACE.match(name):
        raise UsageError(
            f"--namespace {name!r} is no name of a namespace",
            hint="use lower-case letters, digits and - as `kubectl get namespaces` shows it",
        )


def _name(key: str, words: tuple[str, ...]) -> str:
    """The last word, a name of an object."""
    if not _NAME.match(words[-1]):
        raise UsageError(
            f"--set {key}={words[-1]} is no name of an object",
            hint="use lower-case letters, digits, - and . as `kubectl get` shows it",
        )
    return words[-1]


def _secrets(key: str, words: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"name": _name(key, (word,))} for word in words]


def _label(key: str, words: tuple[str, ...]) -> dict[str, str]:
    found = _pairs(key, words)
    for name, value in found.items():
        if name.startswith(_OWN_LABELS):
            raise UsageError(
                f"--set {key}={name}={value} is a label that busbw finds its pods by",
                hint=f"use a label outside {_OWN_LABELS.rstrip('/')}",
            )
        if not _LABEL_VALUE.match(value):
            raise UsageError(
                f"--set {key}={name}={value} is no value of a label",
                hint="use at most 63 letters, digits, -, _ and .; an annotation takes any text",
            )
    return found


def _pairs(key: str, words: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _KEY.match(name):
            raise UsageError(f"--set {key}={word} is not NAME=VALUE", hint=f"write {key}=team=fabric")
        found[name] = value
    return found


def _tolerations(key: str, words: tuple[str, ...]) -> list[dict[str, str]]:
    return [_toleration(key, word) for word in words]


def _toleration(key: str, word: str) -> dict[str, str]:
    """NAME[=VALUE][:EFFECT] as `kubectl taint` writes a taint; * is every taint."""
    text, colon, effect = word.partition(":")
    name, equals, value = text.partition("=")
    is_every = name == "*" and not equals
    well = (is_every or _KEY.match(name)) and (not colon or effect in _EFFECTS)
    if not well or not _LABEL_VALUE.match(value):
        raise UsageError(
            f"--set {key}={word} is not NAME[=VALUE][:EFFECT]",
            hint=f"write {key}=dedicated=gpu:NoSchedule; effects are {', '.join(_EFFECTS)}",
        )
    found = {} if is_every else {"key": name}
    found |= {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return found | ({"effect": effect} if effect else {})


def _queue(key: str, words: tuple[str, ...]) -> dict[str, str]:
    """Kueue finds a job's LocalQueue by this label of the job (kueue.sigs.k8s.io, "Run a Job")."""
    return {"kueue.x-k8s.io/queue-name": _name(key, words)}


# --set KEY -> where it stands.
WORDS: Final[Mapping[str, Row]] = {
    "label": Row((Part.JOB, Part.PODS), ("metadata", "labels"), _label),
    "annotation": Row((Part.JOB, Part.PODS), ("metadata", "annotations"), _pairs),
    "queue": Row((Part.JOB,), ("metadata", "labels"), _queue),
    "toleration": Row((Part.PODS,), ("spec", "tolerations"), _tolerations),
    "priority-class": Row((Part.PODS,), ("spec", "priorityClassName"), _name),
    "scheduler": Row((Part.PODS,), ("spec", "schedulerName"), _name),
    "runtime-class": Row((Part.RANKS,), ("spec", "runtimeClassName"), _name),
    "service-account": Row((Part.PODS,), ("spec", "serviceAccountName"), _name),
    "pull-secret": Row((Part.PODS,), ("spec", "imagePullSecrets"), _secrets),
}


def read_words(given: Mapping[str, tuple[str, ...]]) -> Mapping[str, Any]:
    """The values of the words that were given, by key. Raises UsageError for one that cannot stand there."""
    return {key: WORDS[key].read(key, words) for key, words in given.items() if words}


def place_words(values: Mapping[str, Any], parts: tuple[Part, ...], target: dict[str, Any]) -> None:
    """Put into an object or template what belongs to any of the ``parts`` that it is."""
    for key, value in values.items():
        row = WORDS[key]
        if not set(parts).intersection(row.parts):
            continue
        at = target
        for step in row.path[:-1]:
            at = at.setdefault(step, {})
        last = row.path[-1]
        if isinstance(value, list):
            at[last] = [*at.get(last, ()), *value]
        elif isinstance(value, dict):
            at[last] = {**at.get(last, {}), **value}
        else:
            at[last] = value
