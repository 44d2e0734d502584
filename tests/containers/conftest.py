"""Real images: buildah in a storage of its own, a root file system from the distribution's packages, and
busbw's own commands on top. Nothing of it is left on the machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from busbw_testing.images import BASE, PROGRAMS, Container, Images

ROOT = Path(__file__).resolve().parents[2]
CERTIFICATES = "/opt/host-certificates.crt"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_SOURCE = shutil.ignore_patterns(
    *(".git", ".venv", "build", "dist", "tests", "__pycache__", ".*_cache", ".hypothesis"),
    *("*.so", "*.egg-info"),
)


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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = Path(shutil.copytree(ROOT, folder / "busbw", ignore=_NOT_SOURCE))
    (tree / "src/busbw/_native/pattern_device.ptx").unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, tree], check=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def cpu_image(images: Images, base: str, wheel: Path) -> str:
    """The CPU image, really built."""
    return images.build("cpu", wheel)


@pytest.fixture(scope="session")
def container(images: Images, cpu_image: str) -> Iterator[Container]:
    """A container of the CPU image."""
    made = Container(images, cpu_image)
    yield made
    made.close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """A real registry on the loopback interface, without TLS; its host and port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "registry.yml"
    config.write_text(
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path}/registry}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = subprocess.Popen(["docker-registry", "serve", config], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the registry does not answer"
                time.sleep(0.05)
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(10)
