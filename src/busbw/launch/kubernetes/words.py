"""The words of ``--set`` on Kubernetes: one table, each word read once into its type. Pure.

What is well formed is decided here; what the cluster takes is for its API server to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_type_hints

from busbw.errors import UsageError
from busbw.launch.settle import set_words

Kind = Literal["mpijob", "job", "jobset"]
KINDS: Final[tuple[Kind, ...]] = ("mpijob", "job", "jobset")

_QUANTITY: Final = re.compile(r"\d+(\.\d+)?([KMGTPE]i?|k|m)?\Z")
_GPU, _NIC = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
_PREFERRED: Final = ":preferred"


@dataclass(frozen=True)
class Affinity:
    """Pods of the job go to nodes with one value of this label: they must, or should where that can be."""

    label: str
    required: bool = True


# ---- types: a function of the text that raises ValueError for what it is not ----------------------------


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError
    return int(text)


def _amount(text: str) -> int:
    if not text.isdecimal():
        raise ValueError
    return int(text)


def _domain(text: str) -> int | str:
    return text if text == "nodes" else int(text)


def _quantity(text: str) -> str:
    if not _QUANTITY.match(text):
        raise ValueError
    return text


def _one_of(*names: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return read


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError
    return name, value


def _resource(text: str) -> tuple[str, str]:
    name, quantity = _pair(text)
    return name, _quantity(quantity)


def _count_of(usual: str) -> Callable[[str], tuple[str, str]]:
    """N of the ``usual`` resource, or NAME=N of another; 0 takes it away."""

    def read(text: str) -> tuple[str, str]:
        name, _, count = text.rpartition("=")
        return name or usual, str(_amount(count))

    return read


def _choice(text: str) -> tuple[str, tuple[str, ...]]:
    label, values = _pair(text)
    return label, tuple(values.split("|"))


def _names(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _affinities(text: str) -> list[Affinity]:
    found = [Affinity(name.removesuffix(_PREFERRED), not name.endswith(_PREFERRED)) for name in _names(text)]
    if any(":" in each.label for each in found):
        raise ValueError
    return found


def _spreads(text: str) -> list[tuple[str, int]]:
    return [(label, _count(count)) for label, count in map(_pair, _names(text))]


def _toleration(text: str) -> dict[str, str]:
    """As `kubectl taint` writes a taint; * is every taint."""
    taint, _, effect = text.partition(":")
    name, equals, value = taint.partition("=")
    if not name or (name == "*" and equals):
        raise ValueError
    found = {} if name == "*" else {"key": name}
    found |= {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {**found, "effect": effect} if effect else found


# ---- the table ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Word:
    """How a word is read, an example of its text, and what it is; ``key`` where the field has another name.

    ``read`` raises ValueError. A word whose field is a tuple may be repeated, and ``read`` gives one value or
    a list of them. Of other words the last one holds.
    """

    read: Callable[[str], Any]
    example: str
    help: str
    key: str = ""


Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Words:
    """All words of ``--set``; the key of ``instance_type`` is instance-type."""

    kind: Annotated[Kind | None, Word(_one_of(*KINDS), "mpijob", f"one of {', '.join(KINDS)}")] = None
    image: Annotated[str | None, Word(str, "registry/busbw:2", "a container image")] = None
    replicas: Annotated[int | None, Word(_count, "2", "a number of worker pods")] = None
    slots: Annotated[int | None, Word(_count, "8", "a number of ranks that a pod has at most")] = None
    np: Annotated[int | None, Word(_count, "16", "a number of ranks in all")] = None
    mpi: Annotated[
        Literal["openmpi", "mpich"] | None,
        Word(_one_of("openmpi", "mpich"), "openmpi", "the MPI of the image: openmpi or mpich"),
    ] = None
    gpu: Annotated[Pairs, Word(_count_of(_GPU), "8", f"a count of {_GPU}, or NAME=COUNT")] = ()
    nic: Annotated[Pairs, Word(_count_of(_NIC), "32", f"a count of {_NIC}, or NAME=COUNT")] = ()
    resource: Annotated[Pairs, Word(_resource, "aws.amazon.com/neuroncore=32", "NAME=QUANTITY")] = ()
    cpu: Annotated[str | None, Word(_quantity, "110", "a quantity of cores")] = None
    memory: Annotated[str | None, Word(_quantity, "960Gi", "a quantity of memory")] = None
    hugepages_2mi: Annotated[
        str | None, Word(_quantity, "5120Mi", "a quantity of huge pages", key="hugepages-2Mi")
    ] = None
    launcher_cpu: Annotated[str | None, Word(_quantity, "500m", "a quantity of cores")] = None
    launcher_memory: Annotated[str | None, Word(_quantity, "128Mi", "a quantity of memory")] = None
    shm: Annotated[str | None, Word(_quantity, "16Gi", "a quantity of memory")] = None
    instance_type: Annotated[str | None, Word(str, "p5.48xlarge", "an instance type")] = None
    select: Annotated[
        tuple[tuple[str, tuple[str, ...]], ...], Word(_choice, "zone=a|b", "LABEL=VALUE, or LABEL=A|B")
    ] = ()
    exclude: Annotated[tuple[str, ...], Word(_names, "node-3", "names of nodes")] = ()
    only: Annotated[tuple[str, ...], Word(_names, "node-1,node-2", "names of nodes")] = ()
    affinity: Annotated[
        tuple[Affinity, ...],
        Word(_affinities, "nvidia.com/gpu.clique", f"a label of nodes, or LABEL{_PREFERRED}"),
    ] = ()
    spread: Annotated[
        tuple[tuple[str, int], ...], Word(_spreads, "topology.kubernetes.io/zone=2", "LABEL=COUNT")
    ] = ()
    networks: Annotated[tuple[str, ...], Word(_names, "team/rail0", "names of networks")] = ()
    compute_domain: Annotated[
        int | Literal["nodes"] | None, Word(_domain, "nodes", "a count of nodes, or the word nodes")
    ] = None
    pull_secret: Annotated[tuple[str, ...], Word(str, "registry", "the name of a Secret")] = ()
    service_account: Annotated[str | None, Word(str, "runner", "the name of a ServiceAccount")] = None
    label: Annotated[Pairs, Word(_pair, "team=fabric", "NAME=VALUE")] = ()
    annotation: Annotated[Pairs, Word(_pair, "team=fabric", "NAME=VALUE")] = ()
    toleration: Annotated[
        tuple[dict[str, str], ...],
        Word(_toleration, "dedicated=gpu:NoSchedule", "a taint, NAME[=VALUE][:EFFECT]"),
    ] = ()
    queue: Annotated[str | None, Word(str, "team-queue", "the name of a LocalQueue of Kueue")] = None
    priority_class: Annotated[str | None, Word(str, "high", "the name of a PriorityClass")] = None
    scheduler: Annotated[str | None, Word(str, "default-scheduler", "the name of a scheduler")] = None
    runtime_class: Annotated[str | None, Word(str, "nvidia", "the name of a RuntimeClass")] = None


def _table() -> Mapping[str, tuple[str, Word]]:
    hints = get_type_hints(Words, include_extras=True)
    words = {name: hint.__metadata__[0] for name, hint in hints.items()}
    return {word.key or name.replace("_", "-"): (name, word) for name, word in words.items()}


# Key of --set -> field of Words, and how it is read.
WORDS: Final = _table()
_KNOWN: Final = f"use one of: {', '.join(sorted(WORDS))}; --patch FILE sets anything else"
_NONE: Final = Words()


def read_words(given: tuple[str, ...]) -> Words:
    """The words as KEY=VALUE; an empty value drops what stands before it. Raises UsageError."""
    found: dict[str, Any] = {}
    for key, text in set_words(given, WORDS, "Kubernetes", _KNOWN):
        name, word = WORDS[key]
        if not text:
            found.pop(name, None)
            continue
        try:
            value = word.read(text)
        except ValueError:
            raise UsageError(
                f"--set {key}={text} is not {word.help}", hint=f"write it as --set {key}={word.example}"
            ) from None
        if isinstance(getattr(_NONE, name), tuple):
            found[name] = (*found.get(name, ()), *(value if isinstance(value, list) else [value]))
        else:
            found[name] = value
    return Words(**found)
