"""Where images are pushed to. Pure.

Amazon's registries want a repository to exist first, and a login that holds for hours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from busbw.containers.steps import Step
from busbw.containers.tools import Tool
from busbw.errors import UsageError

_PRIVATE: Final = re.compile(
    r"\d{12}\.dkr[.-]ecr(-fips)?\.(?P<region>[\w-]+)\.(amazonaws\.com(\.cn)?|on\.aws)\Z"
)
_PUBLIC: Final = "public.ecr.aws"
# The one region of its interface (docs.aws.amazon.com/AmazonECR/latest/public).
_PUBLIC_REGION: Final = "us-east-1"
_NOT_FOUND: Final = "RepositoryNotFoundException"
_NAME: Final = re.compile(
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*\Z"
)


@dataclass(frozen=True)
class Repository:
    """``registry`` is a host, with a port where it has one; ``path`` the repository there."""

    registry: str
    path: str

    @property
    def name(self) -> str:
        """Both, as tools want it."""
        return f"{self.registry}/{self.path}"


def read_repository(text: str) -> Repository:
    """REGISTRY/PATH, without a tag. Raises UsageError."""
    registry, slash, path = text.removeprefix("docker://").partition("/")
    is_host = "." in registry or ":" in registry or registry == "localhost"
    if not slash or not is_host:
        raise UsageError(f"{text!r} names no registry", hint="write REGISTRY/REPOSITORY, as ghcr.io/me/busbw")
    if ":" in path or "@" in path:
        raise UsageError(f"{text!r} has a tag", hint="leave it out: the tag is made of the versions")
    if not _NAME.match(path):
        raise UsageError(
            f"{path!r} is no name of a repository", hint="use small letters, digits, ., _, - and /"
        )
    return Repository(registry, path)


def before_push(repository: Repository, tool: Tool) -> tuple[Step, ...]:
    """What has to be done once, before images go there; nothing for a registry that is not Amazon's."""
    if match := _PRIVATE.match(repository.registry):
        return _amazon(repository, tool, "ecr", match["region"], repository.path)
    if repository.registry == _PUBLIC:
        alias, _, path = repository.path.partition("/")
        if not path:
            raise UsageError(
                f"{repository.name} has no repository after the alias {alias}",
                hint=f"write {_PUBLIC}/ALIAS/REPOSITORY",
            )
        return _amazon(repository, tool, "ecr-public", _PUBLIC_REGION, path)
    return ()


def _amazon(repository: Repository, tool: Tool, service: str, region: str, path: str) -> tuple[Step, ...]:
    where = ("--region", region)
    name = ("--repository-name", path)
    return (
        Step(
            ("aws", service, "create-repository", *where, *name),
            unless=("aws", service, "describe-repositories", *where, "--repository-names", path),
            absent=_NOT_FOUND,
        ),
        tool.login(repository.registry, "AWS", ("aws", service, "get-login-password", *where)),
    )


def push_steps(
    tool: Tool, repository: Repository, tag: str, images: Sequence[tuple[str, str]], more: Sequence[str] = ()
) -> tuple[Step, ...]:
    """Steps that push ``images`` (local name, full tag); for several also ``tag``, a list of them."""
    remote = [(local, f"{repository.name}:{full}") for local, full in images]
    steps = [step for local, there in remote for step in tool.push(local, there, more)]
    if len(remote) > 1:
        steps += tool.list_images(f"{repository.name}:{tag}", [there for _, there in remote], more)
    return tuple(steps)
