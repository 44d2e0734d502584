"""``busbw expect``: the published case, own references, gates, exit codes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.compared import expect, nccl_tests_log, stored, write

from busbw.cli.main import main
from busbw.cli.run_answer import judged
from busbw.errors import ExitCode
from busbw.judge import kept
from busbw.judge.compare_arms import CaseKey, key_of
from busbw.judge.own_reference import reference_of
from busbw.judge.references.load import find, save
from busbw.model.record import RunRecord
from busbw.plan.flags.run import RunSettings
from busbw.plan.presets.preset import names, read_preset
from busbw.record.read import read_record

pytestmark = pytest.mark.usefixtures("home")

MiB = 2**20


def test_the_published_p4de_case_is_not_to_be_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """25 MiB on two p4de nodes: the kit's own curve has 35.0 GB/s there."""
    log = write(tmp_path / "p4de.log", nccl_tests_log({25 * MiB: 25.92}, 16, devices=False))
    code, text = expect(capsys, log, "--reference", "aws-p4de-2x8", "--format", "json")
    assert code == 1
    told = json.loads(text)
    for case in told["cases"]:
        assert case["answer"] == "below"
        assert case["expected_gb_per_s"] == pytest.approx(35.0, abs=0.05)
        assert case["interpolated"]
        assert 0.245 < 1 - case["ratio"] < 0.305
        assert case["loss_unseen"] == pytest.approx(0.1, abs=0.001)
    assert (told["schema"], told["regimes"][0]["answer"]) == (2, "below")
    (reference,) = told["references"]
    assert reference["versions"]["NCCL"].startswith("2.20.3-1")
    assert any(
        note.startswith("versions: the run not stated; aws-p4de-2x8 NCCL 2.20.3-1") for note in told["notes"]
    )


def test_a_log_that_does_not_tell_its_operation_names_the_command_that_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = nccl_tests_log({MiB: 10.0, 2 * MiB: 11.0}, 2, "sendrecv").replace("    none  ", "     sum  ")
    log = write(tmp_path / "table.log", text)
    assert main(["expect", str(log)]) == 3
    assert f"busbw import {log} --op NAME" in capsys.readouterr().err
    assert main(["import", str(log), "--op", "all_reduce", "--ranks", "2"]) == 0


def test_saving_one_launch_says_what_it_does_not_show(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(home, "one", {1024: 100.0})
    assert main(["expect", "one", "--save", "a"]) == 0
    assert "one launch does not show how launches differ (1 of 1 points)" in capsys.readouterr().err
    stored(home, "next", {1024: 100.0})
    assert expect(capsys, "next", "--reference", "a")[0] == 0
    assert expect(capsys, "next", "--reference", "a", "--detect", "20%")[0] == 3


def test_runs_become_references_of_ones_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.0]
    stored(home, "known", {1024: times, 2048: [2 * time for time in times]})
    code, text = expect(capsys, "known", "--save", "mine")
    assert (code, "saved mine (8 launches)" in text) == (0, True)
    good = stored(home, "good", {1024: 101.5, 2048: 198.0})
    bad = stored(home, "bad", {1024: 800.0, 2048: 198.0})
    assert expect(capsys, "good")[0] == 0
    assert expect(capsys, "good", "--reference", "mine")[0] == 0
    code, text = expect(capsys, "bad")
    assert code == 1
    assert "1 KiB              below, 12% of the expected" in text
    assert "2 KiB              as expected, 101%; a loss under" in text
    # What `busbw run --expect` calls.
    expecting = RunSettings(expect=("mine",))
    assert judged(ExitCode.OK, good, expecting) is ExitCode.OK
    assert judged(ExitCode.OK, bad, expecting) is ExitCode.BAD_VERDICT
    assert (
        judged(ExitCode.OK, good, RunSettings(expect=(str(home / "references" / "mine.json"),)))
        is ExitCode.OK
    )
    # A run that was cut short, or had nothing to judge, keeps its own code.
    assert judged(ExitCode.INTERRUPTED, bad, expecting) is ExitCode.INTERRUPTED
    assert judged(ExitCode.OK, bad, RunSettings()) is ExitCode.OK
    assert judged(ExitCode.OK, None, expecting) is ExitCode.OK


