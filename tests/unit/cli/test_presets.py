from __future__ import annotations

import json
from typing import TYPE_CHECKING

from busbw.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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


def test_the_last_preset_is_on_top(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("family: ours\npresets: {small: {run: {maxbytes: 16}, env: {NCCL_NET: Socket}}}")
    monkeypatch.setenv("BUSBW_PRESET_FILES", str(file))
    words = ("--preset", "generic/classic", "--preset", "ours/small", "--backend", "null")
    sizes, commands = plan_of(capsys, *words)
    assert sizes == [4, 8, 16]
    assert "NCCL_NET=Socket" in commands


def test_list_show_and_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["presets", "list"]) == 0
    assert "aws/p5.48xlarge" in capsys.readouterr().out
    assert main(["presets", "show", "aws/p5.48xlarge@2024-04"]) == 0
    out = capsys.readouterr().out
    assert "FI_EFA_USE_DEVICE_RDMA=1" in out
    assert "note" in out
    file = tmp_path / "x.yaml"
    file.write_text("family: x\npresets: {a: {summary: s}}")
    assert main(["presets", "check", str(file)]) == 0
    assert "1 presets" in capsys.readouterr().out
    file.write_text("family: x\npresets: {a: {sumary: s}}")
    assert main(["presets", "check", str(file)]) == 2
    assert "'sumary' is not known" in capsys.readouterr().err


def test_a_preset_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "all_reduce", "--preset", "aws/p5", "--dry-run"]) == 2
    err = capsys.readouterr().err
    assert "no preset 'aws/p5'" in err
    assert "aws/p5.48xlarge" in err
