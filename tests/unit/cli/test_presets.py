from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from busbw_testing.facts import answer
from busbw_testing.presets import ours

from busbw.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def plan_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[int], str]:
    """Sizes of the planned cases, and the commands that would be started."""
    assert main(["run", "all_reduce", *words, "--ranks", "2", "--dry-run", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    return sorted({case["requested_bytes"] for case in shown["plan"]["cases"]}), " ".join(shown["commands"])


def test_a_preset_stands_under_flags_and_over_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, commands = plan_of(capsys, "--preset", "coreweave/h100", "--backend", "null")
    assert sizes == [512 << 20, 1 << 30, 2 << 30, 4 << 30, 8 << 30]
    assert "NCCL_IB_HCA=ibp" in commands
    sizes, commands = plan_of(
        capsys, "--preset", "coreweave/h100", "--backend", "null", "-e", "1G", "--env", "NCCL_IB_HCA=mlx5"
    )
    assert sizes == [512 << 20, 1 << 30]
    assert "NCCL_IB_HCA=mlx5" in commands
    assert "ibp " not in commands
    monkeypatch.setenv("BUSBW_MINBYTES", "4G")
    assert plan_of(capsys, "--preset", "coreweave/h100", "--backend", "null")[0] == [4 << 30, 8 << 30]


def test_folders_of_libraries_add_up_and_the_users_come_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours(tmp_path, monkeypatch, "family: ours\npresets: {nccl: {library_path: [/ours/nccl]}}")
    words = ["run", "all_reduce", "--on", "pbs", "--preset", "ours/nccl"]
    words += ["--preset", "alcf/polaris-recommended"]
    assert main([*words, "--library-path", "/mine", "--library-path", "/too", "--dry-run"]) == 0
    plugin = "/soft/libraries/aws-ofi-nccl/v1.6.0/lib"
    assert f" /mine:/too:/ours/nccl:/soft/libraries/hwloc/lib:{plugin} " in capsys.readouterr().out


def test_presets_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets", "list"]) == 0
    assert "aws/p5.48xlarge" in capsys.readouterr().out
    assert main(["presets", "show", "aws/p5.48xlarge@2024-04"]) == 0
    out = capsys.readouterr().out
    assert "FI_EFA_USE_DEVICE_RDMA=1" in out
    assert "note" in out


def test_a_user_s_preset_is_on_top_wherever_it_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours(
        tmp_path, monkeypatch, "family: ours\npresets: {mine: {env: {FI_PROVIDER: tcp}, run: {maxbytes: 16}}}"
    )
    for pair in (("ours/mine", "generic/classic"), ("generic/classic", "ours/mine")):
        words = [word for name in pair for word in ("--preset", name)]
        assert plan_of(capsys, *words, "--backend", "null")[0] == [4, 8, 16]
    words = ["--preset", "ours/mine", "--preset", "aws/p5.48xlarge", "--backend", "null"]
    assert "FI_PROVIDER=tcp" in plan_of(capsys, *words)[1]


def test_what_a_variable_takes_the_place_of_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "TRACE")
    words = ["run", "all_reduce", "--ranks", "2", "--backend", "null", "--dry-run"]
    assert main([*words, "--preset", "aws/p5.48xlarge", "--env", "FI_PROVIDER=tcp"]) == 0
    err = capsys.readouterr().err
    assert "NCCL_DEBUG=INFO, preset aws/p5.48xlarge's, replaces this shell's TRACE" in err
    assert "FI_PROVIDER=tcp, --env's, replaces preset aws/p5.48xlarge's efa" in err
    assert err.count("replaces") == 2


def test_the_record_names_presets_with_their_dates_and_what_they_took_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "TRACE")
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    words = ["run", "all_reduce", "--ranks", "2", "--backend", "null", "--world", "nccl", "--no-preflight"]
    words += ["-b", "8", "-e", "8", "-n", "2", "-c", "0"]
    assert main([*words, "--preset", "aws/p5.48xlarge@2026-02"]) == 0, capsys.readouterr().err
    (record,) = tmp_path.glob("*/run.json")
    settings = json.loads(record.read_text())["settings"]
    assert settings["presets_used"] == ["aws/p5.48xlarge@2026-02"]
    assert settings["overridden"] == [
        "NCCL_DEBUG=INFO, preset aws/p5.48xlarge@2026-02's, replaces this shell's TRACE"
    ]


def test_a_library_path_on_this_host(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/here/lib")
    words = ("--backend", "null", "--preset", "alcf/polaris-3")
    folders = "/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib:/here/lib "
    assert f"LD_LIBRARY_PATH={folders}" in plan_of(capsys, *words)[1]
    assert f"LD_LIBRARY_PATH=/mine:{folders}" in plan_of(capsys, *words, "--library-path", "/mine")[1]
    assert "LD_LIBRARY_PATH=/all " in plan_of(capsys, *words, "--env", "LD_LIBRARY_PATH=/all")[1]


def test_the_engine_that_a_preset_names_counts_as_if_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All that the preset below it says of that engine holds, too; a typed one wins."""
    answer(monkeypatch)
    body = "{extends: coreweave/gb200-nvl72, launch: {on: slurm}}"
    file = ours(tmp_path, monkeypatch, f"family: u\nsource: s\ndate: d\npresets: {{a: {body}}}")
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err
    assert "1 preset of family u is well formed" in capsys.readouterr().out
    words = ["run", "all_reduce", "--preset", "u/a", "--dry-run"]
    assert main(words) == 0, capsys.readouterr().err
    named = capsys.readouterr().out
    assert "#SBATCH --segment=" in named
    assert main(["run", "all_reduce", "--preset", "coreweave/gb200-nvl72", "--on", "slurm", "--dry-run"]) == 0
    assert capsys.readouterr().out == named
    assert main([*words, "--on", "kubernetes", "--image", "x"]) == 0, capsys.readouterr().err
    assert "kind: MPIJob" in capsys.readouterr().out


def test_a_preset_of_accelerators_that_busbw_cannot_drive_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "all_reduce", "--preset", "aws/trn1.32xlarge"]) == 2
    err = capsys.readouterr().err
    assert "preset aws/trn1.32xlarge needs another tool: `busbw run`" in err
    assert "`busbw nccom-test`" in err


@pytest.mark.parametrize(
    ("flag", "count"), [("--ranks-per-node", "-3"), ("--segment", "0"), ("--ranks", "0")]
)
def test_no_engine_starts_less_than_one(flag: str, count: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["run", "all_reduce"], ["exec"]):
        assert main([*command, "--on", "hosts", f"{flag}={count}", "--dry-run"]) == 2
        assert capsys.readouterr().err == f"error: {flag} {count} is too small\nhint: give 1 or more\n"


def test_an_abstract_preset_is_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours(tmp_path, monkeypatch, "family: u\npresets: {a: {abstract: true}, b: {extends: a}}")
    for command in (["run", "all_reduce"], ["exec", "--on", "hosts"]):
        assert main([*command, "--preset", "u/a", "--dry-run"]) == 2
        err = capsys.readouterr().err
        assert "error: preset u/a is abstract: other presets extend it\n" in err
        assert "hint: use one that extends it (`busbw presets list`)" in err
    assert main(["run", "all_reduce", "--preset", "coreweave/common@2025-07", "--dry-run"]) == 2
    assert "preset coreweave/common is abstract" in capsys.readouterr().err
    assert main(["presets", "show", "u/a"]) == 0
