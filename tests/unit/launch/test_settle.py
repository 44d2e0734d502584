"""Launch settings from the job that busbw was started in."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.launch.settle import with_pbs_hosts
from busbw.plan.flags.launch import LaunchSettings


def test_hosts_of_a_pbs_job(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("b.site\nb.site\na\nb.site\n")
    environ = {"PBS_NODEFILE": str(tmp_path / "nodes")}
    found, notes = with_pbs_hosts(LaunchSettings(on="hosts"), environ)
    assert found.hosts == "b.site:3,a:1"
    assert notes == ("2 hosts with 4 slots, from PBS_NODEFILE",)
    for other in (LaunchSettings(on="hosts", hosts="c"), LaunchSettings(on="hosts", hostfile=tmp_path)):
        assert with_pbs_hosts(other, environ) == (other, ())
    assert with_pbs_hosts(LaunchSettings(on="slurm"), environ)[0].hosts == ""


def test_a_pbs_node_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="cannot read PBS_NODEFILE"):
        with_pbs_hosts(LaunchSettings(on="hosts"), {"PBS_NODEFILE": "/not/here"})
