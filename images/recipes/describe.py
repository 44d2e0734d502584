"""``describe.py KEY=VALUE...``: what an image is made of, as a file inside it.

Run at the end of a build. To the versions that were asked for come those of the packages that were installed
without one, such as the aws-ofi-nccl of an EFA installer.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from busbw._version import __version__
from busbw.machine.place import IMAGE_FILE

_PACKAGES: Final = re.compile(
    r"(libfabric\d*(-aws)?|aws-ofi-nccl|libnccl-ofi(-\w+)*|openmpi[\w-]*aws|efa|rdma-core|libibverbs1|libpmix2"
    r"|libnccl2|libcudnn\d+-cuda-\d+|datacenter-gpu-manager[\w-]*|openssh-server)\Z"
)


def describe(words: Sequence[str], installed: str) -> dict[str, Any]:
    """The file's content. ``words`` are KEY=VALUE, or version:NAME=VALUE; ``installed`` has a line a package,
    its name and version with a tab between.
    """
    plain: dict[str, Any] = {}
    versions = {}
    for word in words:
        key, _, value = word.partition("=")
        if key.startswith("version:"):
            versions[key.removeprefix("version:")] = value
        else:
            plain[key] = value
    rows = (line.partition("\t") for line in installed.splitlines())
    packages = {name: version for name, _, version in rows if _PACKAGES.match(name)}
    seen = {"python": platform.python_version(), "busbw": __version__}
    return {**plain, "versions": {**versions, **seen}, "packages": packages}


def main(words: Sequence[str], file: Path = IMAGE_FILE) -> int:
    """Write the file."""
    query = ("dpkg-query", "--show", "--showformat=${Package}\\t${Version}\\n")
    installed = ""
    if shutil.which(query[0]):
        installed = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    file.write_text(json.dumps(describe(words, installed), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
