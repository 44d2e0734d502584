"""``busbw presets check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from busbw_testing.presets import ours

from busbw.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def test_check_takes_references_of_presets_of_the_same_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "u.yaml"
    presets = "a: {extends: aws/p5.48xlarge}, b: {run: {expect: [u/a]}}"
    file.write_text(f"family: u\nsource: s\ndate: d\npresets: {{{presets}}}\n")
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err


def check(body: str, folder: Path) -> int:
    """The exit code of a check of a file with one preset of that body; HERE in it is the file itself."""
    file = folder / "u.yaml"
    own = body.replace("HERE", str(file))
    file.write_text(f"family: u\nsource: s\ndate: d\npresets:\n  a: {{{own}}}\n")
    return main(["presets", "check", str(file)])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("run: {minbytes: purple}", "preset u/a: --minbytes: not a size: 'purple'"),
        ('kubernetes: {gpuu: "8"}', "preset u/a on kubernetes: Kubernetes does not use --set gpuu"),
        ("expects: [net]", "preset u/a: --expect-use 'net' is not FEATURE=VALUE"),
        ("node: {nics: many}", "u.yaml, line 5: presets: a: node: nics: input should be a valid integer"),
        ("launch: {mpi: x}", "preset u/a: --mpi: 'x': Input should be 'auto', 'openmpi'"),
        ("versions: {2026-01: {run: {minbytes: red}}}", "preset u/a@2026-01: --minbytes: not a size: 'red'"),
        ("references: [nosuch]", "preset u/a: references: "),
        ("launch: {hosts: 'a:b'}", "preset u/a: --hosts: 'a:b' is not a host name"),
        ("run: {expect: [nosuch]}", "preset u/a: no reference 'nosuch'"),
        ("launch: {env_file: /nowhere/env}", "preset u/a: env_file: there is no file /nowhere/env"),
        ("expects: [net=infiniband]", "preset u/a: expects: net=infiniband: unknown network"),
        ("launch: {on: slrum}", "presets: a: launch: on: input should be 'hosts', 'slurm'"),
        ("slurm: {on: hosts}", "presets: a: slurm: 'on' is not known"),
        ("launch: {on: slurm, set: [gqu=8]}", "preset u/a on slurm: Slurm does not use --set"),
        ("launch: {topology: [/nowhere/nodes]}", "preset u/a: cannot read --topology /nowhere/nodes"),
        ("launch: {env_file: HERE}", "u.yaml, line 1: 'family:' is not K=V"),
        ("run: {expect: [u/a]}", "preset u/a: preset u/a has no reference"),
        ("kubernetes: {np: 0}", "preset u/a on kubernetes: --ranks 0 is too small"),
        ("slurm: {time_limit: 30m}", "preset u/a on slurm: --time-limit '30m' is not a time"),
        ("abstract: true", "u.yaml has no usable preset"),
        ("since: 2026-02, versions: {2025-01: {}}", "has a version 2025-01, before its start"),
    ],
)
def test_check_reads_values_as_flags_would(
    body: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert check(body, tmp_path) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "hint:" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a: {env: {A=B: x}}", "line 5: presets: a: env: A=B: 'A=B' is no name of a variable"),
        ('a: {env: {A: "x\\0y"}}', "presets: a: env: A: 'x\\x00y' has a character that a variable cannot"),
        ("a: {launch: {ranks_per_node: 0}}", "presets: a: launch: ranks_per_node: '0' is no count"),
        ("a: {run: {minbytes: [8, 16]}}", "presets: a: run: minbytes: it is not a single value"),
        ("a: {launch: {preset: [b]}}", "'preset' is not known\nhint: use the preset's own `extends:`"),
        ("a: {run: {hunt: zz}}", "a: run: 'hunt' is not known\nhint: use one of: agg_iters, arrival"),
        ("a: {notes: %s}" % ("[" * 2000 + "]" * 2000), "is nested too deeply"),
        ("a: {abstract: !!bool x}", "ours.yaml is not YAML"),
        ("a/b: {}", "is no name for --preset"),
    ],
)
def test_check_and_run_refuse_a_file_in_the_same_words(
    body: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = ours(tmp_path, monkeypatch, f"family: u\nsource: s\ndate: d\npresets:\n  {body}\n")
    told = []
    for words in (["presets", "check", str(file)], ["run", "all_reduce", "--preset", "u/a", "--dry-run"]):
        assert main(words) == 2
        told.append(capsys.readouterr().err)
    assert message in told[0]
    assert str(file) in told[0]
    assert "\nhint: " in told[0]
    assert told[1] == told[0]
