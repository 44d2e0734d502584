from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.errors import SiteError, UsageError
from busbw.machine import backends
from busbw.machine.backends import backend_status, choose_backend
from busbw.machine.gpus import GpuPresence
from busbw.machine.mpi import MpiLibrary, MpiSearch
from busbw.machine.native.nccl import SearchPlaces

BuildLibrary = Callable[..., Path]
Places = Callable[..., SearchPlaces]
Here = Callable[..., None]

NO_DRIVER = GpuPresence(0, "", "no NVIDIA driver: libcuda.so.1 not found", "install one")
TWO_GPUS = GpuPresence(2, "12.8")
BROKEN = GpuPresence(0, "", "no usable GPU: cuInit failed", "reboot", broken=True)
MPICH = MpiSearch(
    "/site-packages/mpi4py",
    MpiLibrary("/env/lib/libmpi.so.12", "environment", "mpich", "/env/bin/mpiexec"),
    (),
)
NO_MPI4PY = MpiSearch("", None, ())
NO_LIBMPI = MpiSearch("/site-packages/mpi4py", None, ("/env/lib/libmpi.so",))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    """``here(presence, mpi, places)``: what the probes find."""

    def stand_in(presence: GpuPresence, mpi: MpiSearch = MPICH, places: SearchPlaces | None = None) -> None:
        monkeypatch.setattr(backends, "gpu_presence", lambda: presence)
        monkeypatch.setattr(backends, "find_mpi", lambda _: mpi)
        if places is not None:
            monkeypatch.setattr(SearchPlaces, "here", staticmethod(lambda: places))

    return stand_in


@pytest.fixture
def places(tmp_path: Path, build_library: BuildLibrary) -> Places:
    """``places(version=22809, wheel="nvidia_nccl_cu12-2.28.9")``: a site-packages with, or without, NCCL."""

    def make(version: int = 0, wheel: str = "", maps: Path = tmp_path / "no-maps") -> SearchPlaces:
        packages = tmp_path / "site-packages"
        packages.mkdir(exist_ok=True)
        if version:
            # Loaded under another name, so that this process never maps a file called libnccl.so.2.
            library = build_library("nccl", f"VERSION={version}")
            (packages / "nvidia/nccl/lib").mkdir(parents=True)
            (packages / "nvidia/nccl/lib/libnccl.so.2").symlink_to(library)
        if wheel:
            (packages / f"{wheel}.dist-info").mkdir()
        return SearchPlaces({}, [str(packages)], str(tmp_path), maps, tmp_path / "no-cache", ())

    return make


def test_both_usable(places: Places, here: Here) -> None:
    here(TWO_GPUS, places=places(22809))
    nccl, mpi = backend_status()
    assert (nccl.name, nccl.usable, nccl.reasons) == ("nccl", True, ())
    assert nccl.detail.startswith("2 GPUs visible; NCCL 2.28.9 at /")
    assert (mpi.name, mpi.usable) == ("mpi", True)
    assert mpi.detail == "mpich library at /env/lib/libmpi.so.12 (environment); mpiexec /env/bin/mpiexec"


def test_gpus_without_nccl_say_where_was_looked(places: Places, here: Here, tmp_path: Path) -> None:
    here(TWO_GPUS, places=places())
    status, _ = backend_status()
    (reason,) = status.reasons
    assert reason.text.startswith("2 GPUs visible but no libnccl.so.2 found: looked at ")
    assert f"{tmp_path}/site-packages/nvidia/nccl/lib" in reason.text
    assert "nvidia-nccl-cu12" in reason.hint


def test_old_nccl(places: Places, here: Here) -> None:
    here(TWO_GPUS, places=places(21003))
    status, _ = backend_status()
    (reason,) = status.reasons
    assert reason.text.startswith("NCCL 2.10.3 at ")
    assert reason.text.endswith("is older than 2.18.0")


def test_explicit_path_that_is_not_there(here: Here) -> None:
    here(TWO_GPUS)
    status, _ = backend_status("/absent/libnccl.so")
    assert status.reasons[0].text == "no libnccl at /absent/libnccl.so"


@pytest.mark.parametrize(
    ("wheel", "usable"), [("nvidia_nccl_cu12-2.28.9", True), ("nvidia_nccl_cu13-2.28.9", False)]
)
def test_wheel_for_a_newer_cuda_than_the_driver_serves(
    places: Places, tmp_path: Path, build_library: BuildLibrary, wheel: str, usable: bool
) -> None:
    where = places(0, wheel)
    library = tmp_path / "site-packages/nvidia/nccl/lib/libnccl.so.2"
    library.parent.mkdir(parents=True)
    shutil.copy(build_library("nccl", "VERSION=22809"), library)
    code = f"""
from pathlib import Path
from busbw.machine import backends
from busbw.machine.gpus import GpuPresence
from busbw.machine.native.nccl import SearchPlaces
where = SearchPlaces({{}}, {where.module_path!r}, loader_cache=Path("/nonexistent"), default_folders=())
SearchPlaces.here = staticmethod(lambda: where)
backends.gpu_presence = lambda: GpuPresence(2, "12.8")
status, _ = backends.backend_status()
print(status.usable, [reason.text for reason in status.reasons])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(usable))
    assert ("needs CUDA 13, but the driver supports CUDA 12.8" in done.stdout) is not usable


def test_no_libmpi_says_where_was_looked(here: Here) -> None:
    here(NO_DRIVER, NO_LIBMPI)
    _, status = backend_status()
    assert status.reasons[0].text == "no MPI library found: looked at /env/lib/libmpi.so"


class TestChoose:
    def test_gpus_mean_nccl(self, places: Places, here: Here) -> None:
        here(TWO_GPUS, places=places(22809))
        assert choose_backend("auto") == "nccl"
        assert choose_backend("mpi") == "mpi"

    def test_no_gpu_means_mpi(self, here: Here) -> None:
        here(NO_DRIVER)
        assert choose_backend("auto") == "mpi"
        with pytest.raises(SiteError, match="--nccl names /a, but no GPU is visible: no NVIDIA driver"):
            choose_backend("auto", "/a")

    def test_gpus_without_nccl_are_never_a_silent_cpu_run(self, places: Places, here: Here) -> None:
        here(TWO_GPUS, places=places())
        with pytest.raises(SiteError, match="backend nccl is not usable: 2 GPUs visible") as caught:
            choose_backend("auto")
        assert caught.value.hint.endswith("use --backend mpi to measure host memory instead")

    def test_broken_gpus_are_never_a_silent_cpu_run(self, here: Here) -> None:
        here(BROKEN)
        with pytest.raises(SiteError, match="cuInit failed"):
            choose_backend("auto")

    def test_what_was_asked_for_must_be_usable(self, here: Here) -> None:
        here(NO_DRIVER, NO_MPI4PY)
        with pytest.raises(SiteError, match="backend nccl is not usable: no NVIDIA driver") as caught:
            choose_backend("nccl")
        assert caught.value.hint == "install one"
        with pytest.raises(SiteError, match="mpi4py is not installed") as caught:
            choose_backend("mpi")
        assert caught.value.hint == "pip install mpi4py mpich"
        assert choose_backend("null") == "null"

    def test_unknown_name(self) -> None:
        with pytest.raises(UsageError, match="unknown backend 'gloo'"):
            choose_backend("gloo")
