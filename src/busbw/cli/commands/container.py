"""``busbw container``: images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter

from busbw.cli.app import FLAGS, TextOrJson, app, examples
from busbw.errors import ExitCode
from busbw.settings.container import ImageSettings, ToolSettings

_RECIPE: Final = "efa, hpcx or cpu."

container = App(name="container", help="Images with busbw: AWS EFA, HPC-X for InfiniBand, or CPU ranks.")
app.command(container)


@container.command(name="list", help_epilogue=examples("busbw container list"))
def list_recipes(
    *,
    format: Annotated[TextOrJson, Parameter(group=FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """The recipes, and the versions that they are made of."""
    from busbw.cli.container import show_list

    return show_list(format)


@container.command(
    help_epilogue=examples(
        "busbw container show efa",
        "busbw container show hpcx --cuda 12.8.1 --output hpcx-image",
    )
)
def show(
    recipe: Annotated[str, Parameter(help=_RECIPE)],
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            group=FLAGS,
            show_default=False,
            help="Write it and all that it copies into this folder, for any tool to build.",
        ),
    ] = None,
    image: Annotated[ImageSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """The Containerfile of an image."""
    from busbw.cli.container import show as show_command

    return show_command(recipe, image or ImageSettings(), output)


@container.command(
    help_epilogue=examples(
        "busbw container build cpu",
        "busbw container build efa --cuda 13.0.2 --set nccl=2.30.4-1 --dry-run",
        "busbw container build hpcx --cuda 13.2.1 --busbw dist/busbw-0.1.0-py3-none-linux_x86_64.whl",
    )
)
def build(
    recipe: Annotated[str, Parameter(help=_RECIPE)],
    /,
    *,
    image: Annotated[ImageSettings | None, Parameter(name="*")] = None,
    tool: Annotated[ToolSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Build an image with buildah, podman or docker, and print its name."""
    from busbw.cli.container import build as build_command

    return build_command(recipe, image or ImageSettings(), tool or ToolSettings())


@container.command(
    help_epilogue=examples(
        "busbw container push cpu --to ghcr.io/me/busbw",
        "busbw container push efa --dry-run --to 123456789012.dkr.ecr.us-east-1.amazonaws.com/busbw",
    )
)
def push(
    recipe: Annotated[str, Parameter(help=_RECIPE)],
    /,
    *,
    to: Annotated[str, Parameter(group=FLAGS, help="REGISTRY/REPOSITORY; Amazon's ECR makes it if missing.")],
    login: Annotated[
        bool,
        Parameter(group=FLAGS, help="Log in to Amazon's registries with the aws command."),
    ] = True,
    image: Annotated[ImageSettings | None, Parameter(name="*")] = None,
    tool: Annotated[ToolSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Bring an image that was built here to a registry, and print its name there."""
    from busbw.cli.container import push as push_command

    return push_command(recipe, to, image or ImageSettings(), tool or ToolSettings(), login=login)


@container.command(
    help_epilogue=examples(
        "busbw container squash ghcr.io/me/busbw:cpu-busbw0.1.0-amd64 --into /fsx/images",
        "busbw container squash hpcx --into /fsx/images --dry-run",
    )
)
def squash(
    image_or_recipe: Annotated[
        str, Parameter(help="An image of a registry with its tag, or a recipe whose image was built here.")
    ],
    /,
    *,
    into: Annotated[Path, Parameter(group=FLAGS, help="A folder that the nodes share.")],
    force: Annotated[
        bool,
        Parameter(group=FLAGS, negative="", show_default=False, help="Import it although it is there."),
    ] = False,
    image: Annotated[ImageSettings | None, Parameter(name="*")] = None,
    tool: Annotated[ToolSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Import an image with enroot, once for each version, as a file for `--image`; print its path."""
    from busbw.cli.container import squash as squash_command

    return squash_command(
        image_or_recipe, into, image or ImageSettings(), tool or ToolSettings(), force=force
    )
