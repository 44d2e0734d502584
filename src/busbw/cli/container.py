"""What ``busbw container`` does. Results go to standard output, what tools say to standard error."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from dataclasses import asdict, fields
from pathlib import Path

from busbw.containers import squash as squashing
from busbw.containers.containerfile import Payload, read_payload, render, write
from busbw.containers.registry import before_push, push_steps, read_repository
from busbw.containers.steps import Step, run_steps, shell
from busbw.containers.table import Arch, Choice, Image, Recipe, choose, read_recipe, recipes, this_arch
from busbw.containers.tools import Tool, choose_tool
from busbw.errors import ExitCode, SiteError, UsageError
from busbw.settings.container import ImageSettings, ToolSettings

_MOUNTS = Path("/proc/mounts")


def show_list(format_name: str) -> ExitCode:
    """The recipes and their table."""
    known = recipes()
    if format_name == "json":
        print(json.dumps([asdict(recipe) for recipe in known.values()], indent=1))
        return ExitCode.OK
    for recipe in known.values():
        _show_recipe(recipe)
    return ExitCode.OK


def _show_recipe(recipe: Recipe) -> None:
    print(f"{recipe.name}: {recipe.summary}")
    print(f"  base    {recipe.base}")
    print(f"  tag     {recipe.tag}-{{arch}}")
    for release in recipe.releases:
        values = ", ".join(f"{name}={value}" for name, value in release.values.items())
        print(f"  {release.date} {values}")
        if release.pairs:
            pairs = (f"{cuda} x {ubuntu}" for cuda, ubuntu in release.pairs)
            print(f"          CUDA x Ubuntu: {', '.join(pairs)}")


def show(recipe: str, settings: ImageSettings, output: Path | None) -> ExitCode:
    """Print a Containerfile, or write it with its files."""
    (image, payload), *more = _images(recipe, settings)
    if more:
        raise UsageError("one Containerfile is for one processor", hint="give one --arch")
    if output is None:
        print(render(image), end="")
        return ExitCode.OK
    path = write(image, payload, output)
    print(path)
    return ExitCode.OK


def build(recipe: str, settings: ImageSettings, tools: ToolSettings) -> ExitCode:
    """Build one image for each processor."""
    tool = choose_tool(tools.tool, dry_run=tools.dry_run)
    for image, payload in _images(recipe, settings):
        name = tool.image(settings.name, image)
        if tools.dry_run:
            print(
                shlex.join(("busbw", "container", "show", recipe, *_flags(settings, image), "-o", "CONTEXT"))
            )
            print(shell(tool.build(settings.name, image, "CONTEXT", _more(tools))))
            continue
        with tempfile.TemporaryDirectory(prefix="busbw-image-") as folder:
            write(image, payload, Path(folder))
            run_steps((tool.build(settings.name, image, folder, _more(tools)),), sys.stderr)
        print(name)
    return ExitCode.OK


def push(recipe: str, to: str, settings: ImageSettings, tools: ToolSettings, *, login: bool) -> ExitCode:
    """Push one image for each processor, and a list where there are several."""
    tool, repository = choose_tool(tools.tool, dry_run=tools.dry_run), read_repository(to)
    images = [image for image, _ in _images(recipe, settings)]
    local = [(tool.image(settings.name, image), image.full_tag) for image in images]
    tag = images[0].tag if len(images) > 1 else images[0].full_tag
    before = before_push(repository, tool) if login else ()
    steps = (*before, *push_steps(tool, repository, tag, local, _more(tools)))
    if tools.dry_run:
        print(*map(shell, steps), sep="\n")
        return ExitCode.OK
    run_steps(steps, sys.stderr)
    print(f"{repository.name}:{tag}")
    return ExitCode.OK


def squash(
    image_or_recipe: str, into: Path, settings: ImageSettings, tools: ToolSettings, *, force: bool
) -> ExitCode:
    """Import an image into a shared folder, where it is not there yet."""
    uri, name, arch = _squashed(image_or_recipe, settings, tools)
    folder = into.absolute()
    file = folder / name
    part = squashing.temporary(file)
    step = squashing.import_step(uri, part, arch, this_arch())
    if tools.dry_run:
        print(shell(step))
        print(shell(Step(("mv", str(part), str(file)))))
        return ExitCode.OK
    kind = squashing.file_system(folder.resolve(), _MOUNTS.read_text(errors="replace"))
    if not squashing.is_shared(kind):
        _note(f"{folder} is on {kind or 'an unknown file system'}, which other nodes may not see")
    if not squashing.squash(step, file, sys.stderr, force=force):
        _note(f"{file} was there; --force imports it again")
    print(file)
    return ExitCode.OK


def _squashed(word: str, settings: ImageSettings, tools: ToolSettings) -> tuple[str, str, Arch]:
    """(enroot's address, file name, processor) of a registry's image or of one that was built here."""
    if "/" in word or ":" in word:
        arch = _arches(settings.arch)[0]
        uri = squashing.enroot_uri(word)
        suffix = "" if word.endswith(f"-{arch}") or arch == this_arch() else f"-{arch}"
        return uri, squashing.file_name(f"{word}{suffix}"), arch
    (image, _), *more = _images(word, settings)
    if more:
        raise UsageError("a squash file is for one processor", hint="give one --arch")
    tool = choose_tool(tools.tool, dry_run=tools.dry_run)
    reference = tool.image(settings.name, image)
    return (
        f"{_local_scheme(tool, dry_run=tools.dry_run)}://{reference}",
        squashing.file_name(reference),
        image.arch,
    )


def _local_scheme(tool: Tool, *, dry_run: bool) -> str:
    """How enroot gets at what the tool has built. buildah and podman share their images."""
    if tool.name == "docker":
        return "dockerd"
    try:
        choose_tool("podman", dry_run=dry_run)
    except SiteError as error:
        raise SiteError(
            "enroot takes local images from podman or docker, and neither is here",
            hint="push the image, and squash it from its registry; or install podman",
        ) from error
    return "podman"


def _images(recipe: str, settings: ImageSettings) -> list[tuple[Image, Payload]]:
    """What was asked for, one for each processor; notes are said once."""
    read_recipe(recipe)  # the first thing to be wrong
    found = []
    for arch in _arches(settings.arch):
        payload = read_payload(settings.busbw, arch)
        choice = Choice(
            recipe=recipe,
            busbw=payload.version,
            arch=arch,
            cuda=settings.cuda,
            ubuntu=settings.ubuntu,
            date=settings.date,
            base=settings.base,
            values=_values(settings.set),
        )
        found.append((choose(choice), payload))
    for note in found[0][0].notes:
        _note(note)
    return found


def _values(words: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for name, sign, value in pairs:
        if not sign or not value:
            raise UsageError(f"--set {name} is no KEY=VALUE", hint="write it as --set nccl=2.30.4-1")
    return {name: value for name, _, value in pairs}


def _arches(text: str) -> list[Arch]:
    """The processors that were named. Raises UsageError."""
    known: dict[str, Arch] = {"amd64": "amd64", "x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64"}
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise UsageError(f"no processor {word!r}", hint="give amd64, arm64 or amd64,arm64")
    return list(dict.fromkeys(known[word] for word in words)) or [this_arch()]


def _flags(settings: ImageSettings, image: Image) -> list[str]:
    """The flags that were given, for one processor."""
    words = ["--arch", image.arch]
    for each in fields(settings):
        value = getattr(settings, each.name)
        if each.name in ("arch", "name") or not value:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            words += [f"--{each.name}", one]
    return words


def _more(tools: ToolSettings) -> list[str]:
    try:
        return shlex.split(tools.tool_args)
    except ValueError as error:
        raise UsageError(f"--tool-args {tools.tool_args}: {error}", hint="close the quotes") from error


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
