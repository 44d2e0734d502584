"""Launch settings from what users write: flags in place of --set, the hosts of a PBS job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.launch.settle import settle
from busbw.plan.flags.launch import LaunchSettings


def settled(environ: dict[str, str] | None = None, **settings: Any) -> LaunchSettings:
    return settle(LaunchSettings(**settings), environ or {})[0]


def test_on_slurm_set_gives_the_flags_that_say_the_same() -> None:
    words = ("slots=8", "replicas=4", "image=a=b")
    found = settled(on="slurm", set=words, nodes="2", ranks_per_node=1)
    assert (found.ranks_per_node, found.nodes, found.image, found.set) == (8, "4", "a=b", ())


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("gpu=8", "--gpus-per-node"),
        ("np=8", "--ranks"),
        ("slots=x", "1 or more"),
        ("replicas=0", "1 or more"),
    ],
)
def test_on_slurm_other_keys_name_the_flags(word: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        settled(on="slurm", set=(word,))
    assert hint in refused.value.hint


def test_hosts_of_a_pbs_job(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("b.site\nb.site\na\nb.site\n")
    environ = {"PBS_NODEFILE": str(tmp_path / "nodes")}
    found, notes = settle(LaunchSettings(on="hosts"), environ)
    assert found.hosts == "b.site:3,a:1"
    assert notes == ("2 hosts with 4 slots, from PBS_NODEFILE",)
    for other in (LaunchSettings(on="hosts", hosts="c"), LaunchSettings(on="hosts", hostfile=tmp_path)):
        assert settle(other, environ) == (other, ())
    assert settle(LaunchSettings(on="slurm"), environ)[0].hosts == ""


def test_a_pbs_node_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="cannot read PBS_NODEFILE"):
        settled({"PBS_NODEFILE": "/not/here"}, on="hosts")
