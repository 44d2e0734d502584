"""Launch settings from what users write: preset prefixes, flags in place of --set, the hosts of a PBS job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.launchers.settle import settle
from busbw.settings.launch import LaunchSettings

PRESET = ("aws/p5.48xlarge@2024-04",)


def settled(environ: dict[str, str] | None = None, **settings: Any) -> LaunchSettings:
    return settle(LaunchSettings(**settings), environ or {})[0]


@pytest.mark.parametrize(
    "word",
    [
        *("nic=rdma/ib.x=1", "aws/p5.48xlarge.nic=rdma/ib.x=1", "p5.48xlarge.nic=rdma/ib.x=1"),
        *("aws/p5.48xlarge@2024-04.nic=rdma/ib.x=1", "preset.nic=rdma/ib.x=1", "kubernetes.nic=rdma/ib.x=1"),
    ],
)
def test_a_preset_may_stand_before_a_key(word: str) -> None:
    assert settled(on="kubernetes", preset=PRESET, set=(word,)).set == ("nic=rdma/ib.x=1",)


@pytest.mark.parametrize(
    ("preset", "word", "message"),
    [
        (PRESET, "aws/p4d.24xlarge.nic=4", "names preset aws/p4d.24xlarge, not the chosen one (aws/p5"),
        ((), "aws/p4d.24xlarge.nic=4", "names preset aws/p4d.24xlarge, and none was chosen"),
        ((), "preset.nic=4", "names preset preset, and none was chosen"),
        ((), "slurm.nic=4", "names preset slurm"),
    ],
)
def test_another_preset_is_refused(preset: tuple[str, ...], word: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        settled(on="kubernetes", preset=preset, set=(word,))
    assert message in refused.value.message
    assert refused.value.hint


def test_on_slurm_set_gives_the_flags_that_say_the_same() -> None:
    words = ("slots=8", "p5.48xlarge.replicas=4", "image=a=b")
    found = settled(on="slurm", preset=PRESET, set=words, nodes="2", ranks_per_node=1)
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
