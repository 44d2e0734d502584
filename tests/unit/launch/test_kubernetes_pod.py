"""The ranks of a pod."""

from __future__ import annotations

import subprocess
import sys

from busbw_testing.environ import clean_environ

from busbw.launch.kubernetes.pod import rank_commands

POD = {"JOB_COMPLETION_INDEX": "3", "BUSBW_WORLD_SIZE": "8", "BUSBW_ROOT": "pod-0"}


def test_ranks_follow_the_pods_number() -> None:
    commands = rank_commands(2, ["python3", "-m", "busbw"], POD)
    assert [command.environ["BUSBW_RANK"] for command in commands] == ["6", "7"]
    assert [command.environ["BUSBW_LOCAL_RANK"] for command in commands] == ["0", "1"]
    assert {command.environ["BUSBW_ROOT"] for command in commands} == {"pod-0"}


def run(script: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "busbw.launch.kubernetes.pod", "2", "sh", "-c", script]
    return subprocess.run(
        words, env=clean_environ(**POD), capture_output=True, text=True, timeout=60, check=False
    )


def test_their_lines_come_whole() -> None:
    done = run("echo rank $BUSBW_RANK of $BUSBW_WORLD_SIZE; echo error $BUSBW_RANK >&2")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["rank 6 of 8", "rank 7 of 8"]
    assert sorted(done.stderr.splitlines()) == ["error 6", "error 7"]


def test_the_first_bad_end_is_the_pods_and_others_have_their_last_words() -> None:
    done = run('if [ "$BUSBW_LOCAL_RANK" = 1 ]; then exit 5; else sleep 0.5; echo last words; fi')
    assert done.returncode == 5
    assert done.stdout == "last words\n"


def test_a_killed_rank() -> None:
    assert run('[ "$BUSBW_LOCAL_RANK" = 0 ] || kill -9 $$').returncode == 137
