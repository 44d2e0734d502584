"""Whatever a user sets is data: executed for real, nothing of it is taken for a command."""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

PIECES = (
    *(" ", "  ", "\t", "\n", "'", '"', "\\", "\\n", "`touch /tmp/planted`", "$(touch /tmp/planted)"),
    *("${HOME}", "$HOME", "; touch /tmp/planted;", "| touch /tmp/planted", "&& touch /tmp/planted"),
    *("> /tmp/planted", "#SBATCH --nodes=1", "\n#SBATCH --nodes=1\n", "%j", "%", "*", "~", "!", "{a,b}"),
    *("=", ",", ":", "ä", "word"),
)
PRINT = (
    "import json, os, sys;"
    " print(json.dumps([sys.argv[1:], {k: os.environ[k] for k in os.environ if k[:5] == 'DATA_'}]))"
)
RUN = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", "--on", "slurm")


def nasty(chance: random.Random) -> str:
    return "".join(chance.choices(PIECES, k=chance.randint(1, 6)))


def assert_nothing_planted(cluster: SlurmCluster) -> None:
    for host in cluster.hosts.names:
        assert "planted" not in cluster.run("ls", "/tmp", host=host)


def test_words_and_variables_arrive_as_they_were(front: Any, cluster: SlurmCluster) -> None:
    chance = random.Random(1)
    words = [nasty(chance) for _ in range(100)]
    variables = {f"DATA_{number}": nasty(chance) for number in range(100)}
    given = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    command = ("exec", "--on", "slurm", "-N", "2", *given, "--", sys.executable, "-c", PRINT, *words)
    done = front.run(*command)
    assert done.code == 0, done
    printed = [json.loads(line) for line in done.out.splitlines()]
    assert printed == [[words, variables]] * 2
    assert_nothing_planted(cluster)


def test_any_folder_and_python_will_do(front: Any, cluster: SlurmCluster) -> None:
    front.home = (
        front.shared / f'it\'s "quoted" $(touch /tmp/planted)\nb %j %x a,b:c {random.getrandbits(32):x}'
    )
    python = front.shared / "my $(touch planted) python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    given = ("--env", "NCCL_DEBUG=INFO", "--python", python)
    done = front.run(*RUN, "-N", "2", *given, "--srun-args", "--comment='$(touch /tmp/planted) a b'")
    assert done.code == 0, done
    assert front.record()["status"] == "complete"
    assert (front.folder() / f"log/slurm-{front.job_id()}.out").exists()  # it was shared
    assert_nothing_planted(cluster)


def test_folders_of_libraries_come_before_what_a_node_has(front: Any, cluster: SlurmCluster) -> None:
    script = front.shared / "setup.sh"
    script.write_text("export LD_LIBRARY_PATH=/there/lib")
    show = "import os; print(os.environ['LD_LIBRARY_PATH'])"
    folders = ("--library-path", "/a $(touch /tmp/planted)", "--library-path", "/c")
    words = ("exec", "--on", "slurm", "-N", "2", *folders)
    command = ("--", sys.executable, "-c", show)
    done = front.run(*words, "--setup-script", script, *command)
    assert (done.code, done.out.split("\n")[:2]) == (0, ["/a $(touch /tmp/planted):/c:/there/lib"] * 2), done
    done = front.run(*words, "--sbatch-args=--export=NONE", *command, LD_LIBRARY_PATH="/login/lib")
    assert (done.code, done.out.split("\n")[:2]) == (0, ["/a $(touch /tmp/planted):/c"] * 2), done
    assert_nothing_planted(cluster)
