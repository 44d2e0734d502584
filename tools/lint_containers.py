"""Lint the recipes of container images: every Containerfile that the table can make with hadolint, which also
looks at the shell in it, and the scripts with shellcheck.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from busbw.containers.containerfile import copied, render
from busbw.containers.table import Choice, Image, choose, recipe_files, recipes

FOLDER = Path(str(recipe_files()))
PROGRAMS = Path(sysconfig.get_path("scripts"))
# DL3008: versions of packages are the distribution's. DL3059: what changes apart is a layer apart.
HADOLINT = (PROGRAMS / "hadolint", "--no-color", "--ignore", "DL3008", "--ignore", "DL3059", "-")
# SC1091: lib.sh is read at run time.
SHELLCHECK = (PROGRAMS / "shellcheck", "--shell=bash", "--exclude=SC1091", "--severity=style")


def images() -> Iterator[Image]:
    """Every image of the table, on both processors."""
    for recipe in recipes().values():
        for release in recipe.releases:
            for cuda, ubuntu in release.pairs or (("", ""),):
                for arch in ("amd64", "arm64"):
                    yield choose(Choice(recipe.name, "0", arch, cuda, ubuntu, release.date))  # type: ignore[arg-type]


def main() -> int:
    found, texts = [], {}
    for image in images():
        text = render(image)
        found += [f"{image.full_tag}: copies {name}, which is not there" for name in lacking(text)]
        # Versions stand at its top alone: the rest is one text a recipe.
        texts.setdefault(image.recipe, text)
    for recipe, text in texts.items():
        done = subprocess.run(HADOLINT, input=text, capture_output=True, text=True, check=False)
        found += [f"{recipe}: {line}" for line in done.stdout.splitlines()]
        found += [f"hadolint: {line}" for line in done.stderr.splitlines()]
    scripts = sorted(FOLDER.glob("*.sh"))
    done = subprocess.run((*SHELLCHECK, *scripts), capture_output=True, text=True, check=False)
    found += (done.stdout + done.stderr).splitlines()
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(texts)} Containerfiles, {len(scripts)} scripts, {len(found)} remarks")
    return 1 if found else 0


def lacking(text: str) -> list[str]:
    """Files that a Containerfile copies and the package does not have."""
    return [name for name in copied(text) if not (FOLDER / name).is_file()]


if __name__ == "__main__":
    sys.exit(main())
