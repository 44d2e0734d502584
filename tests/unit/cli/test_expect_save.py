"""``busbw expect --save``: what a reference is made of; and logs that were timed otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.compared import nccl_tests_log, record_of, write

from busbw.cli.main import main
from busbw.judge.references.load import read, save
from busbw.record.folder import create
from busbw.record.write import write_record

pytestmark = pytest.mark.usefixtures("home")

GiB = 2**30
MiB = 2**20


def logs(folder: Path, *busbw: float, ranks: int = 8, size: int = GiB) -> list[str]:
    return [
        str(write(folder / f"l{i}-{ranks}.log", nccl_tests_log({size: each}, ranks)))
        for i, each in enumerate(busbw)
    ]


def answers(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str], list[str]]:
    capsys.readouterr()
    code = main(["expect", *map(str, words), "--format", "json"])
    cases = json.loads(capsys.readouterr().out)["cases"]
    return code, [case["answer"] for case in cases], [case["why"] for case in cases]


def test_the_reference_of_several_logs_is_their_median(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of ten is 8 % slow: a run at 80 % of the others is below them all."""
    ten = logs(tmp_path, 276.0, *[300.0] * 4, 301.5, 298.5, *[300.0] * 3)
    assert main(["expect", f"ref={','.join(ten)}", "--save", "ten"]) == 0
    (made,) = read(home / "references" / "ten.json")
    assert made.launches == 10
    assert all(point.busbw_gb_per_s == pytest.approx(300.0, rel=1e-3) for point in made.points)
    slow = write(tmp_path / "slow.log", nccl_tests_log({GiB: 240.0}, 8))
    code, found, _ = answers(capsys, slow, "--reference", "ten")
    assert (code, set(found)) == (1, {"below"})


def test_several_kinds_are_no_reference(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for ranks in (8, 16, 32):
        logs(tmp_path / "mix", 300.0, ranks=ranks)
    assert main(["expect", str(tmp_path / "mix"), "--save", "mix"]) == 2
    assert "is not one thing: its ranks are 16 and 32 and 8" in capsys.readouterr().err
    one, other = logs(tmp_path, 300.0, 301.0)
    text = Path(other).read_text().replace("A100-SXM4-40GB", "H100 80GB HBM3")
    write(Path(other), text)
    assert main(["expect", f"ref={one},{other}", "--save", "mix"]) == 2
    assert "device: " in capsys.readouterr().err
    assert not (home / "references" / "mix.json").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nGpus 1", "nGpus 2", "2 GPUs of one process"),
        ("# nThread", "# Blocking Enabled: wait and barrier\n# nThread", "blocking"),
        ("iters: 20", "iters: 20 agg iters: 1 validation: 1 graph: 10", "CUDA graph"),
    ],
)
def test_a_log_that_was_timed_otherwise_is_not_below_at_small_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    ten = [str(write(tmp_path / f"{i}.log", nccl_tests_log({MiB: 48.0, GiB: 300.0}, 8))) for i in range(10)]
    assert main(["expect", f"ref={','.join(ten)}", "--save", "plain"]) == 0
    text = nccl_tests_log({MiB: 30.0, GiB: 200.0}, 8)
    plain, odd = write(tmp_path / "plain.log", text), write(tmp_path / "odd.log", text.replace(old, new, 1))
    assert answers(capsys, plain, "--reference", "plain")[1] == ["below"] * 4
    _, found, why = answers(capsys, odd, "--reference", "plain")
    assert sorted(found) == ["below"] * 2 + ["undecided"] * 2
    assert sum("timed otherwise" in each and words in each for each in why) == 2
    assert main(["expect", str(odd), "--reference", "plain"]) == 1
    assert f"# note     timed otherwise: the run {words}; plain back to back" in capsys.readouterr().out


def test_a_minimum_of_one_operation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log,) = logs(tmp_path, 300.0)
    assert main(["expect", log, "--least", "all_reduce:1M=400"]) == 1
    assert "all_reduce: 400 GB/s from 1 MiB on: fail" in capsys.readouterr().out
    assert main(["expect", log, "--least", "alltoall:1M=400"]) == 3


