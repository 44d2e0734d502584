"""Every collective x type x reduction x root x placement over real MPI libraries, in real processes."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from busbw_testing.mpi_ranks import YIELDING, needs_mpiexec, said_by_ranks
from busbw_testing.open_mpi import make_open_mpi

from busbw.machine.host import available_memory_bytes, read_memory

PROGRAM: Final = Path(__file__).with_name("program.py")
# Open MPI refuses root, and CI is root.
AS_ROOT: Final = {
    f"{tool}_ALLOW_RUN_AS_ROOT{suffix}": "1" for tool in ("OMPI", "PRTE") for suffix in ("", "_CONFIRM")
}
TYPES: Final = 14
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
# Collective x reduction x placement, of each type: 3 that reduce, in both placements, with 6 reductions; 10
# that move, in both placements but for broadcast (in place only) and 4 that are never in place.
REDUCING, MOVING = 3 * 2 * 6, 2 * 10 - 1 - 4


@functools.cache
def found(task: str, ranks: int) -> dict[str, Any]:
    """What the ranks of the bundled MPI found; each task runs once."""
    return of_ranks(ranks, task, **YIELDING)


def of_ranks(ranks: int, task: str, launcher: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """The same with any launcher."""
    out: dict[str, Any] = said_by_ranks(ranks, PROGRAM, task, launcher=launcher, **more)
    assert out["ranks"] == ranks
    return out


def kinds(ranks: int) -> int:
    """Collective x type x reduction x placement; hypercube needs a power of two, barrier has no type."""
    hypercube = 2 if ranks & (ranks - 1) == 0 else 0
    return TYPES * (REDUCING + MOVING - 2 + hypercube) + 1


@needs_mpiexec
@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_every_case_is_right_on_every_rank(ranks: int) -> None:
    grid = found("grid", ranks)
    assert grid["kinds"] == kinds(ranks)
    # Beyond the first root: broadcast in one placement, gather and scatter in two, reduce in two x 6.
    more_roots = (ranks - 1) * TYPES * (1 + 2 + 2 + 2 * 6)
    assert grid["cases"]["full"] == kinds(ranks) + more_roots
    assert grid["wrong"] == []


@needs_mpiexec
@pytest.mark.parametrize("fault", ["a flipped bit", "a dropped rank", "a stale buffer"])
def test_a_fault_is_caught_in_every_collective_type_and_reduction(fault: str) -> None:
    caught = found("faults", 4)[fault]
    assert caught["cases"] == kinds(4) - 1  # all but barrier
    assert caught["unnoticed"] == []


@needs_mpiexec
def test_two_swapped_ranks_are_caught_wherever_they_change_the_result() -> None:
    unnoticed = found("faults", 4)["two swapped ranks"]["unnoticed"]
    # A reduction gives the same whoever brings what, but for each rank's own scalar; a broadcast between
    # ranks that are not its root is the same too.
    assert {name for name, *_ in unnoticed} == {"all_reduce", "reduce", "broadcast"}
    assert {op for name, _, op, _ in unnoticed if name != "broadcast"} == {"sum", "prod", "max", "min", "avg"}
    assert len(unnoticed) == TYPES * (2 * 2 * 5 + 1)


@needs_mpiexec
def test_the_lowest_bit_of_a_librarys_result_is_checked_in_every_reduction() -> None:
    caught = found("library_faults", 3)
    assert caught["cases"] == TYPES * REDUCING
    assert (caught["nowhere"], caught["the last rank"], caught["all"]) == ([], [], [])


@needs_mpiexec
def test_counts_beyond_int_go_through_the_large_count_functions() -> None:
    large = found("large", 2)
    assert large["refused"] == {}
    assert large["cases"] == kinds(2)
    assert large["with_large_count"] == kinds(2) - 1  # all but barrier
    assert large["wrong"] == []


@needs_mpiexec
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_buffer_of_more_elements_than_an_int_counts() -> None:
    available = available_memory_bytes(read_memory()).size_bytes
    if available is not None and available < 10 * 2**30:
        pytest.skip("two ranks need 9 GiB")
    huge = of_ranks(2, "huge", timeout_s=590)
    assert huge["counts"]["broadcast"] > 2**31
    assert huge["counts"]["alltoall"] > 2**30  # from each of two ranks
    assert huge["wrong"] == []


@needs_mpiexec
def test_the_barrier_holds_everyone_until_the_last_has_come() -> None:
    barrier = found("barrier", 3)
    entered, left = zip(*barrier["clocks"], strict=True)
    assert max(entered) - min(entered) > 40e6
    assert min(left) >= max(entered)
    assert min(barrier["isolated_ns"]) > 0


# ---- other MPI libraries --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def open_mpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the Open MPI wheel."""
    return make_open_mpi(tmp_path_factory.mktemp("open-mpi")).parent


