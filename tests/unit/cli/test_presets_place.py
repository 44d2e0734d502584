"""The ranks' place by a preset: what flags, a preset on top and a preset that extends another leave of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from busbw_testing.facts import answer
from busbw_testing.presets import ours

from busbw.cli import on
from busbw.cli.main import main
from busbw.launch.engine import JobRequest, load
from busbw.launch.hosts.list import read_places
from busbw.launch.hosts.plan import Site
from busbw.launch.hosts.ssh import HostFacts

if TYPE_CHECKING:
    from pathlib import Path

    from busbw.plan.flags.launch import LaunchSettings


def placed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[tuple[int | None, int | None], str]:
    """What a dry run on hosts asks for (ranks, nodes), and what it says."""
    requests: list[JobRequest] = []
    monkeypatch.setattr(on, "_print_dry_run", lambda found, _format, **_: requests.extend(found))
    assert main(["run", "all_reduce", "--on", "hosts", "--dry-run", *words]) == 0, capsys.readouterr().err
    return (requests[0].ranks, requests[0].nodes), capsys.readouterr().err


@pytest.fixture
def gpu_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that have eight GPUs each, and answer."""
    own = HostFacts(
        "login", (3, 11), "/p", "x86_64", 8, 0, busbw="1.0", mpi="mpich", mpiexec="/env/bin/mpiexec"
    )
    answer = HostFacts("n", (3, 11), "/p", "x86_64", 96, 8, busbw="1.0", mpi="mpich", mpiexec="/m")

    def inquire(launch: LaunchSettings, _command: tuple[str, ...] = (), **_: bool) -> dict[str, Site]:
        hosts = {place.host: replace(answer, hostname=place.host) for place in read_places(launch)}
        return {"site": Site(hosts, (), own, token="0" * 32)}

    monkeypatch.setattr(load("hosts"), "inquire", inquire)


P5 = ("--preset", "aws/p5.48xlarge")
OF_P5 = "replaces preset aws/p5.48xlarge's"


@pytest.mark.usefixtures("gpu_hosts")
@pytest.mark.parametrize(
    ("words", "place", "note"),
    [
        (("--hosts", "a"), (8, 1), ""),  # as many nodes as hosts, whatever the preset has
        (("--hosts", "a,b", "--ranks", "6"), (6, 2), f"--ranks 6 {OF_P5} --ranks-per-node 8\n"),
        (("--hosts", "a:4,b:4", "--ranks-per-node", "4"), (8, 2), ""),
        (("--hostfile", "FILE", "--preset", "u/hosts"), (16, 2), "preset u/hosts's --hosts a:1,b:1,c:1\n"),
        (("--preset", "u/hosts"), (24, 3), ""),
    ],
)
def test_hosts_that_are_named_win_over_a_presets_place(
    words: tuple[str, ...],
    place: tuple[int, int],
    note: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    ours(tmp_path, monkeypatch, "family: u\npresets: {hosts: {hosts: {hosts: 'a:1,b:1,c:1'}}}")
    file = tmp_path / "hosts"
    file.write_text("a\nb\n")
    found, said = placed(capsys, monkeypatch, *P5, *(word.replace("FILE", str(file)) for word in words))
    assert found == place
    assert note in said
    assert bool(note) == ("replaces" in said)


@pytest.mark.usefixtures("gpu_hosts")
def test_a_job_starts_no_ranks_on_hosts_that_are_not_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours(tmp_path, monkeypatch, "family: u\npresets: {a: {launch: {nodes: 2}, hosts: {hosts: 'x:1,y:1'}}}")
    file = tmp_path / "nodes"
    file.write_text("a\nb\nc\n" * 4)
    monkeypatch.setenv("PBS_NODEFILE", str(file))
    found, said = placed(capsys, monkeypatch, "--preset", "u/a")
    assert found == (12, 3)
    assert "note: PBS_NODEFILE replaces preset u/a's --hosts x:1,y:1\n" in said


@pytest.mark.parametrize(
    ("words", "shown", "left_out"),
    [
        ((), ["replicas: 2\n", "slotsPerWorker: 8\n", " -n 16 "], ""),
        (("-N", "4"), ["replicas: 4\n", "slotsPerWorker: 8\n", " -n 32 "], "--ranks 16"),
        (("--set", "replicas=4"), ["replicas: 4\n", " -n 32 "], "--ranks 16"),
        (("--ranks", "8"), ["replicas: 2\n", "slotsPerWorker: 4\n", " -n 8 "], "--ranks-per-node 8"),
        (("--set", "np=6"), ["replicas: 2\n", "slotsPerWorker: 3\n", " -n 6 "], "--ranks-per-node 8"),
    ],
)
def test_flags_win_over_the_words_of_a_presets_form(
    words: tuple[str, ...],
    shown: list[str],
    left_out: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    text = 'family: u\npresets: {a: {kubernetes: {np: "16", slots: "8", replicas: "2"}}}'
    ours(tmp_path, monkeypatch, text)
    answer(monkeypatch)
    line = ["run", "all_reduce", "--dry-run", "--on", "kubernetes", "--image", "x:1", "--preset", "u/a"]
    assert main([*line, *words]) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    assert [text for text in shown if text not in out] == []
    assert left_out in err
    assert bool(left_out) == ("replaces preset u/a's" in err)


def test_exec_tells_what_takes_the_place_of_a_presets_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch)
    words = ["exec", "--dry-run", "--on", "kubernetes", "--image", "x:1", *P5, "--env", "FI_PROVIDER=tcp"]
    assert main([*words, "--set", "np=8", "--", "hostname"]) == 0
    out, err = capsys.readouterr()
    assert f"note: --set np=8 {OF_P5} --ranks-per-node 8\n" in err
    assert "note: FI_PROVIDER=tcp, --env's, replaces preset aws/p5.48xlarge's efa\n" in err
    assert "slotsPerWorker: 4\n" in out


SIX = """family: u
presets:
  base: {launch: {nodes: 2, ranks_per_node: 4}}
  six: {extends: base, launch: {ranks_per_node: null}, run: {ranks: 6}}
"""


@pytest.mark.usefixtures("gpu_hosts")
@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        (("--on", "hosts", "--hosts", "a,b"), 6),
        (("--on", "kubernetes", "--image", "x:1"), 6),
        (("--on", "slurm", "--ranks-per-node", "5"), 10),
    ],
)
def test_exec_places_a_preset_as_run_does(
    words: tuple[str, ...],
    ranks: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    ours(tmp_path, monkeypatch, SIX)
    answer(monkeypatch)
    requests: list[JobRequest] = []
    monkeypatch.setattr(on, "_print_dry_run", lambda found, _format, **_: requests.extend(found))
    rest = ("--dry-run", "--preset", "u/six", *words)
    assert main(["run", "all_reduce", *rest]) == 0, capsys.readouterr().err
    assert main(["exec", *rest, "--", "hostname"]) == 0, capsys.readouterr().err
    assert [(request.ranks, request.nodes) for request in requests] == [(ranks, 2), (ranks, 2)]
