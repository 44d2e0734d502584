"""What the machine lacks: one error with a hint, exit code 4, and never a silent run on something else."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.shared_libraries import stand_in


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a libcuda that shows two GPUs, and an NCCL."""
    folder = tmp_path_factory.mktemp("libraries")
    stand_in("cuda", folder / "libcuda.so.1")
    stand_in("nccl", folder / "libnccl.so.2", "VERSION=22809")
    return str(folder)


def refused(done: Any, error: str, hint: str) -> None:
    assert re.search(error, done.error), done
    assert hint in done.hint, done
    assert (done.code, done.out) == (4, "")


def test_more_ranks_than_gpus(launcher: Any, libraries: str) -> None:
    words = ("all_reduce", "--ranks", "3", "--nccl", f"{libraries}/libnccl.so.2")
    done = launcher.run(*words, LD_LIBRARY_PATH=libraries)
    refused(done, r"^3 ranks but 2 visible GPUs on \S+$", "give --ranks 2 or fewer")


def test_gpus_without_nccl_are_no_cpu_run(launcher: Any, libraries: str, tmp_path: Path) -> None:
    words = ("all_reduce", "--ranks", "2", "--nccl", str(tmp_path / "libnccl.so.2"))
    done = launcher.run(*words, LD_LIBRARY_PATH=libraries)
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
