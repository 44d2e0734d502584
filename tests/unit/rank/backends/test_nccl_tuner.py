"""NCCL told how to do its calls, on a stand-in that loads a tuner as every release does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.cases import case_of

from busbw.errors import SiteError
from busbw.machine.plugins import tuner_path
from busbw.model.arm import Arm, arms_of
from busbw.model.choice import NCCL_ALGORITHMS, NCCL_PROTOCOLS

INTERFACES = {22105: 2, 22203: 3, 22403: 4, 22809: 5, 23000: 6}  # by NCCL's version
TABLE = """\
# what a size takes
allreduce,0,8192,tree,simple,24,-1,4,-1,-1
allreduce,0,8192,ring,ll128,8
allgather,16384,16384,ring,ll128,-1,2,4
"""
RING, TREE, NVLS = (NCCL_ALGORITHMS.index(name) for name in ("RING", "TREE", "NVLS"))
LL128, SIMPLE = (NCCL_PROTOCOLS.index(name) for name in ("LL128", "SIMPLE"))


def tuned(site: Any) -> list[tuple[str, ...]]:
    return [line[1:] for line in site.asked() if line[0] == "Tuned"]


def run_once(site: Any, case: Any) -> None:
    prepared = site.backend.prepare(case)
    prepared.run(0)
    prepared.close()


@pytest.mark.parametrize("version", INTERFACES)
def test_every_interface_follows_the_first_row_that_fits(make_site: Callable[..., Any], version: int) -> None:
    site = make_site(version=version, tuner_table=TABLE)
    site.forget()
    run_once(site, case_of("all_reduce", 4, size_bytes=4096))
    run_once(site, case_of("all_reduce", 4, size_bytes=16384))
    run_once(site, case_of("all_gather", 4, size_bytes=16384))  # NCCL tells the total
    by_nccl = ("AllReduce", str(RING), "0", "0")
    assert tuned(site) == [
        ("AllReduce", str(TREE), str(SIMPLE), "24"),
        by_nccl,
        ("AllGather", str(RING), str(LL128), "0"),
    ]
    site.backend.close()


def test_an_arm_is_what_the_case_is_done_by_and_the_next_case_is_not(make_site: Callable[..., Any]) -> None:
    case = replace(case_of("all_reduce", 4, size_bytes=4096), arm=str(Arm("TREE", "LL128", 16)))
    site = make_site(cases=(case,))
    site.forget()
    run_once(site, case)
    run_once(site, replace(case, arm=""))
    assert tuned(site) == [("AllReduce", str(TREE), str(LL128), "16"), ("AllReduce", str(RING), "0", "0")]
    site.backend.close()


def test_chunks_are_set_by_arms_and_tables(make_site: Callable[..., Any]) -> None:
    case = case_of("all_reduce", 4, size_bytes=4096)
    arm = replace(case, arm=str(Arm("TREE", "SIMPLE", chunk_bytes=65536)))
    table = "allreduce,0,8192,ring,simple,-1,-1,-1,-1,-1,131072\n"
    site = make_site(version=23000, tuner_table=table, cases=(arm,))
    for own in (arm, case):
        run_once(site, own)
    assert [line for line in site.asked() if line[0] == "Chunk"][-2:] == [
        ("Chunk", "65536"),
        ("Chunk", "131072"),
    ]
    site.backend.close()


@pytest.mark.parametrize("version", [22809, 23000])
def test_what_nccl_has_no_cost_for_is_no_arm_and_is_asked_once_a_size(
    make_site: Callable[..., Any], version: int
) -> None:
    case = case_of("all_reduce", 4, size_bytes=4096)
    arms = {arm: replace(case, arm=str(arm)) for arm in arms_of("all_reduce")}
    site = make_site(version=version, cases=tuple(arms.values()))
    site.forget()
    refused = {arm for arm, own in arms.items() if site.backend.inapplicable(own)}
    assert {arm.algorithm for arm in refused if not arm.chunk_bytes} == {"NVLS", "NVLS_TREE"}
    assert {arm.algorithm for arm in arms if arm not in refused} == {"RING", "TREE"}
    assert {arm in refused for arm in arms if arm.chunk_bytes} == {INTERFACES[version] < 6}
    assert len(tuned(site)) == 1
    site.backend.close()


# ---- the tuner that a site has already ---------------------------------------------------------------------

SITES = ("AllReduce", str(RING), str(LL128), "3")


@pytest.mark.parametrize(
    ("version", "interface"),
    [*INTERFACES.items(), *((23000, older) for older in (2, 3, 4, 5)), (22203, 2)],
)
def test_what_busbw_leaves_alone_is_what_the_site_would_have_had(
    make_site: Callable[..., Any],
    build_stand_in: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    interface: int,
) -> None:
    monkeypatch.setenv("NCCL_TUNER_PLUGIN", build_stand_in("site_tuner", f"INTERFACE={interface}"))
    case = case_of("all_reduce", 4, size_bytes=4096)
    arm = replace(case, arm=str(Arm("RING", "SIMPLE", 8)))
    site = make_site(version=version, cases=(arm,))
    assert [line for line in site.asked() if line[0] == "SiteInit"] == [("SiteInit", "77", "4", "2")]
    site.forget()
    for own in (case, arm, case):
        run_once(site, own)
    assert tuned(site) == [SITES, ("AllReduce", str(RING), str(SIMPLE), "8"), SITES]
    site.backend.close()
    assert sum(line[0] == "SiteChoose" for line in site.asked()) == 2
    assert [line for line in site.asked() if line[0] == "SiteFinalize"] == [("SiteFinalize", "1")]
    chunks = [line for line in site.asked() if line[0] == "Chunk"]
    assert chunks == ([("Chunk", "4096")] * 2 if interface == 6 else [])


def test_a_tuner_of_a_newer_interface_than_nccls_is_not_asked(
    make_site: Callable[..., Any],
    build_stand_in: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NCCL_TUNER_PLUGIN", build_stand_in("site_tuner", "INTERFACE=5"))
    site = make_site(version=22403, tuner_table=TABLE)
    run_once(site, case_of("all_reduce", 4, size_bytes=16384))
    assert tuned(site)[-1] == ("AllReduce", str(RING), "0", "0")
    site.backend.close()


@pytest.mark.parametrize(
    ("variables", "version", "why"),
    [({"NCCL_ALGO": "Ring"}, 22809, "NCCL_ALGO is set"), ({}, 22003, "did not load")],
)
def test_what_wins_over_a_tuner_and_what_knows_none(
    make_site: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    version: int,
    why: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SiteError, match=why):
        make_site(version=version, tuner_table=TABLE)


# ---- in a job that is not ours -----------------------------------------------------------------------------

JOB = """
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]
unique, comm = Id(), ctypes.c_void_p()
nccl.ncclGetUniqueId(ctypes.byref(unique))
code = nccl.ncclCommInitRank(ctypes.byref(comm), 4, unique, 1)
if code == 0:
    nccl.ncclAllReduce(None, None, ctypes.c_size_t(1024), 7, 0, comm, None)