def test_every_root_is_a_reference_of_its_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were mixed into one point: root 1 of the next run was held against root 0."""
    words = ["run", "broadcast", "-b", "1K", "-e", "4K", "-n", "20", "--backend", "null", "--world", "nccl"]
    assert main([*words, "--ranks", "2", "--root", "all"]) == 0
    capsys.readouterr()
    assert main(["expect", "last", "--save", "roots"]) == 0
    assert "saved roots-broadcast-float-root0, roots-broadcast-float-root1 (1" in capsys.readouterr().out
    path = home / "references" / "roots.json"
    made = read(path)
    assert [each.root for each in made] == [0, 1]
    # Root 1 is ten times as fast: what it is held against is its own.
    fast = replace(
        made[1], points=tuple(replace(point, busbw_gb_per_s=10 * point.busbw_gb_per_s, times_us=())
                              for point in made[1].points),
    )  # fmt: skip
    save((made[0], fast), "roots", home)
    assert main([*words, "--ranks", "2", "--root", "all"]) == 0
    code, found, _ = answers(capsys, "last", "--reference", "roots")
    assert code == 1
    assert found == ["as expected"] * (len(found) // 2) + ["below"] * (len(found) // 2)
    assert main([*words, "--ranks", "2", "--root", "0"]) == 0
    assert main(["expect", "last", "--reference", "roots"]) == 0
    assert "# not      roots-broadcast-float-root1: it is of root 1, the run of 0" in capsys.readouterr().out


def test_what_a_log_lacks_is_said_and_uneven_launches_are_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = nccl_tests_log({GiB: 300.0, 2 * GiB: 310.0}, 8)
    died = whole.splitlines()
    row = next(number for number, line in enumerate(died) if line.split()[:1] == [str(2 * GiB)])
    dead = write(
        tmp_path / "dead.log", "\n".join([*died[:row], "node3: Test CUDA failure common.cu:1023 'x'"])
    )
    good = write(tmp_path / "good.log", whole)
    assert main(["expect", str(dead), "--save", "one"]) == 0
    assert "note: dead.log, line " in capsys.readouterr().err
    assert main(["expect", f"ref={good},{dead}", "--save", "two"]) == 2
    assert "points from 1 and 2 launches: dead.log, line " in capsys.readouterr().err
    assert not (home / "references" / "two.json").exists()


def test_a_table_of_another_operation_is_left_out(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
    columns += "         4096         1000         9.90        10.10        10.00\n"
    tables = "".join(
        f"# Benchmarking {title} \n# #processes = 2 \n#{'-' * 20}\n{columns}"
        for title in ("Allreduce", "Reduce_local")
    )
    path = write(tmp_path / "imb.log", "#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part\n" + tables)
    assert main(["expect", str(path), "--save", "imb"]) == 0
    assert "reduce_local is left out: busbw has no such operation" in capsys.readouterr().err
    (saved,) = read(home / "references" / "imb.json")
    assert saved.operation == "all_reduce"


def test_a_reference_is_replaced_on_request_only(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = logs(tmp_path, 300.0)
    path = write(home / "references" / "mine.json", "{")  # nor one that cannot be read
    assert main(["expect", one, "--save", "mine"]) == 2
    told = capsys.readouterr().err
    assert "a reference named mine exists" in told
    assert "hint: save it under another name, or add --replace" in told
    assert path.read_text() == "{"
    assert main(["expect", one, "--save", "mine", "--replace"]) == 0
    assert read(path)[0].operation == "all_reduce"
    assert main(["expect", one, "--replace"]) == 2


def tuned(home: Path, name: str, time_us: float, **variables: str) -> None:
    job = {"SLURM_JOB_ID": name, "NCCL_DEBUG": name, "OMPI_MCA_ess_base_jobid": name}
    record = record_of({MiB: [time_us] * 3}, name=name, environment={"variables": {**job, **variables}})
    write_record(create(home, name), record)


def test_a_reference_that_was_tuned_otherwise_is_used_only_if_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(home, "alone", 400.0, NCCL_P2P_DISABLE="1")
    assert main(["expect", "alone", "--save", "network"]) == 0
    tuned(home, "plain", 100.0)
    tuned(home, "slow", 400.0)
    for run in ("plain", "slow"):
        capsys.readouterr()
        assert main(["expect", run]) == 3
        text = capsys.readouterr().out
        assert "# not      network: it has NCCL_P2P_DISABLE=1, the run does not" in text
        assert "# cases    1 no reference" in text
    tuned(home, "again", 401.0, NCCL_P2P_DISABLE="1")
    assert main(["expect", "again"]) == 0
    capsys.readouterr()
    assert main(["expect", "slow", "--reference", "network"]) == 0
    assert "network was tuned otherwise, and you named it: it has NCCL_P2P" in capsys.readouterr().out


def test_a_reference_of_an_untuned_run_is_none_for_a_tuned_one(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(home, "first", 100.0)
    assert main(["expect", "first", "--save", "plain"]) == 0
    assert read(home / "references" / "plain.json")[0].environment == {}
    tuned(home, "second", 101.0)
    assert main(["expect", "second"]) == 0
    tuned(home, "alone", 400.0, MPIR_CVAR_NOLOCAL="1")
    assert main(["expect", "alone"]) == 3
    assert "plain: it does not set MPIR_CVAR_NOLOCAL, the run has 1" in capsys.readouterr().out


def test_a_reference_that_does_not_know_its_settings_is_used(home: Path) -> None:
    write_record(create(home, "old"), record_of({MiB: [100.0] * 3}, name="old"))
    assert main(["expect", "old", "--save", "mine"]) == 0
    tuned(home, "new", 100.0, NCCL_ALGO="RING")
    assert main(["expect", "new"]) == 0
