"""What a bundle holds."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from busbw.launch.hosts.bring import make_bundle

PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


@pytest.mark.slow
def test_a_bundle_holds_what_ranks_and_launcher_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bundle = make_bundle()
    with tarfile.open(bundle) as archive:
        names = set(archive.getnames())
        owners = {member.uid for member in archive.getmembers()}
    for needed in (
        "busbw/__main__.py",
        "busbw/launch/agent.py",
        "numpy/__init__.py",
        "mpi4py/__init__.py",
        "zmq/__init__.py",
        "rich/__init__.py",
    ):
        assert f"{PACKAGES}/{needed}" in names
    assert {"bin/mpiexec", "bin/hydra_pmi_proxy", "lib/libmpi.so.12"} <= names
    assert not [
        name for name in names if "/pytest/" in name or name.endswith(".pyc") or name.startswith(("/", ".."))
    ]
    assert owners == {0}
    assert bundle.stat().st_size < 80e6
    before = bundle.stat().st_mtime_ns
    assert make_bundle() == bundle
    assert bundle.stat().st_mtime_ns == before  # not made again
