"""The flags that say which image is meant; `busbw container` build, push, squash and show share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

IMAGE = Group("Image", sort_key=5)
TOOL = Group("Tool", sort_key=6)

ToolName = Literal["buildah", "podman", "docker"]


@Parameter(name="*")
@dataclass(frozen=True)
class ImageSettings:
    """One image, or one for each processor; what is not said is the table's."""

    cuda: Annotated[str, Parameter(group=IMAGE, show_default=False, help="CUDA, as 13.0.2.")] = ""
    ubuntu: Annotated[str, Parameter(group=IMAGE, show_default=False, help="Ubuntu, as 24.04.")] = ""
    date: Annotated[
        str,
        Parameter(
            group=IMAGE,
            show_default=False,
            help="Versions as of this date of `busbw container list`. [default: the newest]",
        ),
    ] = ""
    set: Annotated[
        tuple[str, ...],
        Parameter(
            group=IMAGE,
            negative="",
            show_default=False,
            help="A version, as nccl=2.30.4-1; none leaves the component out; may be repeated.",
        ),
    ] = ()
    base: Annotated[
        str, Parameter(group=IMAGE, show_default=False, help="Build on this image instead of the table's.")
    ] = ""
    busbw: Annotated[
        str,
        Parameter(
            group=IMAGE,
            help="The busbw that goes in: a wheel, or what pip installs by. [default: this version]",
        ),
    ] = ""
    arch: Annotated[
        str, Parameter(group=IMAGE, help="amd64, arm64 or both, as amd64,arm64. [default: this machine's]")
    ] = ""
    name: Annotated[str, Parameter(group=IMAGE, help="The image's name here, before its tag.")] = "busbw"


@Parameter(name="*")
@dataclass(frozen=True)
class ToolSettings:
    """What does the work."""

    tool: Annotated[
        ToolName | None,
        Parameter(group=TOOL, help="Which one to use. [default: the first of them that is installed]"),
    ] = None
    tool_args: Annotated[
        str,
        Parameter(
            group=TOOL, show_default=False, allow_leading_hyphen=True, help="More words for its command."
        ),
    ] = ""
    dry_run: Annotated[
        bool,
        Parameter(group=TOOL, negative="", show_default=False, help="Print the commands and run none."),
    ] = False
