"""Lines that srun labelled and cut, put together again."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from busbw.launch.batch import SharedFiles
from busbw.launch.slurm.follow import Joiner

MESSAGE = 1024


def labelled(task: int, line: bytes) -> list[bytes]:
    """A task's line as srun 22.05 prints it: messages of 1,024 bytes, a label and an end for each."""
    data = line + b"\n"
    pieces = [data[at : at + MESSAGE] for at in range(0, len(data), MESSAGE)]
    return [b"%d: %b" % (task, piece.rstrip(b"\n")) for piece in pieces]


LINES = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=40).map(str.encode),
        st.integers(1020, 1028).map(lambda size: b"x" * size),
        st.integers(0, 5000).map(lambda size: b'{"busbw":1,"event":"' + b"y" * size + b'"}'),
    ),
    max_size=6,
)


@given(st.lists(LINES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_whatever_the_tasks_print_arrives(tasks: list[list[bytes]], chance: object) -> None:
    """Messages of different tasks come in any order; those of one task in theirs."""
    waiting = [
        [piece for line in lines for piece in labelled(task, line)] for task, lines in enumerate(tasks)
    ]
    found: dict[int | None, list[bytes]] = {}
    joiner = Joiner()
    while any(waiting):
        pieces = chance.choice([each for each in waiting if each])  # type: ignore[attr-defined]
        taken = joiner.take(pieces.pop(0))
        if taken is not None:
            found.setdefault(taken[0], []).append(taken[1])
    assert found == {task: lines for task, lines in enumerate(tasks) if lines}


def test_an_event_that_was_cut_elsewhere_is_whole_too() -> None:
    joiner = Joiner()
    assert joiner.take(b'03: {"busbw":1,"a') is None
    assert joiner.take(b"04: other") == (4, b"other")
    assert joiner.take(b'03: ":2}') == (3, b'{"busbw":1,"a":2}')


def test_what_a_killed_task_left_unfinished_does_not_spoil_the_next_event() -> None:
    joiner = Joiner()
    assert joiner.take(b'0: {"busbw":1,"half') is None
    assert joiner.take(b'0: {"busbw":1}') == (0, b'{"busbw":1}')
    assert joiner.take(b'0: {"busbw":1,"half') is None
    assert joiner.rest() == []


def test_files_are_read_as_they_grow(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    files = SharedFiles(out, err)
    assert files.read() == []
    out.write_bytes(b"one\ntw")
    assert files.read() == [(False, b"one")]
    with out.open("ab") as more:
        more.write(b"o\n")
    err.write_bytes(b"bad\n")
    assert files.read() == [(False, b"two"), (True, b"bad")]
    assert files.read() == []


def test_a_last_line_without_an_end_is_not_lost() -> None:
    """Of a message's very length, it looks as if more were to come."""
    line, lines = b"a" * MESSAGE, [b"0: first", *(b"%d: %b" % (task, b"a" * MESSAGE) for task in (0, 1))]
    joiner = Joiner()
    assert [joiner.take(each) for each in lines] == [(0, b"first"), None, None]
    assert joiner.rest() == [(0, line), (1, line)]
    assert joiner.rest() == []
