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
        ("run: {minbytes: purple}", "preset u/a: -b: not a size: 'purple'"),
        ("slurm_run: {minbytes: purple}", "preset u/a on slurm: -b: not a size: 'purple'"),
        ('kubernetes: {gpuu: "8"}', "preset u/a on kubernetes: --set gpuu is not known"),
        ("expects: [net]", "preset u/a: --expect-use 'net' is not FEATURE=VALUE"),
        ("node: {nics: many}", "preset a: node: nics: 'many' is no number of them"),
        ("launch: {nodes: many}", "preset u/a: nodes: 'many' is no number of nodes"),
        ("launch: {mpi: x}", 'preset u/a: Invalid value "x" for --mpi'),
        ("versions: {2026-01: {run: {minbytes: red}}}", "preset u/a@2026-01: -b: not a size: 'red'"),
        ("extends: a", "extends itself: u/a -> u/a"),
        ("extends: aws/p5", "extends 'aws/p5', which does not exist"),
        ("notes: [slow, but right]", "a comma begins the note 'but right'"),
        ("expects: [1]", "expects: 1 is not text"),
        ("node: {gpuz: 3}", "preset a: node: 'gpuz' is not known"),
        ("references: [nosuch]", "preset u/a: references: "),
        ("launch: {hosts: 'a:b'}", "preset u/a: --hosts: 'a:b' is not a host name"),
        ("hosts: {hosts: 'a b'}", "preset u/a on hosts: --hosts: 'a b' is not a host name"),
        ("run: {expect: [nosuch]}", "preset u/a: no reference 'nosuch'"),
        ("launch: {env_file: /nowhere/env}", "preset u/a: env_file: there is no file /nowhere/env"),
        (
            "hosts: {hostfile: /nowhere/hosts}",
            "preset u/a on hosts: hostfile: there is no file /nowhere/hosts",
        ),
        (
            "expects: [net=infiniband]",
            "preset u/a: expects: net=infiniband: no network is known by that name",
        ),
        ("tool: hammer", "tool 'hammer' is not known"),
        ("launch: {on: slrum}", "preset a: launch: on: 'slrum' is no engine"),
        ("slurm: {on: hosts}", "preset a: slurm: 'on' is no setting"),
        ("launch: {on: slurm, nodes: x}", "preset u/a on slurm: nodes: 'x' is no number of nodes"),
        ("launch: {on: slurm, set: [gqu=8]}", "preset u/a on slurm: --set gqu means nothing on Slurm"),
        ("hosts: {set: [gqu=8]}", "preset u/a on hosts: --set gqu=8: no such value for hosts"),
        ("pbs: {set: [gqu=8]}", "preset u/a on pbs: --set 'gqu=8' is not known to PBS jobs"),
        ("batch: {set: [gqu=8]}", "preset u/a on batch: --set 'gqu=8' is not known to AWS Batch jobs"),
        ("launch: {on: kubernetes, set: [gqu=8]}", "on kubernetes: --set gqu is not known to Kubernetes"),
        ("launch: {set: [gqu=8]}", "preset u/a: --set gqu=8 means nothing to any engine"),
        ("launch: {topology: [/nowhere/nodes]}", "preset u/a: cannot read --topology /nowhere/nodes"),
        ("launch: {env_file: HERE}", "u.yaml, line 1: 'family:' is not K=V"),
        ("run: {expect: [u/nothere]}", "preset u/a: no reference 'u/nothere'"),
        ("run: {expect: [u/a]}", "preset u/a: preset u/a has no reference"),
        ("kubernetes: {np: 17, slots: 8, replicas: 2}", "on kubernetes: --ranks 17, but --ranks-per-node 8"),
        ("kubernetes: {np: 0}", "preset a: kubernetes: np: 0 is no count"),
        ("launch: {time_limit: soon}", "preset u/a: --time-limit 'soon' means nothing to any engine"),
        ("slurm: {time_limit: 30m}", "preset u/a on slurm: --time-limit '30m' is no time"),
        ("pbs: {time_limit: soon}", "preset u/a on pbs: --time-limit 'soon' is no time"),
        ("batch: {time_limit: soon}", "preset u/a on batch: --time-limit 'soon' is no time"),
        ("launch: {on: kubernetes, time_limit: '20:00'}", "on kubernetes: --time-limit '20:00' is no time"),
    ],
)
def test_check_reads_values_as_flags_would(
    body: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert check(body, tmp_path) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "hint:" in err


@pytest.mark.parametrize("limit", ["30", "20:00", "1:30:00", "2-12", "2-12:30:00", "UNLIMITED"])
def test_check_takes_times_as_slurm_writes_them(
    limit: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "u.yaml"
    body = f"{{extends: generic/full, launch: {{on: slurm, time_limit: '{limit}'}}}}"
    file.write_text(f"family: u\nsource: s\ndate: d\npresets: {{a: {body}}}\n")
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("launch: {nodes: 2, ranks_per_node: 2}, run: {ranks: 9}", "preset u/a: --ranks 9, but --ranks-per"),
        ("launch: {nodes: 2, ranks_per_node: 2}, run: {ranks: 1}", "preset u/a: --ranks 1 on 2 nodes"),
        ("launch: {nodes: '2,4'}, run: {ranks: 3}", "preset u/a: --ranks 3 on 4 nodes"),
        ("slurm: {nodes: 2, ranks_per_node: 2}, slurm_run: {ranks: 3}", "on slurm: --ranks 3, but --ranks"),
        (
            "slurm: {set: [slots=2, replicas=2]}, run: {ranks: 9}",
            "on slurm: --ranks 9, but --ranks-per-node 2",
        ),
        ("pbs: {nodes: 4}, run: {ranks: 9}", "on pbs: --ranks 9 on 4 nodes, 3 on each, leave 1"),
        ("kubernetes: {np: 2, replicas: 3}", "on kubernetes: --ranks 2 on 3 nodes"),
        ("launch: {on: hosts, hosts: 'a,b', nodes: 3}", "on hosts: -N 3, but 2 hosts"),
        ("launch: {hosts: 'a:4', nodes: 2, ranks_per_node: 2}", "preset u/a: -N 2, but 1 host"),
        ("hosts: {hosts: 'a:4,b:4'}, run: {ranks: 9}", "on hosts: --ranks 9, but 8 slots on 2 hosts"),
        ("launch: {hosts: 'a:4,b:4', nodes: 2}, run: {ranks: 4}", "--ranks 4 fill the slots of 1 of 2 nodes"),
        ("launch: {hosts: 'a,b', ranks_per_node: 4}, run: {ranks: 6}", "--ranks 6, but --ranks-per-node 4"),
    ],
)
def test_check_refuses_counts_that_no_engine_would_place(
    body: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert check(body, tmp_path) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "body",
    [
        "kubernetes: {np: 6, slots: 8, replicas: 2}",  # slots are what a pod may have
        "launch: {nodes: 2, ranks_per_node: 8}, run: {ranks: 6}, engines: [kubernetes]",
        "launch: {nodes: '2,4', ranks_per_node: 8}",
        "launch: {hosts: 'a:4,b', nodes: 2}, run: {ranks: 12}",  # b may have eight GPUs
        "hosts: {hosts: 'a,b'}, run: {ranks: 9}",
        "run: {ranks: 1}",
    ],
)
def test_check_takes_counts_that_an_engine_may_place(
    body: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "u.yaml"
    file.write_text(f"family: u\nsource: s\ndate: d\npresets:\n  a: {{{body}}}\n")
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err


def test_check_takes_a_network_that_the_preset_asks_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "u.yaml"
    file.write_text(
        "family: u\nsource: s\ndate: d\npresets:\n  a: {expects: [net=Mine, nics=0], env: {NCCL_NET: mine}}\n"
    )
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err


def test_check_takes_what_extends_a_shipped_preset(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "family: u\nsource: s\ndate: d\npresets: {a: {extends: aws/p5.48xlarge, env: {NCCL_DEBUG: WARN}}}"
    file = ours(tmp_path, monkeypatch, text)
    assert main(["presets", "check", str(file)]) == 0
    assert "1 preset of family u is well formed" in capsys.readouterr().out


MEANT_FOR_NOBODY = (
    "asked: ranks=zz",
    "hunt: zz",
    "stop_after: deep",
    "deliver: /x",
    "presets_used: [x]",
    "overridden: [x]",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a: {env: {A=B: x}}", "preset a: env: 'A=B' is no name of a variable"),
        ("a: {slurm_env: {1A: x}}", "preset a: slurm_env: '1A' is no name of a variable"),
        ("a: {env: {'': x}}", "preset a: env: '' is no name of a variable"),
        ("a: {env: {1: x}}", "preset a: env: 1 is no name of a variable"),
        ("a: {unset: [A=B]}", "preset a: unset: 'A=B' is no name of a variable"),
        ('a: {env: {A: "x\\0y"}}', "presets: a: env: A: 'x\\x00y' holds a zero byte"),
        ('a: {env: {A: "x\\ud800"}}', "env: A: 'x\\ud800' holds '\\ud800', which is no character"),
        ('a: {env: {"A\\0": x}}', "presets: a: env: 'A\\x00' holds a zero byte"),
        ("a: {kubernetes: {1: x}}", "preset a: kubernetes: 1 is no setting"),
        ("a: {launch: {ranks_per_node: 0}}", "preset a: launch: ranks_per_node: 0 is no count"),
        ("a: {run: {ranks: '-1'}}", "preset a: run: ranks: '-1' is no count"),
        ("a: {env: {A: 0x10}}", "preset a: env: A is not text\nhint: put its value in quotes, as it stands"),
        ("a: {slurm: {ranks_per_node: '-3'}}", "preset a: slurm: ranks_per_node: '-3' is no count"),
        ("a: {kubernetes: {slots: 0}}", "preset a: kubernetes: slots: 0 is no count"),
        ("a: {run: {minbytes: [8, 16]}}", "preset a: run: minbytes: [8, 16] is not one value"),
        ("a: {run: {stats: p50}}", "preset a: run: stats is not a list"),
        ("a: {launch: {set: [1]}}", "preset a: launch: set: 1 is not text"),
        ("a: {launch: {time_limit: 2026-01-01}}", "preset a: launch: time_limit is not text"),
        ("a: {launch: {preset: [b]}}", "preset a: launch: 'preset' is no setting"),
        ("a: {launch: {env: [A=1]}}", "preset a: launch: 'env' is no setting"),
        ("a: {run: {expect_use: [net=ib]}}", "preset a: run: 'expect_use' is no setting"),
        *(
            (f"a: {{run: {{{word}}}}}", f"preset a: run: '{word.partition(':')[0]}' is no setting")
            for word in MEANT_FOR_NOBODY
        ),
        ("a: {run: &n {minbytes: *n}}", "presets: a: run: minbytes: an anchor stands within itself"),
        ("a: &x {versions: {2026-01: *x}}", "a: versions: 2026-01: an anchor stands within itself"),
        ("a: {notes: %s}" % ("[" * 2000 + "]" * 2000), "is nested too deeply"),
        ("a: {summary: 2026-13-01}", "ours.yaml, line 5: 2026-13-01 is no date: month must be in 1..12"),
        (
            "a: &a {env: {X: '1'}}\n  b: {<<: *a, summary: 2026-13-01}",
            "ours.yaml, line 6: 2026-13-01 is no date: month must be in 1..12",
        ),
        ("a: {abstract: !!bool x}", "ours.yaml, line 5: x is no truth value"),
        ("a: {notes: [x, !!int y]}", "ours.yaml, line 5: y is no number: invalid literal for int()"),
        ("a: {versions: {2026-01: {extends: b}}}", "version 2026-01: 'extends' cannot differ"),
        ("a: {versions: {2026-01: {since: 2025-01}}}", "version 2026-01: 'since' cannot differ"),
        ("a: {versions: {2026-01: {versions: {}}}}", "version 2026-01: 'versions' cannot differ"),
        ("a: {versions: {soon: {}}}", "preset a: 'soon' is no date of values"),
        ("a: {since: soon}", "preset a: 'soon' is no date of values"),
        ("a: {since: 2026-02, versions: {2025-01: {}}}", "has a version 2025-01, before it was there"),
        ("a: {abstract: 'no'}", "preset a: abstract: 'no' is neither true nor false"),
        ("a: {extends: ''}", "preset a: extends names no preset"),
        ("a: {node: {gpus: [8]}}", "preset a: node: gpus: [8] is no number of them"),
        ("a: {node: {gpu: 8}}", "preset a: node: gpu is not text"),
        *(
            (f"{name}: {{}}", "is no name for --preset")
            for name in ("a/b", "a@b", "''", "1", "a b", "-a", "null")
        ),
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
