"""Options of nccom-test as settings, plans and places of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.foreign.nccom.options import Options, parse
from busbw.foreign.nccom.settings import ROOT_VARIABLE, notes, one_placement, run_settings, where
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan


def options(line: str) -> Options:
    return parse(line.split())


def settings(line: str, **environ: str) -> RunSettings:
    return run_settings(options(line), environ)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {"datatype": "uint8", "iters": 20, "warmup_iters": 5, "check": 0, "time": "avg", "hot": True}),
        ("-c", {"check": 1, "data": "random", "save_wrong": True}),
        ("-c all_ones", {"check": 1, "data": "all_ones", "save_wrong": False}),
        ("-n 15 -w 5 -I 10 -W 5", {"outer_iters": 10, "outer_warmup_iters": 5, "iters": 15}),
        ("-n 15", {"outer_iters": None, "outer_warmup_iters": None}),
        ("--unique-buff", {"unique_buffers": True, "hot": False}),
        ("--coalesced-cc-size-ratio [1,2,1]", {"coalesce": "1,2,1"}),
        ("--vcpu-pin-mode", {"pin": True}),
        ("--data-parallel-dimension 2", {"group_size": 2, "time": "max"}),
        ("--custom-replica-group g.json", {"groups": "g.json", "time": "max"}),
        ("--seed 7", {"seed": 7}),
        ("-d bf16 -t p50 avg", {"datatype": "bf16", "stats": ["p50", "avg"]}),
    ],
)
def test_flags_are_settings(line: str, expected: dict[str, object]) -> None:
    got = settings(f"-r 4 {line} allr")
    assert {name: got.written()[name] for name in expected} == expected
    assert got.ranks == 4


def test_files_of_variable_operations_and_permute() -> None:
    assert settings("-r 2 alltoallv --alltoallv-metadata m.json").counts == "m.json"
    assert settings("-r 2 allgv --variable-size-op-metadata m.json").counts == "m.json"
    assert settings("-r 2 permute --custom-src-target-pairs p.json").pairs == "p.json"


@pytest.mark.parametrize(
    "line",
    ["-b 8 -e 16 -i 4", "-b 8 -e 64kb -f 2kb", "", "-b 8 -e 16 -f 1"],
)
def test_the_plan_has_the_sizes_of_the_options(line: str) -> None:
    given = options(f"-r 2 {line} allr")
    plan = one_placement(make_plan(("all_reduce",), run_settings(given, {}), "null", 2))
    timed = [case.requested_bytes for case in plan.cases if case.applicable]
    assert tuple(timed) == given.sizes_bytes
    assert all(not case.in_place for case in plan.cases if case.applicable)
    assert [case.index for case in plan.cases] == list(range(len(plan.cases)))


def test_a_run_that_has_only_an_in_place_form_keeps_it() -> None:
    plan = make_plan(("broadcast",), RunSettings(minbytes=Size("8"), maxbytes=Size("8")), "mpi", 2)
    assert [case.applicable for case in one_placement(plan).cases] == [False, True]


@pytest.mark.parametrize(
    "flag", ["--sb2sb", "--cc-dim 1", "--input-shape [1,2][3,4]", "--output-shape [1,2][3,4]",
             "--slurm-use-head-node-neuron-bench"]
)  # fmt: skip
def test_what_only_trainium_has_is_refused_with_the_reason(flag: str) -> None:
    with pytest.raises(UsageError, match=re.escape(flag.split(maxsplit=1)[0])) as caught:
        settings(f"-r 2 {flag} allr")
    assert "needs a Neuron device" in caught.value.message
    assert "run this on Trainium" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-r 2 allr --variable-size-op-metadata m.json", "means nothing for allr"),
        ("-r 2 allr --custom-src-target-pairs p.json", "means nothing for allr"),
        ("-r 4 allr --streams-json s.json", "cannot read --streams-json s.json"),
        ("-r 4 allr --custom-replica-groups g --data-parallel-dimension 2", "exclude each other"),
    ],
)
def test_flags_that_do_not_belong_together(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings(line)


def test_variables_say_where_and_with_what() -> None:
    got = settings("-r 2 allr", BUSBW_BACKEND="null", BUSBW_WORLD="nccl", BUSBW_NCCL="/lib/libnccl.so")
    assert (got.backend, got.world, got.nccl) == ("null", "nccl", "/lib/libnccl.so")
    with pytest.raises(UsageError, match="BUSBW_BACKEND=x is unknown"):
        settings("-r 2 allr", BUSBW_BACKEND="x")


# ---- where ---------------------------------------------------------------------------------------------


def place(line: str, home: Path, **environ: str) -> Any:
    return where(options(line), environ, home)


def test_one_node_is_this_host(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a\n")
    assert place("-r 2 allr --slurm-job-id alloc", tmp_path) is None


def test_hosts(tmp_path: Path) -> None:
    launch = place("-r 64 -N 2 allr --hosts 10.1.4.145 10.1.4.138", tmp_path, BUSBW_MPI="none")
    assert (launch.on, launch.nodes, launch.ranks_per_node) == ("hosts", "2", 32)
    assert (launch.hosts, launch.mpi) == ("10.1.4.145,10.1.4.138", "none")
    with pytest.raises(UsageError, match="BUSBW_MPI=lam is unknown"):
        place("-r 2 allr", tmp_path, BUSBW_MPI="lam")


def test_a_hosts_file_given_or_in_the_home(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a\nb\n")
    for line in ("-r 4 -N 2 allr", f"-r 4 -N 2 allr --hosts-file {file}"):
        launch = place(line, tmp_path)
        assert (launch.hostfile, launch.hosts, launch.ranks_per_node) == (file, "", 2)


def test_addresses_that_ranks_find_by_themselves_are_said() -> None:
    line = "-r 4 -N 2 allr --hosts a b c --data-collector-port 7 --data-collector-host x"
    found = notes(options(line), {ROOT_VARIABLE: "a:1"})
    assert [note.split()[0] for note in found] == [ROOT_VARIABLE, "--data-collector-host", "the"]


def test_slurm(tmp_path: Path) -> None:
    script = tmp_path / "set_up.sh"
    script.write_text("true\n")
    launch = place("-r 64 -N 2 allr --slurm-mode", tmp_path)
    assert (launch.on, launch.nodes, launch.ranks_per_node, launch.job_id) == ("slurm", "2", 32, "")
    assert (launch.setup_script, launch.bring, launch.srun_args) == (None, False, "")
    line = f"-r 64 -N 2 allr -S -u 96 --slurm-job-id 12345 --slurm-setup-script {script}"
    launch = place(line, tmp_path)
    assert (launch.job_id, launch.setup_script, launch.srun_args) == ("12345", script, "--cpus-per-task=3")
    launch = place("-r 64 -N 2 allr -S --slurm-setup-script default", tmp_path)
    assert (launch.bring, launch.setup_script) == (True, None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-r 4 -N 2 allr", "-N 2 nodes, and no hosts"),
        ("-r 4 -N 4 allr --hosts a b", "-N 4 nodes, and hosts for 2: a b"),
        ("-r 4 -N 2 allr --hosts a b --hosts-file f", "--hosts and --hosts-file exclude each other"),
        ("-r 4 -N 2 allr --hosts-file /nowhere/f", "no hosts file /nowhere/f"),
        ("-r 4 -N 2 allr -S --hosts a b", "--hosts and --slurm-mode exclude each other"),
        ("-r 4 allr --slurm-job-id 7", "--slurm-job-id means nothing without --slurm-mode"),
        ("-r 4 allr -u 7", "--slurm-vcpus-per-node means nothing without --slurm-mode"),
        ("-r 4 -N 2 allr -S --slurm-setup-script /nowhere/s", "no set-up script /nowhere/s"),
        ("-r 64 -N 2 allr -S -u 8", "-u 8 CPUs of a node for 32 ranks"),
    ],
)
def test_places_that_cannot_be_meant(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        place(line, tmp_path)
    assert caught.value.hint
