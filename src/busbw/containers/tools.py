"""The commands of buildah, podman and docker: one row a tool. Pure, but for ``choose_tool``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.containers.containerfile import NAME, build_arguments
from busbw.containers.steps import Step
from busbw.containers.table import Image
from busbw.errors import SiteError


@dataclass(frozen=True)
class Tool:
    """``local`` is what the tool puts before names of its own, ``build_words`` what it needs for a build.

    ``push`` makes the steps that bring a local image to a registry, ``list_images`` those that make one name
    there of the images of several processors.
    """

    name: str
    local: str
    build_words: tuple[str, ...]
    push: Callable[[str, str, Sequence[str]], tuple[Step, ...]]
    list_images: Callable[[str, Sequence[str], Sequence[str]], tuple[Step, ...]]

    def image(self, name: str, image: Image) -> str:
        """The image as the tool knows it."""
        plain = name if "/" in name else f"{self.local}{name}"
        return f"{plain}:{image.full_tag}"

    def build(self, name: str, image: Image, context: str, more: Sequence[str] = ()) -> Step:
        """Build it from a folder that ``containerfile.write`` has filled."""
        arguments = {"BASE_IMAGE": image.base, **build_arguments(image)}
        return Step(
            (
                *(self.name, "build", *self.build_words, "--platform", f"linux/{image.arch}"),
                *("--tag", self.image(name, image), "--file", f"{context}/{NAME}"),
                *(word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")),
                *more,
                context,
            )
        )

    def login(self, registry: str, user: str, password: tuple[str, ...]) -> Step:
        """Log in with the password that a command prints."""
        words = (self.name, "login", "--username", user, "--password-stdin", registry)
        return Step(words, source=password)


def _push(tool: str) -> Callable[[str, str, Sequence[str]], tuple[Step, ...]]:
    def steps(local: str, remote: str, more: Sequence[str]) -> tuple[Step, ...]:
        return (Step((tool, "push", *more, local, f"docker://{remote}")),)

    return steps


def _list(tool: str) -> Callable[[str, Sequence[str], Sequence[str]], tuple[Step, ...]]:
    def steps(remote: str, images: Sequence[str], more: Sequence[str]) -> tuple[Step, ...]:
        name = f"localhost/busbw-list:{remote.rpartition(':')[2]}"
        return (
            Step((tool, "manifest", "rm", name), may_fail=True),  # of an earlier push
            Step((tool, "manifest", "create", name)),
            *(Step((tool, "manifest", "add", *more, name, f"docker://{image}")) for image in images),
            Step((tool, "manifest", "push", *more, "--all", "--format", "v2s2", name, f"docker://{remote}")),
        )

    return steps


def _docker_push(local: str, remote: str, more: Sequence[str]) -> tuple[Step, ...]:
    return Step(("docker", "tag", local, remote)), Step(("docker", "push", *more, remote))


def _docker_list(remote: str, images: Sequence[str], more: Sequence[str]) -> tuple[Step, ...]:
    return (Step(("docker", "buildx", "imagetools", "create", *more, "--tag", remote, *images)),)


# enroot 4.1 asks registries for Docker's form of images; Docker's own registry then denies having OCI's.
_DOCKER_FORM: Final = ("--format", "docker")
# In the order of preference: the first two need no daemon.
TOOLS: Final[Mapping[str, Tool]] = {
    "buildah": Tool("buildah", "localhost/", _DOCKER_FORM, _push("buildah"), _list("buildah")),
    "podman": Tool("podman", "localhost/", _DOCKER_FORM, _push("podman"), _list("podman")),
    "docker": Tool("docker", "", (), _docker_push, _docker_list),
}


def choose_tool(asked: str | None, *, dry_run: bool = False) -> Tool:
    """The tool that was asked for, or the first that is here. Raises SiteError where there is none."""
    if asked:
        if not dry_run and shutil.which(asked) is None:
            raise SiteError(
                f"no {asked} here", hint=f"install it, or give another --tool: {', '.join(TOOLS)}"
            )
        return TOOLS[asked]
    for name, tool in TOOLS.items():
        if shutil.which(name):
            return tool
    if dry_run:
        return TOOLS["docker"]
    raise SiteError(
        f"none of {', '.join(TOOLS)} is here",
        hint="install one (Debian and Ubuntu: apt-get install buildah), or take what"
        " `busbw container show RECIPE --output FOLDER` writes to where one is",
    )
