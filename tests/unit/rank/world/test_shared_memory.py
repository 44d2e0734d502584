from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.errors import SiteError
from busbw.rank.world import shared_memory
from busbw.rank.world.identity import identify

MIB = 2**20


def rank_of(local_rank: int, ranks: int) -> shared_memory.Identity | None:
    variables = {"PMI_RANK": str(local_rank), "PMI_SIZE": str(ranks)}
    here = {"MPI_LOCALRANKID": str(local_rank), "MPI_LOCALNRANKS": str(ranks)}
    return identify({**variables, **here, "BUSBW_LAUNCHER": "mpich"})


def test_shared_memory_that_is_too_small_is_refused_with_what_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def free(size_bytes: int) -> None:
        found = SimpleNamespace(f_bavail=size_bytes // 4096, f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda _: found)

    free(64 * MIB)  # a container's
    shared_memory.require(rank_of(0, 8))
    free(16 * MIB)
    with pytest.raises(
        SiteError, match=r"MPI needs .*54.* for 8 ranks on this host, and .*16.* free"
    ) as refused:
        shared_memory.require(rank_of(0, 8))
    assert "--shm-size" in refused.value.hint
    shared_memory.require(rank_of(1, 8))  # the first rank makes the files
    shared_memory.require(rank_of(0, 1))
    shared_memory.require(None)


def test_names_of_files_that_this_rank_has_mapped_are_removed(tmp_path: Path) -> None:
    own, foreign = tmp_path / "mpich_shm_ab_0", tmp_path / "mpich_shm_cd_0"
    for path in (own, foreign):
        path.write_bytes(bytes(4096))
    with own.open("r+b") as file:
        pages = mmap.mmap(file.fileno(), 4096)
    shared_memory.remove_own_files(str(tmp_path))
    assert not own.exists()
    assert foreign.exists()
    pages.close()