print(code)
"""


def job(library: str, log: Path, **variables: str) -> tuple[str, str, str]:
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NCCL_")},
        "NCCL_TUNER_PLUGIN": str(tuner_path()),
        "STAND_IN_LOG": str(log),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-c", JOB, library], env=environ, capture_output=True, text=True, check=True
    )
    lines = log.read_text().splitlines() if log.exists() else []
    chosen = [line for line in lines if line.startswith("Tuned")]
    return done.stdout.strip(), done.stderr, chosen[-1] if chosen else ""


def test_a_job_of_somebody_else_follows_the_table(build_stand_in: Callable[..., str], tmp_path: Path) -> None:
    library = build_stand_in("nccl", "VERSION=22809")
    (tmp_path / "table.csv").write_text(TABLE)
    table = {"BUSBW_TUNER_FILE": str(tmp_path / "table.csv")}
    assert job(library, tmp_path / "log", **table) == ("0", "", f"Tuned AllReduce {TREE} {SIMPLE} 24")
    assert job(library, tmp_path / "other") == ("0", "", f"Tuned AllReduce {RING} 0 0")
    _, said, _ = job(library, tmp_path / "third", NCCL_PROTO="LL", **table)
    assert "NCCL follows it and not the table" in said


@pytest.mark.parametrize("variable", ["BUSBW_TUNER_SITE", "NCCL_NET_PLUGIN", "LD_LIBRARY_PATH"])
def test_a_size_that_the_table_has_not_is_the_sites(
    build_stand_in: Callable[..., str], tmp_path: Path, variable: str
) -> None:
    """Wherever NCCL would find the site's tuner: by its name, in the network's library, by NCCL's name."""
    site = tmp_path / "libnccl-tuner.so"
    site.write_bytes(Path(build_stand_in("site_tuner", "INTERFACE=5")).read_bytes())
    (tmp_path / "table.csv").write_text("allreduce,8192,8192,ring,ll128,8\n")
    variables = {
        "BUSBW_TUNER_FILE": str(tmp_path / "table.csv"),
        variable: str(tmp_path if variable == "LD_LIBRARY_PATH" else site),
    }
    library = build_stand_in("nccl", "VERSION=22809")
    assert job(library, tmp_path / "log", **variables)[2] == f"Tuned {' '.join(SITES)}"
    off = job(library, tmp_path / "off", **{**variables, "BUSBW_TUNER_SITE": "none"})
    assert off[2] == f"Tuned AllReduce {RING} 0 0"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("", "no row"),
        ("allreduce,0,8192,ring,ll128\n", "columns"),
        ("# fine\nallreduce,0,8192,rings,ll128,8\n", "line 2: no such algorithm: 'rings'"),
        ("allreduce,0,8192,ring,ll128,0\n", "channels"),
    ],
)
def test_a_table_that_is_missing_or_wrong_ends_the_job_unless_that_is_accepted(
    build_stand_in: Callable[..., str], tmp_path: Path, text: str | None, why: str
) -> None:
    library, path = build_stand_in("nccl", "VERSION=22809"), tmp_path / "table.csv"
    if text is not None:
        path.write_text(text)
    code, said, chosen = job(library, tmp_path / "log", BUSBW_TUNER_FILE=str(path))
    assert (code, chosen) == ("5", "")
    assert why in said
    assert str(path) in said
    assert len(said.splitlines()) == 1
    going_on = {"BUSBW_TUNER_FILE": str(path), "BUSBW_TUNER_IGNORE_ERRORS": "1"}
    assert job(library, tmp_path / "again", **going_on)[::2] == ("0", f"Tuned AllReduce {RING} 0 0")
