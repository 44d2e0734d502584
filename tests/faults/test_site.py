"""What the machine lacks: one error with a hint, exit code 4, and never a silent run on something else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

STAND_INS = Path(__file__).parents[1] / "unit" / "machine" / "stand_ins"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``stand_in("nccl", "VERSION=21003", name="libnccl.so.2")`` -> the library, in a folder of its own."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "g++"))), None)
    if compiler is None:
        pytest.skip("no C compiler for the stand-in libraries")

    def build(source: str, *defines: str, name: str) -> Path:
        target = tmp_path_factory.mktemp(source) / name
        command = [compiler, "-x", "c", "-w", "-shared", "-fPIC", *(f"-D{define}" for define in defines)]
        subprocess.run([*command, str(STAND_INS / f"{source}.c"), "-o", str(target)], check=True)
        return target

    return build


@pytest.fixture(scope="module")
def driver(stand_in: Any) -> str:
    """A folder whose libcuda.so.1 shows two GPUs."""
    return str(stand_in("cuda", name="libcuda.so.1").parent)


def refused(done: Any, error: str, hint: str) -> None:
    assert re.search(error, done.error), done
    assert hint in done.hint, done
    assert (done.code, done.out) == (4, "")


def test_more_ranks_than_gpus(launcher: Any, driver: str, stand_in: Any) -> None:
    nccl = str(stand_in("nccl", "VERSION=22809", name="libnccl.so.2"))
    done = launcher.run("all_reduce", "--ranks", "3", "--nccl", nccl, LD_LIBRARY_PATH=driver)
    refused(done, r"^3 ranks but 2 visible GPUs on \S+$", "give --ranks 2 or fewer")


def test_gpus_without_nccl_are_no_cpu_run(launcher: Any, driver: str, tmp_path: Path) -> None:
    done = launcher.run(
        "all_reduce", "--ranks", "2", "--nccl", str(tmp_path / "libnccl.so.2"), LD_LIBRARY_PATH=driver
    )
    refused(
        done, "^backend nccl is not usable: no libnccl at", "use --backend mpi to measure host memory instead"
    )


def test_nccl_asked_for_without_a_gpu(launcher: Any) -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU here")
    done = launcher.run("all_reduce", "--backend", "nccl")
    refused(done, "^backend nccl is not usable: no NVIDIA driver", "NVIDIA driver")


def test_no_mpiexec(launcher: Any, tmp_path: Path) -> None:
    from busbw.machine.mpi import find_mpi

    library = find_mpi(os.environ).library
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmpi.so.12").symlink_to(library.path)
    copy = str(shutil.copy(library.path, tmp_path / "libmpi.so.12"))
    done = launcher.run("all_reduce", "--ranks", "2", MPI4PY_LIBMPI=copy, PATH="/nonexistent")
    refused(done, "^no mpiexec was found", "pip install mpich")


def test_too_little_memory_is_said_before_allocating(launcher: Any) -> None:
    done = launcher.run("all_reduce", "--ranks", "2", "-b", "900T", "-e", "900T")
    refused(
        done,
        r"too little memory: 2 ranks on this host with two buffers of 900 TiB .* need 5400\.0 TiB",
        "-e ",
    )
    assert done.seconds < 30


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A control group of 512 MiB, or a skip where this user may not make one."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root) / f"busbw-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(1 << 29))
        except OSError:
            group.rmdir()
            continue
        yield group
        group.rmdir()
        return
    pytest.skip("no right to make a control group")


@pytest.mark.slow
def test_the_limit_of_a_control_group_counts_and_what_it_says_fits(launcher: Any, small_cgroup: Path) -> None:
    enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'

    def run_inside(*operands: str) -> Any:
        words = ("sh", "-c", enter, str(small_cgroup), *launcher.busbw, "run", "all_reduce", *operands)
        return launcher.start(*words).finish()

    done = run_inside("--ranks", "2", "-b", "512M", "-e", "512M")
    refused(
        done,
        rf"too little memory: .* are available .*{re.escape(small_cgroup.name)}",
        "the largest size that fits is -e ",
    )
    fits = done.hint.split()[-1]
    done = run_inside("--ranks", "2", "-b", fits, "-e", fits, "-n", "1", "-w", "1")
    assert done.code == 0, done
