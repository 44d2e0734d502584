"""The table of recipes and versions (``recipes/versions.yaml``), and the choice of an image from it.

Pure, but for reading the package's own file.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, Literal
from zlib import crc32

from busbw.errors import UsageError

Arch = Literal["amd64", "arm64"]
NONE: Final = "none"  # of a component: it is left out
_MACHINES: Final[Mapping[str, Arch]] = {"x86_64": "amd64", "aarch64": "arm64"}
_MOST_TAG: Final = 128  # characters (OCI distribution specification)
_VERSION: Final = re.compile(r"\w[\w.+~-]*\Z")
_REFERENCE: Final = re.compile(r"[\w./:@-]*\Z")
# Values that are more than a version. No quotes or shell characters in any.
_FREE: Final = ("sm", "efa_flags", "perftest_from")
_WORDS: Final = re.compile(r"[\w./+: =-]*\Z")


@dataclass(frozen=True)
class Release:
    """Values of a recipe as of one date. ``pairs`` are (CUDA, Ubuntu), if any, with the default first."""

    date: str
    values: Mapping[str, str]
    pairs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Recipe:
    """A kind of image. ``arguments`` say what each value is; ``releases`` are the newest first."""

    name: str
    summary: str
    base: str
    tag: str
    arguments: Mapping[str, str]
    releases: tuple[Release, ...]

    @property
    def has_cuda(self) -> bool:
        """Whether it is built on a CUDA image."""
        return any(release.pairs for release in self.releases)


@dataclass(frozen=True)
class Choice:
    """What was asked for; empty means the table's. ``busbw`` is the version that goes in."""

    recipe: str
    busbw: str
    arch: Arch
    cuda: str = ""
    ubuntu: str = ""
    date: str = ""
    base: str = ""
    values: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Image:
    """One image, with every version said. ``values`` go into build arguments, labels and the record;
    ``notes`` are what a user must know of the choice.
    """

    recipe: str
    tag: str
    base: str
    arch: Arch
    values: Mapping[str, str]
    date: str
    notes: tuple[str, ...] = ()

    @property
    def full_tag(self) -> str:
        """The tag of this processor's image; the plain one is that of a list over processors."""
        return f"{self.tag}-{self.arch}"


def recipe_files() -> Traversable:
    """The folder of the recipes."""
    return files("busbw.containers") / "recipes"


def recipes() -> Mapping[str, Recipe]:
    """Every recipe, by name."""
    return {name: _recipe(name, body) for name, body in _table()["recipes"].items()}


def read_recipe(name: str) -> Recipe:
    """The recipe of that name. Raises UsageError."""
    known = recipes()
    if name not in known:
        near = get_close_matches(name, known)
        raise UsageError(
            f"no recipe {name!r}",
            hint=f"did you mean {near[0]}?" if near else f"recipes: {', '.join(known)}",
        )
    return known[name]


