"""Typical mistakes at the prompt: one error line, one hint, and what a hint says to type works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.runs import start

# The words after ``busbw``, and what the error and the hint have to say.
MISTAKES: tuple[tuple[str, str, str], ...] = (
    # names
    ("run allreduce -b 8", "'allreduce'", "`busbw run all_reduce -b 8`"),
    ("run AllGather,sendrecv", "'AllGather'", "`busbw run all_gather,sendrecv`"),
    ("run frobnicate", "'frobnicate'", "use one of: all_reduce, "),
    ("run all_reduce_perf", "'all_reduce_perf'", "`busbw run all_reduce`"),
    ("run allreduce,allgather", "'allreduce'", "`busbw run all_reduce,all_gather`"),
    ("run all_reduce -d flaot", "'flaot'", "`busbw run all_reduce -d float`"),
    ("run all_reduce -o summ", "'summ'", "`busbw run all_reduce -o sum`"),
    ("run all_reduce --preset p5", "no preset 'p5'", "busbw run all_reduce --preset aws/p5"),
    ("run all_reduce --preset aws/p5.48xlrage", "'aws/p5.48xlrage'", "--preset aws/p5.48xlarge"),
    ("presets show nothing-like-it", "'nothing-like-it'", "`busbw presets list`"),
    (
        "expect last --reference aws-p4de-2x9",
        "'aws-p4de-2x9'",
        "`busbw expect last --reference aws-p4de-2x8`",
    ),
    ("show lst", "no run 'lst'", "`busbw show last`"),
    ("show yesterday", "no run 'yesterday'", "`busbw list`"),
    # commands and flags
    ("all_reduce -b 8", "'all_reduce' is an operation", "`busbw run all_reduce -b 8`"),
    ("all_reduce_perf -b 8 -g 2", "nccl-tests", "`busbw nccl-tests all_reduce_perf -b 8 -g 2`"),
    ("nccl-tests allreduce_perf -b 8", "'allreduce_perf'", "busbw nccl-tests all_reduce_perf -b 8`"),
    ("nccom-test -r 2 allreduce", "'allreduce'", "`busbw nccom-test -r 2 all_reduce`"),
    ("shwo last", "'shwo'", "`busbw show last`"),
    ("help run", "'help'", "`busbw run --help`"),
    ("help", "'help'", "`busbw --help`"),
    ("presets aws/p5.48xlarge", "'aws/p5.48xlarge'", "`busbw presets show aws/p5.48xlarge`"),
    ("run all_reduce 1M", "'1M'", "-b 1M"),
    ("presets show", "needs NAME", "`busbw presets show aws/p5.48xlarge@2024-04`"),
    ("frobnicate", "'frobnicate'", "see `busbw --help`"),
    ("run all_reduce --bogus", "'--bogus'", "see `busbw run --help-all`"),
    ("run all_reduce --rank 2", "'--rank'", "`busbw run all_reduce --ranks 2`"),
    ("run all_reduce -g 2", "'-g'", "`busbw run all_reduce --ranks 2`"),
    ("isolate -e 1M", "no flag -e", "`busbw isolate --help-all`"),
    ("run all_reduce --format tabel", "'tabel'", "`busbw run all_reduce --format table`"),
    ("run all_reduce --on slrum -N 2", "'slrum'", "`busbw run all_reduce --on slurm -N 2`"),
    ("list --operation allreduce", "'allreduce'", "`busbw list --operation all_reduce`"),
    ("list --limit ten", "'ten'", "`busbw list --help`"),
    ("run all_reduce -n", "-n needs a value", "`busbw run --help`"),
    ("run all_reduce --budget -5s", "must be positive", "--budget 5s"),
    ("run all_reduce -b 8 -b 16", "-b is given twice", "give -b once"),
    ("cancel", "needs the name of a job", "`busbw jobs`"),
    ("run all_reduce -np 4", "'-np'", "`busbw run all_reduce --ranks 4`"),
    ("run all_reduce --time 00:10:00", "'00:10:00'", "--time-limit 00:10:00"),
    ("run all_reduce -p gpu", "'gpu'", "--on slurm --partition gpu"),
    (
        "run all_reduce --on kubernetes --image i -N 2 --set gpus=8",
        "--set gpus",
        "`busbw run all_reduce --on kubernetes --image i -N 2 --set gpu=8`",
    ),
    ("run all_reduce --on slurm -N 2 --set gpus=8", "--set", "--sbatch-args=--gpus-per-node=8"),
    ("run --op allreduce", "reduction 'allreduce'", "an operation needs no flag"),
    ("expect nofile.log", "there is no file nofile.log", "`busbw list`"),
    # words of other programs
    ("run all_reduce --backend cpu", "'cpu'", "`busbw run all_reduce --backend mpi`"),
    ("run all_reduce --on hosts -H a,b", "'-H'", "`busbw run all_reduce --on hosts --hosts a,b`"),
    ("run all_reduce --hosts a,b", "--hosts needs an engine", "give --on hosts"),
    ("run all_reduce --env NCCL_DEBUG", "'NCCL_DEBUG' is not K=V", "--env NCCL_DEBUG=INFO"),
    ("run all_reduce --on slurm -N 2 --gres gpu:8", "'--gres'", "--sbatch-args='--gres ...'"),
    ("run all_reduce --json", "'--json'", "`busbw run all_reduce --format=json`"),
    ("run all_reduce --output x.csv", "'--output'", "`busbw export last --output FILE`"),
    ("run all_reduce -e 1 GiB", "'GiB'", "as 1GiB"),
    ("status", "'status'", "`busbw jobs`"),
    ("--versoin", "'--versoin'", "`busbw --version`"),
    ("show all_reduce.log", "no run 'all_reduce.log'", "`busbw import all_reduce.log`"),
    ("diagnose notes.txt", "no run and no log in notes.txt", "logs or folders of logs"),
    ("compare broken.yaml", "is not YAML: line 2: ", "indentation"),
    ("nccl-tests", "no test given", "all_reduce_perf"),
    # values and files
    ("run", "no operation", "name one or more of: all_reduce, "),
    ("run all_reduce --on hosts --hostfile no-such-file", "No such file", "name a file"),
    ("import no-such.log", "there is no file no-such.log", "give logs"),
    ("attach last", "was not submitted to an engine", "`busbw jobs`"),
)
LOG = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid 1 on a device  0 [0x01] NVIDIA H100
#  Rank  1 Group  0 Pid 2 on a device  1 [0x02] NVIDIA H100
      8       2     float     sum      -1    10.00    0.00    0.00      0    10.00    0.00    0.00      0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some files, and a home with one run."""
    folder = tmp_path_factory.mktemp("folder")
    (folder / "all_reduce.log").write_text(LOG)
    (folder / "notes.txt").write_text("ask Jo about node 7\n")
    (folder / "broken.yaml").write_text("a: [\n")
    for words in (("import", "all_reduce.log"), ("history",)):  # which makes the index
        assert start(folder / "home", *words, cwd=folder).returncode == 0
    return folder