@pytest.mark.packaging
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("task", "ranks"), [("grid", 3), ("grid", 4), ("large", 2)])
def test_open_mpi_is_right_too(open_mpi: Path, task: str, ranks: int) -> None:
    words = [str(open_mpi / "mpirun"), "-n", str(ranks), "--oversubscribe", str(open_mpi / "python")]
    variables = {**AS_ROOT, "OMPI_MCA_mpi_yield_when_idle": "1"}
    out = of_ranks(ranks, task, words, timeout_s=300, **variables)
    assert out["wrong"] == []
    if task == "grid":
        assert out["kinds"] == kinds(ranks)
    elif out["refused"]:  # Open MPI 5 has no large counts
        assert "MPI_Allreduce_c" in out["refused"]["all_reduce"]
        assert "elements: the largest size is" in out["refused"]["alltoall"]


# What one library computes wrongly by itself: MPICH before 4.1 takes unsigned integers for signed ones in max
# and min, in any program (the maximum of 200 and 100 in uint8 is 100). We say so in the row.
KNOWN_WRONG: Final = {
    "mpich": {(dtype, op) for dtype in UNSIGNED for op in ("max", "min")},
    "openmpi-bin": set(),
}


@pytest.fixture(scope="module", params=list(KNOWN_WRONG))
def of_debian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A package of Debian's, and where it and what it needs were unpacked: not installed, or other tests
    would find its mpirun.
    """
    if shutil.which("apt-get") is None:
        pytest.skip("no apt-get: not Debian or Ubuntu")
    root = tmp_path_factory.mktemp(request.param)
    (root / "partial").mkdir()
    words = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", "--download-only"]
    subprocess.run([*words, "--option", f"Dir::Cache::archives={root}", request.param], check=True)
    for package in root.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    return request.param, root


@pytest.mark.packaging
@pytest.mark.timeout(600)
def test_debians_own_mpi_is_right_under_its_own_mpirun(of_debian: tuple[str, Path]) -> None:
    ranks = 3
    package, root = of_debian
    (folder,) = root.glob("usr/lib/*-linux-gnu")
    variables = {"LD_LIBRARY_PATH": f"{folder}:{root / 'lib' / folder.name}"}
    if package == "mpich":
        # Installing it makes this link.
        library, mpirun = folder / "libmpi.so.12", ["mpiexec.hydra"]
        library.unlink(missing_ok=True)
        library.symlink_to("libmpich.so.12")
        variables |= YIELDING
    else:
        library, mpirun = folder / "libmpi.so.40", ["mpirun.openmpi", "--oversubscribe"]
        variables |= {**AS_ROOT, "OPAL_PREFIX": str(root / "usr"), "OMPI_MCA_mpi_yield_when_idle": "1"}
    words = [str(root / "usr" / "bin" / mpirun[0]), *mpirun[1:], "-n", str(ranks), sys.executable]
    out = of_ranks(ranks, "grid", words, timeout_s=300, MPI4PY_LIBMPI=str(library), **variables)
    assert out["kinds"] == kinds(ranks)
    assert {(case["dtype"], case["op"]) for case, _ in out["wrong"]} <= KNOWN_WRONG[package]