def this_arch() -> Arch:
    """The processor of this machine, as images name it. Raises UsageError for one that has no images."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise UsageError(f"no images for {machine}", hint="give --arch amd64 or --arch arm64")
    return _MACHINES[machine]


def choose(asked: Choice) -> Image:
    """The image that was asked for. Raises UsageError for what the table does not know."""
    recipe = read_recipe(asked.recipe)
    if not _REFERENCE.match(asked.base):
        raise UsageError(
            f"{asked.base!r} is no image", hint="write --base as REGISTRY/IMAGE:TAG or IMAGE:TAG"
        )
    release = _release(recipe, asked)
    cuda, ubuntu, notes = _pair(recipe, release, asked)
    values = _values(recipe, release, asked)
    pair = {"cuda": cuda, "ubuntu": ubuntu} if recipe.has_cuda else {}
    filled = {name: value.format(cuda_major=cuda.partition(".")[0]) for name, value in values.items()}
    if "sm" in filled and "sm" not in (asked.values or {}):
        filled["sm"] = capabilities(filled["sm"], cuda)
    everything = {**pair, **filled, "busbw": asked.busbw}
    return Image(
        recipe=recipe.name,
        tag=_tag(recipe.tag.format(**everything), _aside(recipe, release, asked)),
        base=asked.base or recipe.base.format(**everything),
        arch=asked.arch,
        values=everything,
        date=release.date,
        notes=tuple(notes),
    )


def capabilities(wanted: str, cuda: str) -> str:
    """Those of ``wanted`` (as "80 90 100") that this CUDA can compile for."""
    limits = _table()["sm"]
    kept = []
    for word in wanted.split():
        limit = limits.get(word, {})
        too_old = "since" in limit and _number(cuda) < _number(limit["since"])
        too_new = "until" in limit and _number(cuda) >= _number(limit["until"])
        if not too_old and not too_new:
            kept.append(word)
    return " ".join(kept)


def variable(name: str) -> str:
    """The build argument of a value. Plain names would not do: CUDA's images set CUDA_VERSION and
    NCCL_VERSION, and an image's variable wins over a build argument of that name.
    """
    return f"WITH_{name.upper()}"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _release(recipe: Recipe, asked: Choice) -> Release:
    """As of the date asked for; else the newest that has the pair, else the newest."""
    if asked.date:
        for release in recipe.releases:
            if release.date == asked.date:
                return release
        dates = ", ".join(release.date for release in recipe.releases)
        raise UsageError(f"{recipe.name} has no values of {asked.date}", hint=f"its dates: {dates}")
    for release in recipe.releases:
        if any(_fits(pair, asked) for pair in release.pairs):
            return release
    return recipe.releases[0]


def _fits(pair: tuple[str, str], asked: Choice) -> bool:
    return asked.cuda in ("", pair[0]) and asked.ubuntu in ("", pair[1])


def _pair(recipe: Recipe, release: Release, asked: Choice) -> tuple[str, str, list[str]]:
    """(CUDA, Ubuntu, notes). One that no source lists is allowed: a newer CUDA is a build argument."""
    if not recipe.has_cuda:
        if asked.cuda or asked.ubuntu:
            raise UsageError(
                f"{recipe.name} has no CUDA", hint="leave --cuda and --ubuntu out, or give --base"
            )
        return "", "", []
    fitting = [pair for pair in release.pairs if _fits(pair, asked)]
    if fitting:
        return *fitting[0], []
    cuda, ubuntu = asked.cuda or release.pairs[0][0], asked.ubuntu or release.pairs[0][1]
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", cuda):
        raise UsageError(f"--cuda {cuda} is no version of CUDA", hint="write it as 13.0.2")
    return (
        cuda,
        ubuntu,
        [f"CUDA {cuda} with Ubuntu {ubuntu} is in no source's table: nobody is known to build it"],
    )


def _values(recipe: Recipe, release: Release, asked: Choice) -> dict[str, str]:
    own = asked.values or {}
    for name, value in own.items():
        if name not in recipe.arguments:
            near = get_close_matches(name, recipe.arguments, cutoff=0.5)
            known = ", ".join(recipe.arguments)
            raise UsageError(
                f"{recipe.name} has no {name!r}",
                hint=f"did you mean {near[0]}?" if near else f"its values: {known}",
            )
        if not (_WORDS if name in _FREE else _VERSION).match(value):
            raise UsageError(f"{name}={value} is no version", hint="give a version, or none to leave it out")
    return {**release.values, **own}


def _aside(recipe: Recipe, release: Release, asked: Choice) -> Mapping[str, str]:
    """What was asked for, is not the table's, and is not told by the recipe's tag."""
    own = {name: value for name, value in (asked.values or {}).items() if release.values[name] != value}
    aside = {name: value for name, value in own.items() if f"{{{name}}}" not in recipe.tag}
    return {**aside, "base": asked.base} if asked.base else aside


def _tag(text: str, aside: Mapping[str, str]) -> str:
    """As registries allow it. Images with other parts have other tags."""
    end = f"-{crc32(repr(sorted(aside.items())).encode()):08x}" if aside else ""
    return re.sub(r"[^\w.-]", "_", text)[: _MOST_TAG - len("-12345678-amd64")] + end


def _recipe(name: str, body: Mapping[str, Any]) -> Recipe:
    return Recipe(
        name=name,
        summary=body["summary"],
        base=body["base"],
        tag=body["tag"],
        arguments=dict(body["arguments"]),
        releases=tuple(_dated(str(date), each) for date, each in body["dates"].items()),
    )


def _dated(date: str, body: Mapping[str, Any]) -> Release:
    pairs: Iterable[tuple[object, object]] = body.get("pairs", ())
    return Release(
        date=date,
        values={name: str(value) for name, value in body["values"].items()},
        pairs=tuple((str(cuda), str(ubuntu)) for cuda, ubuntu in pairs),
    )


@cache
def _table() -> Mapping[str, Any]:
    from ruamel.yaml import YAML

    loaded = YAML(typ="safe", pure=True).load((recipe_files() / "versions.yaml").read_text(encoding="utf-8"))
    table: Mapping[str, Any] = loaded
    return table
