"""Launches in turn inside pods: real processes as pods, real commands as ranks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from busbw_testing.environ import clean_environ

from busbw.launchers.in_turn import VARIABLE, Mark, Plan, Start, Turn, command, environment, read_mark

STRANGE = "a  b'c\"d $(PATH) $$ $HOME `id` \\ ;\nsecond line"


def shell(text: str, **environ: str) -> Start:
    return Start(("sh", "-c", text, "sh", "--deliver=HERE"), environ)


def plan(starts: Sequence[Start], order: Sequence[int], *, pods: int = 1, limit: float | None = None) -> Plan:
    turns = tuple(Turn(start, f"/run/{number:04}") for number, start in enumerate(order, 1))
    return Plan(pods, "127.0.0.1", 30.0, limit, tuple(starts), turns)


def pod(made: Plan, place: int = 0, **environ: str) -> subprocess.Popen[str]:
    own = {VARIABLE: made.to_json(), "JOB_COMPLETION_INDEX": str(place), "BUSBW_TOKEN": "t", **environ}
    return subprocess.Popen(
        [sys.executable, "-m", "busbw.launchers.in_turn"],
        env=clean_environ(**own),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, list[Mark], list[str]]:
    """Exit code, marks, and the lines between them, each behind the number of its turn."""
    out, _ = process.communicate(timeout=60)
    marks, lines, turn = [], [], "-"
    for line in out.splitlines():
        if (mark := read_mark(line)) is not None:
            marks.append(mark)
            turn = str(mark.turn) if mark.what in ("begin", "late") else "-"
        else:
            lines.append(f"{turn} {line}")
    return process.returncode, marks, lines


def codes(marks: Sequence[Mark]) -> list[dict[int, int]]:
    return [{place: end.code for place, end in mark.ends.items()} for mark in marks if mark.what == "end"]


def test_a_plan_comes_back_as_it_was() -> None:
    made = plan([shell("exit", A=STRANGE)], [0, 0], limit=1.5)
    assert Plan.from_json(made.to_json()) == made


def test_a_turn_gets_what_a_pod_of_its_own_would_have() -> None:
    made = plan([shell("x", A=STRANGE, HOME="/own"), shell("x")], [0, 1])
    own = {VARIABLE: "...", "HOME": "/root", "PATH": "/bin", "BUSBW_TOKEN": "t"}
    assert environment(made, 0, own) == {"HOME": "/own", "PATH": "/bin", "BUSBW_TOKEN": "t-0", "A": STRANGE}
    assert environment(made, 1, own) == {"HOME": "/root", "PATH": "/bin", "BUSBW_TOKEN": "t-1"}
    assert command(made, 1) == ("sh", "-c", "x", "sh", "--deliver=/run/0002")


def test_turns_are_new_processes_in_order_whatever_becomes_of_them() -> None:
    say = shell('printf "%s|" "$A" "$1"; echo', A=STRANGE)
    die, shot = shell("echo dying; exit 3"), shell("kill -9 $$")
    nowhere = Start(("/no/such/program",), {})
    code, marks, lines = ended(pod(plan([say, die, shot, nowhere], [0, 1, 2, 3, 0])))
    assert code == 0
    assert [(mark.turn, mark.what) for mark in marks] == [
        (turn, what) for turn in range(5) for what in ("begin", "end")
    ]
    assert codes(marks) == [{0: 0}, {0: 3}, {0: 137}, {0: 128}, {0: 0}]
    said = f"{STRANGE}|--deliver=/run/0001|".splitlines()
    assert lines[:2] == [f"0 {said[0]}", f"0 {said[1]}"]
    assert lines[2:4] == ["1 dying", '3 exec: "/no/such/program": No such file or directory']
    assert lines[5].endswith("--deliver=/run/0005|")


def test_the_environment_is_the_pods_own() -> None:
    """Not what Python adds to its own in the C locale (LC_CTYPE)."""
    _, _, lines = ended(pod(plan([Start(("env",), {})], [0]), LC_ALL="C", X="1"))
    names = {line[2:].partition("=")[0] for line in lines}
    assert {"X", "LC_ALL", "BUSBW_TOKEN", "JOB_COMPLETION_INDEX"} <= names
    assert not names & {"LC_CTYPE", VARIABLE}


def test_a_turn_that_does_not_end_is_ended_with_all_that_it_started() -> None:
    stubborn = shell(
        "trap 'echo last words; exit 7' TERM; setsid sleep 987 & echo here; while :; do sleep 0.1; done"
    )
    code, marks, lines = ended(
        pod(plan([stubborn, shell("pgrep -f '[s]leep 987'; echo next")], [0, 1], limit=1.0))
    )
    assert code == 0
    assert [mark.what for mark in marks] == ["begin", "late", "end", "begin", "end"]
    assert marks[2].ends[0].late
    assert marks[2].ends[0].code == 7
    assert 1.0 <= marks[2].ends[0].seconds < 3.0
    assert [line for line in lines if line != "0 Terminated"] == ["0 here", "0 last words", "1 next"]


def test_what_hangs_twice_in_a_row_is_not_tried_again() -> None:
    hang, good = shell("exec sleep 60"), shell("exit")
    _, marks, _ = ended(pod(plan([hang, good], [0, 1, 1, 0, 0, 1], limit=0.3)))
    assert [mark.what for mark in marks if mark.what in ("late", "skip")] == ["late", "late", "skip"]
    assert marks[-3].turn == 4
    assert marks[-1].turn == 5


def test_told_to_end_it_ends_the_turn_and_begins_no_other() -> None:
    started = pod(plan([shell("trap 'echo last words; exit 1' TERM; echo here; sleep 30 & wait")], [0, 0]))
    assert started.stdout is not None
    while "here" not in started.stdout.readline():
        pass
    started.send_signal(signal.SIGTERM)
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 130
    assert "last words" in out
    assert out.count('"begin"') == 0


def test_no_pod_is_in_another_turn(tmp_path: Path) -> None:
    """One pod is slower in every turn, and each writes when it begins and ends."""
    tell = f'echo "$BUSBW_TOKEN begin $JOB_COMPLETION_INDEX" >>{tmp_path}/all; sleep $SLOW; '
    tell += f'echo "$BUSBW_TOKEN end $JOB_COMPLETION_INDEX" >>{tmp_path}/all'
    made = plan([shell(tell)], [0] * 4, pods=3)
    pods = [pod(made, place, SLOW=slow) for place, slow in enumerate(("0", "0.5", "0.2"))]
    done = [ended(each) for each in pods]
    assert [code for code, _, _ in done] == [0, 0, 0]
    assert codes(done[0][1]) == [{0: 0, 1: 0, 2: 0}] * 4
    turns = [line.split()[0] for line in (tmp_path / "all").read_text().splitlines()]
    assert turns == sorted(turns)
    assert turns == [f"t-{turn}" for turn in range(4) for _ in range(6)]


def test_where_a_turn_fails_in_one_pod_the_others_are_not_waited_for() -> None:
    """As ranks of a job of their own: a rank that waits for a dead one is ended after its last words."""
    die = '[ "$JOB_COMPLETION_INDEX" = 0 ] || exit 9; trap "echo told; exit 6" TERM; sleep 60 & wait'
    made = plan([shell(die), shell("echo good")], [0, 1], pods=2)
    began_s = time.monotonic()
    first, second = (ended(each) for each in (pod(made, 0), pod(made, 1)))
    assert time.monotonic() - began_s < 20.0
    assert first[0] == second[0] == 0
    assert codes(first[1]) == [{0: 6, 1: 9}, {0: 0, 1: 0}]
    assert first[1][1].ends[1].seconds < first[1][1].ends[0].seconds
    assert first[1][1].lost == ()
    assert first[2] == ["0 told", "1 good"]


def test_all_pods_keep_the_limit() -> None:
    hang = shell('[ "$JOB_COMPLETION_INDEX" = 0 ] || sleep 60')
    made = plan([hang, shell("echo good")], [0, 1, 0, 0], pods=2, limit=1.0)
    first, second = (ended(each) for each in (pod(made, 0), pod(made, 1)))
    assert [mark.what for mark in first[1]] == ["begin", "end", "begin", "end", "begin", "end", "skip"]
    assert first[1][1].ends[1].late
    assert not first[1][1].ends[0].late
    assert second[1][-1].what == "skip"


def test_a_pod_that_is_lost_is_named_and_ends_the_list() -> None:
    made = plan([shell("sleep 3")], [0, 0], pods=2)
    first, second = pod(made, 0), pod(made, 1)
    assert second.stdout is not None
    while '"begin"' not in second.stdout.readline():
        pass
    time.sleep(0.5)
    second.kill()
    second.communicate()
    assert first.stdout is not None
    lines = []
    while (mark := read_mark(line := first.stdout.readline())) is None or mark.what != "end":
        lines.append(line)
    assert mark.lost == (1,)
    assert any(line.startswith("busbw: pod 1: the process ended") for line in lines)
    first.terminate()  # as the job's controller does
    first.communicate(timeout=30)
    assert first.returncode == 130


def rank(folder: Path) -> tuple[str, ...]:
    words = ("run", "all_reduce", "-b", "1K", "-e", "1K", "--backend", "null", "--world", "nccl")
    return (sys.executable, "-m", "busbw", *words, "--format=jsonl", f"--deliver={folder}")


@pytest.mark.parametrize("delays", [("0", "1.5"), ("1.5", "0")])
def test_ranks_of_a_turn_meet_those_of_the_same_turn(tmp_path: Path, delays: tuple[str, str]) -> None:
    """busbw's own ranks; in one of two pods they take longer to start, and to end."""
    root = {"BUSBW_ROOT": "127.0.0.1", "BUSBW_WORLD_SIZE": "2", "BUSBW_CONNECT_TIMEOUT": "60"}
    slow = ("sh", "-c", 'sleep "$DELAY"; "$@"; busbw_code=$?; sleep "$DELAY"; exit $busbw_code', "sh")
    starts = [Start((*slow, *rank(tmp_path / "x")), {**root, "A": name}) for name in ("one", "two")]
    made = plan(starts, [0, 1, 1], pods=2)
    pods = [pod(made, place, DELAY=delay) for place, delay in enumerate(delays)]
    done = [ended(each) for each in pods]
    assert codes(done[0][1]) == [{0: 0, 1: 0}] * 3
    headers = [json.loads(line[2:]) for line in done[0][2] if '"event":"header"' in line]
    worlds = [{member["pid"] for member in header["world"]["ranks"]} for header in headers]
    assert [len(world) for world in worlds] == [2, 2, 2]
    assert len(set.union(*worlds)) == 6
    assert os.getpid() not in worlds[0]
