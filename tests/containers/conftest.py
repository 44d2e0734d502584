"""Real images: buildah in a storage of its own, a root file system from the distribution's packages, and
the Containerfiles of images/ on top. Nothing of it is left on the machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from busbw_testing.images import BASE, PROGRAMS, Container, Images

CERTIFICATES = "/opt/host-certificates.crt"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """The storage."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid():
        reason = f"no {', '.join(missing)} here" if missing else "not root"
        pytest.skip(f"{reason}; `make test-container` installs what is needed, as root")
    made = Images(tmp_path_factory.mktemp("images"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def base(images: Images) -> str:
    """A root file system from packages, with this machine's certificates, by which pip reaches its index."""
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line
    )
    tar = images.folder / "base.tar"
    images.good("mmdebstrap", "--variant=minbase", "--mode=root", release["VERSION_CODENAME"].strip('"'), tar)
    name = images.good("buildah", "from", "scratch")
    images.good("buildah", "add", name, tar, "/")
    tar.unlink()
    # NVIDIA's images set this one, which must not take the place of a build argument.
    settings = {"PATH": _PATH, "NCCL_VERSION": "9.9.9"}
    known = (os.environ.get(variable) for variable in ("PIP_CERT", "SSL_CERT_FILE"))
    for file in filter(None, (*known, "/etc/ssl/certs/ca-certificates.crt")):
        if Path(file).is_file():
            images.good("buildah", "add", name, file, CERTIFICATES)
            settings["PIP_CERT"] = CERTIFICATES
            break
    if index := os.environ.get("PIP_INDEX_URL"):
        settings["PIP_INDEX_URL"] = index
    words = [word for key, value in settings.items() for word in ("--env", f"{key}={value}")]
    images.good("buildah", "config", *words, name)
    images.good("buildah", "commit", "--rm", name, BASE)
    return BASE


@pytest.fixture(scope="session")
def cpu_image(images: Images, base: str) -> str:
    """The CPU image, really built."""
    return images.build("cpu", {})


@pytest.fixture(scope="session")
def container(images: Images, cpu_image: str) -> Iterator[Container]:
    """A container of the CPU image."""
    made = Container(images, cpu_image)
    yield made
    made.close()
