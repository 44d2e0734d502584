"""An image as a Containerfile and the files that it copies. Pure but for reading the package's own files and
``write``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw._version import __version__
from busbw.containers.table import Image, recipe_files, variable
from busbw.errors import SiteError, UsageError

NAME: Final = "Containerfile"
REQUIREMENT: Final = "busbw/requirement.txt"
_COPIED: Final = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)
# A wheel's name: distribution, version, optional build, Python, ABI, platform.
_WHEEL: Final = re.compile(r"busbw-([^-]+)(-\d[^-]*)?-[^-]+-[^-]+-([^-]+)\.whl\Z")
# What a build may not use as it was asked for: the base's Python may do.
_SEEN_INSIDE: Final = ("busbw", "python")
_MACHINES: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Payload:
    """The busbw that goes in: what pip installs, its version, and the file where it is one."""

    requirement: str
    version: str
    wheel: Path | None = None


def read_payload(asked: str, arch: str) -> Payload:
    """``asked`` is a wheel's path, or what pip installs by; empty means this busbw's version.

    Raises UsageError for a wheel that is not there, not busbw's or for another processor.
    """
    if not asked:
        return Payload(f"busbw=={__version__}", __version__)
    if not asked.endswith(".whl"):
        exact = re.search(r"==\s*([\w.+]+)\Z", asked)
        return Payload(asked, exact[1] if exact else "latest")
    path = Path(asked)
    match = _WHEEL.match(path.name)
    if match is None:
        raise UsageError(f"{path.name} is no wheel of busbw", hint="make one: `make wheels`")
    if not path.is_file():
        raise UsageError(f"no file {path}", hint="make one: `make wheels`")
    if _MACHINES[arch] not in match[3] and match[3] != "any":
        raise UsageError(
            f"{path.name} is not for {arch}", hint=f"give the wheel for {_MACHINES[arch]}, or --arch"
        )
    return Payload(f"./{path.name}", match[1], path)


def render(image: Image) -> str:
    """The whole Containerfile; every version in it is the default of a build argument."""
    folder = recipe_files()
    head, body, tail = (
        (folder / f"{name}.Containerfile").read_text(encoding="utf-8")
        for name in ("head", image.recipe, "tail")
    )
    arguments = {"BASE_IMAGE": image.base, **build_arguments(image)}
    top = [f"# busbw {image.recipe}, values as of {image.date}: {image.full_tag}"]
    top += [f'ARG {name}="{value}"' for name, value in arguments.items()]
    return "\n".join(("\n".join(top), "", head, body)) + tail + "".join(f"{line}\n" for line in _end(image))


def build_arguments(image: Image) -> Mapping[str, str]:
    """Every version, as a build argument."""
    return {variable(name): value for name, value in image.values.items() if name != "busbw"}


def labels(image: Image) -> Mapping[str, str]:
    """The labels that are not versions."""
    return {
        "org.opencontainers.image.title": f"busbw {image.recipe}",
        "org.opencontainers.image.version": image.full_tag,
        "org.opencontainers.image.base.name": image.base,
    }


def _end(image: Image) -> Iterator[str]:
    """Labels, and the same facts as a file of the image: a process in it cannot see its labels."""
    names = list(build_arguments(image))
    yield "ARG BASE_IMAGE"
    yield from (f"ARG {name}" for name in names)
    versions = {name: f"${{{variable(name)}}}" for name in image.values if name not in _SEEN_INSIDE}
    versions["busbw"] = image.values["busbw"]
    told = {**labels(image), **{f"busbw.{name}": value for name, value in versions.items()}}
    told["org.opencontainers.image.base.name"] = "${BASE_IMAGE}"
    yield "LABEL " + " \\\n      ".join(f'{key}="{value}"' for key, value in told.items())
    facts = {"recipe": image.recipe, "image": image.full_tag, "base": "${BASE_IMAGE}"}
    words = [f'"{name}={value}"' for name, value in facts.items()]
    words += [f'"version:{name}={value}"' for name, value in versions.items() if name not in _SEEN_INSIDE]
    yield "RUN /opt/busbw/bin/python -m busbw.containers.describe \\\n      " + " \\\n      ".join(words)


def copied(text: str) -> tuple[str, ...]:
    """The package's files that a Containerfile copies."""
    words = (word for found in _COPIED.findall(text) for word in found.split())
    return tuple(dict.fromkeys(word for word in words if not word.endswith("/")))


def write(image: Image, payload: Payload, folder: Path) -> Path:
    """Write the Containerfile and what it copies into ``folder``; gives its path. Raises SiteError."""
    text = render(image)
    try:
        (folder / REQUIREMENT).parent.mkdir(parents=True, exist_ok=True)
        (folder / NAME).write_text(text, encoding="utf-8")
        (folder / REQUIREMENT).write_text(f"{payload.requirement}\n", encoding="utf-8")
        for name in copied(text):
            (folder / name).write_bytes((recipe_files() / name).read_bytes())
        if payload.wheel is not None:
            shutil.copy(payload.wheel, (folder / REQUIREMENT).parent)
    except OSError as error:
        raise SiteError(f"cannot write {error.filename}: {error.strerror}") from error
    return folder / NAME
