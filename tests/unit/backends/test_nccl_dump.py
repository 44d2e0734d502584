"""NCCL's topology and graphs, as a library writes them while it connects (here: a stand-in for NCCL)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.model.finding import Severity
from busbw.record.folder import NCCL_FILES, create
from busbw.worker.nccl_dump import NcclDump

MakeSite = Callable[..., Any]
TOPOLOGY, GRAPHS = "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOPOLOGY, GRAPHS):
        monkeypatch.delenv(name, raising=False)


def test_what_rank_0_writes_is_in_the_run_folder(make_site: MakeSite, tmp_path: Path) -> None:
    folder = create(tmp_path / 'it\'s a "home"', "run")
    dump = NcclDump(os.environ, folder)
    make_site(rank=0)
    assert dump.finish() == ()
    topology, graphs = (folder / name for name in NCCL_FILES)
    assert topology.read_text().startswith("<system ")
    assert graphs.read_text().startswith("<graphs ")
    # Communicators that are made later, and the record's environment, know nothing of it.
    assert not {TOPOLOGY, GRAPHS} & os.environ.keys()


def test_the_user_s_own_files_are_written_too(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.xml"
    monkeypatch.setenv(TOPOLOGY, str(own))
    folder = create(tmp_path, "run")
    dump = NcclDump(os.environ, folder)
    make_site(rank=0)
    assert dump.finish() == ()
    assert own.read_text() == (folder / NCCL_FILES[0]).read_text()
    assert (folder / NCCL_FILES[1]).exists()
    assert os.environ[TOPOLOGY] == str(own)
    assert GRAPHS not in os.environ


def test_what_is_not_written_is_a_finding(make_site: MakeSite, tmp_path: Path) -> None:
    """Another rank than 0 writes where NCCL_TOPO_DUMP_FILE_RANK says so."""
    dump = NcclDump(os.environ, create(tmp_path, "run"))
    make_site(rank=1)
    topology, graphs = dump.finish()
    assert topology.severity is Severity.WARNING
    assert topology.claim == (
        "NCCL wrote no nccl-topology.xml (NCCL_TOPO_DUMP_FILE: No such file or directory)"
    )
    assert "NCCL_TOPO_DUMP_FILE_RANK" in topology.hint
    assert "nccl-graphs.xml" in graphs.claim


def test_every_rank_names_a_topology_file_while_it_connects(make_site: MakeSite) -> None:
    """NCCL waits for ever where rank 0 alone does."""
    dump = NcclDump(os.environ, None)
    assert os.environ[TOPOLOGY] == os.devnull
    make_site(rank=1)
    assert dump.finish() == ()
    assert not {TOPOLOGY, GRAPHS} & os.environ.keys()