@pytest.fixture
def kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder / "home"


@pytest.mark.parametrize(("typed", "error", "hint"), MISTAKES, ids=[typed for typed, _, _ in MISTAKES])
def test_a_mistake_gets_one_line_and_a_hint_that_works(
    typed: str, error: str, hint: str, kept: Path, called: Any
) -> None:
    before = sorted(kept.rglob("*"))
    code, out, err = called(kept, *shlex.split(typed))
    lines = err.splitlines()
    assert code in (2, 4), err
    assert out == ""
    assert [line.partition(": ")[0] for line in lines] == ["error", "hint"], err
    assert error in lines[0]
    assert hint in lines[1]
    assert "Errno" not in err
    assert sorted(kept.rglob("*")) == before
    for command in re.findall(r"`busbw ([^`]+)`", lines[1]):
        assert called(kept, *_harmless(shlex.split(command)))[0] not in (2, 4), command


def test_a_flag_like_one_of_the_command_is_not_taken_for_one_of_run(kept: Path, called: Any) -> None:
    _, _, err = called(kept, "hang", "--hosts", "a,b")
    assert err.splitlines()[1] == "hint: did you mean `busbw hang --host a,b`?"


def _harmless(words: list[str]) -> list[str]:
    """The same command, which starts no rank here."""
    if words[0] in ("nccl-tests", "nccom-test"):
        return [*words[:2], "-h"]
    if words[0] == "report":
        return [*words, "--output", "-"]
    return [*words, "--dry-run"] if words[0] == "run" and "--help" not in words else words
