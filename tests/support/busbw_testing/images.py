"""Images and containers for tests: buildah over a storage of its own, in which no namespaces are needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from busbw_testing.started import Done, completed

ROOT: Final = Path(__file__).parents[3]
PROGRAMS: Final = ("buildah", "mmdebstrap")
BASE: Final = "localhost/busbw-test-base:1"
# No namespaces may be had in a container or sandbox.
BUILD: Final = ("buildah", "build", "--layers", "--isolation", "chroot", "--pull-never", "--format", "docker")


class Images:
    """Commands over one storage of images."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Overlays cannot be stacked on an overlay.
        kind = subprocess.check_output(["stat", "--file-system", "--format", "%T", folder], text=True)
        stacked = "overlay" in kind
        config = folder / "storage.conf"
        config.write_text(
            f'[storage]\ndriver = "{"vfs" if stacked else "overlay"}"\n'
            f'graphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
        )
        self.environ = {**os.environ, "CONTAINERS_STORAGE_CONF": str(config), "TMPDIR": str(folder)}

    def call(self, *words: str | Path, timeout: float = 900, **environ: str) -> Done:
        """Run a command to its end."""
        done = completed(words, {**self.environ, **environ}, timeout)
        return Done(done.returncode, done.stdout, done.stderr)

    def good(self, *words: str | Path, timeout: float = 900, **environ: str) -> str:
        """The standard output of a command that has to succeed."""
        done = self.call(*words, timeout=timeout, **environ)
        assert done.code == 0, (words, done.out[-3000:], done.err[-6000:])
        return done.out.strip()

    def build(self, name: str, arguments: Mapping[str, str]) -> str:
        """Build ``images/NAME`` of this checkout on the test's base, with its build arguments; its name."""
        image = f"localhost/busbw:{name}"
        words = [
            word
            for key, value in ({"BASE_IMAGE": BASE} | dict(arguments)).items()
            for word in ("--build-arg", f"{key}={value}")
        ]
        file = ROOT / "images" / name / "Containerfile"
        self.good(*BUILD, "--file", file, "--tag", image, *words, self._context(), timeout=1200)
        return image

    def _context(self) -> Path:
        """What a checkout has after `make wheels`: the recipes, and this processor's wheel."""
        context = self.folder / "context"
        if not context.is_dir():
            shutil.copytree(ROOT / "images", context / "images")
            wheels = ("--out", context / "dist", os.uname().machine)
            self.good(sys.executable, ROOT / "tools" / "build_wheels.py", *wheels)
        return context

    def inspect(self, image: str) -> Mapping[str, Any]:
        """The image's configuration, in OCI's form."""
        found = json.loads(self.good("buildah", "inspect", "--type", "image", image))
        config: Mapping[str, Any] = found["OCIv1"]["config"]
        return config

    def close(self) -> None:
        """Remove all of it."""
        self.call("buildah", "rm", "--all")
        self.call("buildah", "rmi", "--all", "--force")


class Container:
    """A container of an image, in which commands run as a user's would."""

    def __init__(self, images: Images, image: str) -> None:
        self.images = images
        self.name = images.good("buildah", "from", "--pull-never", image)

    def call(self, script: str, timeout: float = 180) -> Done:
        """Run a line of bash in it. On a busy machine buildah 1.28 loses what a command prints that ends at
        once, so none does.
        """
        lasting = f"trap 'sleep 0.3' EXIT\n{script}"
        return self.images.call(
            *("buildah", "run", "--isolation", "chroot", self.name, "--", "/bin/bash", "-c", lasting),
            timeout=timeout,
        )

    def good(self, script: str) -> str:
        """The standard output of a line that has to succeed."""
        done = self.call(script)
        assert done.code == 0, (script, done.out[-3000:], done.err[-3000:])
        return done.out

    def close(self) -> None:
        """Remove it."""
        self.images.call("buildah", "rm", self.name)
