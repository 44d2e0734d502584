"""Images and containers for tests: buildah over a storage of its own, in which no namespaces are needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from busbw.containers.squash import file_system
from busbw_testing.finished import Done

PROGRAMS: Final = ("buildah", "mmdebstrap", "docker-registry")
BASE: Final = "localhost/busbw-test-base:1"
# What every tool call here needs: no namespaces may be had in a container or sandbox.
TOOL_ARGS: Final = "--isolation chroot --pull-never"


class Images:
    """Commands over one storage of images."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Overlays cannot be stacked on an overlay.
        stacked = file_system(folder.resolve(), Path("/proc/mounts").read_text()) == "overlay"
        config = folder / "storage.conf"
        config.write_text(
            f'[storage]\ndriver = "{"vfs" if stacked else "overlay"}"\n'
            f'graphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
        )
        self.environ = {**os.environ, "CONTAINERS_STORAGE_CONF": str(config), "TMPDIR": str(folder)}

    def call(self, *words: str | Path, timeout: float = 900, **environ: str) -> Done:
        """Run a command to its end."""
        done = subprocess.run(
            list(map(str, words)),
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def good(self, *words: str | Path, timeout: float = 900, **environ: str) -> str:
        """The standard output of a command that has to succeed."""
        done = self.call(*words, timeout=timeout, **environ)
        assert done.code == 0, (words, done.out[-3000:], done.err[-6000:])
        return done.out.strip()

    def busbw(self, *words: str | Path, **environ: str) -> Done:
        """``busbw container ...``."""
        return self.call(sys.executable, "-m", "busbw", "container", *words, **environ)

    def build(self, recipe: str, wheel: Path, *words: str) -> str:
        """Build an image on the test's base; its name."""
        done = self.busbw(
            *("build", recipe, "--base", BASE, "--busbw", wheel, "--tool", "buildah"),
            *("--tool-args", TOOL_ARGS, *words),
        )
        assert done.code == 0, done.err[-6000:]
        return done.out.strip()

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