def test_half_the_bandwidth_fails_a_gate_and_the_whole_passes(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(home, "run", {MiB: 100.0, 2 * MiB: 200.0}, within=0.01)  # 10.49 GB/s
    assert expect(capsys, "run", "--least", "1M=10")[0] == 0
    code, text = expect(capsys, "run", "--least", "1M=10", "--least", "2M=21")
    assert code == 1
    assert "# gate     10 GB/s from 1 MiB on: pass (2 cases)" in text
    assert "# gate     21 GB/s from 2 MiB on: fail (2 MiB 10.49)" in text
    assert expect(capsys, "run", "--least", "1M=10.5")[0] == 3  # within its interval
    assert expect(capsys, "run", "--least", "1G=1")[0] == 3


def test_the_topology_of_nccl_gives_the_limit(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(home, "run", {MiB: 10.0}, algorithm="RING")
    xml = '<system><cpu><pci><gpu sm="90"><nvlink count="18"/></gpu></pci></cpu></system>'
    topology = write(tmp_path / "topo.xml", xml)
    _, text = expect(capsys, "run", "--topology", topology, "--all")
    assert "NVLink of a GPU 370.8 GB/s" in text
    assert "ring: 2 S (n-1)/n over NVLink inside a node (RING observed)" in text


@pytest.mark.parametrize("element", ['<net speed="nan"/>', '<gpu sm="90"><nvlink count="x"/></gpu>'])
def test_a_topology_with_a_value_that_is_no_number_is_refused(
    element: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(home, "run", {MiB: 10.0})
    topology = write(tmp_path / "topo.xml", f"<system>{element}</system>")
    assert main(["expect", "run", "--topology", str(topology)]) == 2
    assert "which is no number" in capsys.readouterr().err


def test_a_log_whose_test_died_before_its_first_row_failed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "\nx3000: Test NCCL failure common.cu:958 'unhandled system error'\n"
    head, _, _ = nccl_tests_log({MiB: 30.0}, 8).partition(f"\n{MiB:>12}")
    log = write(tmp_path / "all_reduce_perf.log", head + words)
    code, text = expect(capsys, log)
    assert code == 1
    assert "failed: the test ended with" in text
    assert "# cases    1 FAILED before its first case" in text
    code, text = expect(capsys, log, "--format", "json")
    assert code == 1
    assert "failed" in " ".join(json.loads(text)["notes"])


def test_the_list_says_what_is_not_used_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = expect(capsys, "--list")
    assert code == 0
    assert "labelled 144; busbw / algbw says 128" in text
    assert "NOT USED: " in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nobody",), "no run 'nobody'"),
        (("run", "--reference", "nobody"), "no reference 'nobody'"),
        (("run", "--least", "1M"), "is not SIZE=GB/s"),
        (("run", "--least", "1M=nan"), "is not SIZE=GB/s"),
        (("run", "--least", "1M=0"), "is not SIZE=GB/s"),
        (("run", "--least", "nothing:1M=3"), "unknown operation 'nothing'"),
        (("run", "--topology", "none.xml"), "cannot read none.xml"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    home: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(home, "run", {1024: 10.0})
    assert main(["expect", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_run_is_judged_below_its_own_table(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One reference asks for a thousand times what a machine can do, one for next to nothing. The runs are
    kept in mind for the next.
    """
    words = ["run", "all_reduce", "--backend", "null", "--ranks", "2", "-b", "1M", "-e", "1M", "-n", "8"]
    for name, factor, code, answer in (("much", 1e3, 1, "below, 0%"), ("little", 1e-6, 0, "as expected, ")):
        assert main(words) == 0
        (folder,) = (path for path in home.iterdir() if path.name.startswith("2"))
        save(tuple(reference_of(name, *faster(read_record(folder), factor))), name, home)
        capsys.readouterr()
        assert main([*words, "--expect", name]) == code
        out = capsys.readouterr().out
        assert out.index("# record ") < out.index(answer)
        assert main([*words, "--expect", name, "--format", "json"]) == code
        out, err = capsys.readouterr()
        assert json.loads(out)
        assert answer in err
        assert kept.reading(home, lambda index: len(index.launches())) == 3
        shutil.rmtree(home)


def faster(record: RunRecord, factor: float) -> tuple[RunRecord, dict[CaseKey, tuple[float, ...]]]:
    """The record with so many times the bandwidth, and the times of its cases."""
    results = [
        replace(result, time_ns=result.time_ns / factor, busbw_gb_per_s=result.busbw_gb_per_s * factor)
        for result in record.results
        if result.time_ns and result.busbw_gb_per_s
    ]
    keys = map(key_of, record.plan.cases)
    times = {key: (result.time_ns or 0.0,) for key, result in zip(keys, results, strict=True)}
    return replace(record, results=tuple(results)), times


@pytest.mark.parametrize(
    ("name", "said"),
    [("nothing-like-it", "no reference 'nothing-like-it'"), ("aws/trn1.32xlarge", "has no reference")],
)
def test_an_unknown_reference_is_refused_before_anything_is_measured(
    home: Path, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "all_reduce", "--backend", "null", "--ranks", "2", "--expect", name]) == 2
    assert said in capsys.readouterr().err
    assert not home.exists()


def test_every_reference_of_a_preset_exists(home: Path) -> None:
    named = [(preset, name) for preset in names() for name in read_preset(preset).references]
    assert ("aws/p4de.24xlarge", "aws-p4de-2x8") in named
    for _, name in named:
        assert find(name, home)
