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

# Forms of a word's text, or of each part of it.
_TEXT: Final = ".*"
_COUNT: Final = "0*[1-9][0-9]*"
_QUANTITY: Final = r"[0-9]+(?:\.[0-9]+)?(?:[KMGTPE]i?|k|m)?"
_COUNT_OF: Final = "(?:(.*)=)?([0-9]+)"  # of the usual resource, or NAME=COUNT of another; 0 takes it away
_PAIR: Final = "([^=]+)=(.*)"
_LABEL: Final = "([^:]+)(:preferred)?"
_TAINT: Final = r"(?!\*=)([^=:]+)(?:=([^:]*))?(?::(.*))?"  # as `kubectl taint` writes it; * is every taint
_GPU, _NIC = "nvidia.com/gpu", "vpc.amazonaws.com/efa"


@dataclass(frozen=True)
class Word:
    """How a word is written, an example, and what it is; ``key`` where the field has another name.

    ``form`` is a regular expression of the whole text, or of each of its parts where commas part it
    (``parts``); ``make`` makes the value of the form's groups, or of all of it. A word whose field is a tuple
    may be repeated. Of other words the last one holds.
    """

    form: str
    example: str
    help: str
    make: Callable[..., Any] = str
    parts: bool = False
    key: str = ""

    def read(self, text: str) -> list[Any]:
        """The values in a text. Raises ValueError where it is written otherwise."""
        texts = filter(None, map(str.strip, text.split(","))) if self.parts else [text]
        found = [re.fullmatch(self.form, each, re.DOTALL) for each in texts]
        if None in found:
            raise ValueError
        return [self.make(*(match.groups() or (match[0],))) for match in found if match is not None]


def _pair(name: str, value: str) -> tuple[str, str]:
    return name, value


def _count_of(usual: str) -> Callable[[str | None, str], tuple[str, str]]:
    return lambda name, count: (name or usual, str(int(count)))


def _choice(label: str, values: str) -> tuple[str, tuple[str, ...]]:
    return label, tuple(values.split("|"))


def _affinity(label: str, preferred: str | None) -> tuple[str, bool]:
    return label, not preferred


def _spread(label: str, count: str) -> tuple[str, int]:
    return label, int(count)


def _domain(text: str) -> int | str:
    return text if text == "nodes" else int(text)


def _toleration(name: str, value: str | None, effect: str | None) -> dict[str, str]:
    found = {} if name == "*" else {"key": name}
    found |= {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    return {**found, "effect": effect} if effect else found


Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Words:
    """All words of ``--set``; the key of ``instance_type`` is instance-type."""

    kind: Annotated[Kind | None, Word("|".join(KINDS), "mpijob", f"one of {', '.join(KINDS)}")] = None
    image: Annotated[str | None, Word(_TEXT, "registry/busbw:2", "a container image")] = None
    replicas: Annotated[int | None, Word(_COUNT, "2", "a number of worker pods", int)] = None
    slots: Annotated[int | None, Word(_COUNT, "8", "a number of ranks that a pod has at most", int)] = None
    np: Annotated[int | None, Word(_COUNT, "16", "a number of ranks in all", int)] = None
    mpi: Annotated[
        Literal["openmpi", "mpich"] | None,
        Word("openmpi|mpich", "openmpi", "the MPI of the image: openmpi or mpich"),
    ] = None
    gpu: Annotated[Pairs, Word(_COUNT_OF, "8", f"a count of {_GPU}, or NAME=COUNT", _count_of(_GPU))] = ()
    nic: Annotated[Pairs, Word(_COUNT_OF, "32", f"a count of {_NIC}, or NAME=COUNT", _count_of(_NIC))] = ()
    resource: Annotated[
        Pairs, Word(f"([^=]+)=({_QUANTITY})", "aws.amazon.com/neuroncore=32", "NAME=QUANTITY", _pair)
    ] = ()
    cpu: Annotated[str | None, Word(_QUANTITY, "110", "a quantity of cores")] = None
    memory: Annotated[str | None, Word(_QUANTITY, "960Gi", "a quantity of memory")] = None
    hugepages_2mi: Annotated[
        str | None, Word(_QUANTITY, "5120Mi", "a quantity of huge pages", key="hugepages-2Mi")
    ] = None
    launcher_cpu: Annotated[str | None, Word(_QUANTITY, "500m", "a quantity of cores")] = None
    launcher_memory: Annotated[str | None, Word(_QUANTITY, "128Mi", "a quantity of memory")] = None
    shm: Annotated[str | None, Word(_QUANTITY, "16Gi", "a quantity of memory")] = None
    instance_type: Annotated[str | None, Word(_TEXT, "p5.48xlarge", "an instance type")] = None
    # The values that a node may have of a label.
    select: Annotated[
        tuple[tuple[str, tuple[str, ...]], ...],
        Word(_PAIR, "zone=a|b", "LABEL=VALUE, or LABEL=A|B", _choice),
    ] = ()
    exclude: Annotated[tuple[str, ...], Word(_TEXT, "node-3", "names of nodes", parts=True)] = ()
    only: Annotated[tuple[str, ...], Word(_TEXT, "node-1,node-2", "names of nodes", parts=True)] = ()
    # Pods of the job go to nodes with one value of the label: whether they must, or should where that can be.
    affinity: Annotated[
        tuple[tuple[str, bool], ...],
        Word(_LABEL, "nvidia.com/gpu.clique", "a label of nodes, or LABEL:preferred", _affinity, parts=True),
    ] = ()
    spread: Annotated[
        tuple[tuple[str, int], ...],
        Word(f"([^=]+)=({_COUNT})", "topology.kubernetes.io/zone=2", "LABEL=COUNT", _spread, parts=True),
    ] = ()
    networks: Annotated[tuple[str, ...], Word(_TEXT, "team/rail0", "names of networks", parts=True)] = ()
    compute_domain: Annotated[
        int | Literal["nodes"] | None,
        Word("nodes|[0-9]+", "nodes", "a count of nodes, or the word nodes", _domain),
    ] = None
    pull_secret: Annotated[tuple[str, ...], Word(_TEXT, "registry", "the name of a Secret")] = ()
    service_account: Annotated[str | None, Word(_TEXT, "runner", "the name of a ServiceAccount")] = None
    label: Annotated[Pairs, Word(_PAIR, "team=fabric", "NAME=VALUE", _pair)] = ()
    annotation: Annotated[Pairs, Word(_PAIR, "team=fabric", "NAME=VALUE", _pair)] = ()
    toleration: Annotated[
        tuple[dict[str, str], ...],
        Word(_TAINT, "dedicated=gpu:NoSchedule", "a taint, NAME[=VALUE][:EFFECT]", _toleration),
    ] = ()
    queue: Annotated[str | None, Word(_TEXT, "team-queue", "the name of a LocalQueue of Kueue")] = None
    priority_class: Annotated[str | None, Word(_TEXT, "high", "the name of a PriorityClass")] = None
    scheduler: Annotated[str | None, Word(_TEXT, "default-scheduler", "the name of a scheduler")] = None
    runtime_class: Annotated[str | None, Word(_TEXT, "nvidia", "the name of a RuntimeClass")] = None


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
            values = word.read(text)
        except ValueError:
            raise UsageError(
                f"--set {key}={text} is not {word.help}", hint=f"write it as --set {key}={word.example}"
            ) from None
        if isinstance(getattr(_NONE, name), tuple):
            found[name] = (*found.get(name, ()), *values)
        else:
            (found[name],) = values
    return Words(**found)
