"""Blocks of rows are read from their bytes: the numbers must be those of reading word by word."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from busbw.importers.scan import Log, scan

ROWS = 600


def by_lines(text: bytes) -> Log:
    """Word by word: a block needs many rows in one piece of text."""
    return scan(text.splitlines(keepends=True))


def assert_same(one: Log, other: Log) -> None:
    (first,), (second,) = one.tables, other.tables
    assert first.findings == second.findings
    assert (first.footer, first.last_line, one.lines) == (second.footer, second.last_line, other.lines)
    a, b = first.columns, second.columns
    assert a is not None
    assert b is not None
    assert np.array_equal(a.lines, b.lines)
    assert np.array_equal(a.widths, b.widths)
    assert a.words == b.words
    for name, values in b.whole.items():
        assert np.array_equal(a.whole[name], values)
    for key, printed in b.measures.items():
        assert np.array_equal(a.measures[key].value, printed.value, equal_nan=True), key
        assert np.array_equal(a.measures[key].half, printed.half), key


@pytest.fixture
def rows(row_text: Callable[[str], str]) -> list[str]:
    rng = random.Random(7)
    found = []
    for _ in range(ROWS):
        size = 4 << rng.randrange(34)
        time = rng.choice(
            (f"{rng.uniform(1, 99):.2f}", f"{rng.uniform(100, 9999):.1f}", f"{rng.randrange(10**4, 10**7)}")
        )
        algbw = size / float(time) / 1e3
        side = f"{time} {algbw:.2f} {algbw * 1.5:.2f} {rng.choice(('0', '0', '0', '12', 'N/A'))}"
        found.append(row_text(f"{size} {size // 4} float sum -1 {side} {side}"))
    return [row for row in found if len(row) == len(found[0])]


@pytest.mark.parametrize("prefix", ["", "0: ", "   [1,0]<stdout>:", "2026-11-21T18:15:02.123456Z "])
@pytest.mark.parametrize("end", ["\n", "  \n", "\r\n"])
def test_blocks_have_the_numbers_of_single_rows(
    prefix: str, end: str, new_heading: str, rows: list[str]
) -> None:
    lines = [
        *new_heading.splitlines(),
        *rows,
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 1.5",
    ]
    text = "".join(prefix + line + end for line in lines).encode()
    log = scan([text])
    assert_same(log, by_lines(text))
    assert len(log.tables[0].blocks) < 50  # blocks there were


@pytest.mark.parametrize("seed", range(30))
def test_what_is_not_like_the_other_rows_ends_a_block(seed: int, new_heading: str, rows: list[str]) -> None:
    """Same width, other letters: the rows that a fast reader is most likely to misread."""
    rng = random.Random(seed)
    lines = list(rows)
    for _ in range(4):
        index = rng.randrange(len(lines))
        line = lines[index]
        at = rng.randrange(len(line))
        lines[index] = line[:at] + rng.choice(" .-+eE_,:x#\t0123456789\xe9") + line[at + 1 :]
    text = (new_heading + "\n".join(lines) + "\n").encode("latin-1")
    assert_same(scan([text]), by_lines(text))


def test_streams_that_differ_by_a_digit_are_kept_apart(new_heading: str, rows: list[str]) -> None:
    text = "".join(f"0: {line}\n" for line in new_heading.splitlines() + rows[:100])
    text += "".join(f"1: {line}\n" for line in new_heading.splitlines() + rows[:100])
    text += "".join(f"{rank}: {rows[0]}\n" for rank in (0, 1) for _ in range(100))
    log = scan([text.encode()])
    assert [len(table.columns or ()) for table in log.tables] == [200, 200]


def test_pieces_of_any_size(new_heading: str, rows: list[str]) -> None:
    text = (new_heading + "\n".join(rows)).encode()
    whole = scan([text])
    for size in (1, 7, 1000, 40_000):
        assert_same(scan([text[at : at + size] for at in range(0, len(text), size)]), whole)


@pytest.mark.parametrize("filling", ["77", "7 ", " 7", ".7", "\t7"])
def test_two_numbers_without_a_blank_between_are_one(
    filling: str, new_heading: str, row_text: Callable[[str], str]
) -> None:
    """The fields of a pattern end where its words do: a word that goes on over an end is no two words."""
    plain = row_text("1024 256 float sum -1 1234567 123.45 234.56 0 1234568 123.45 234.56 0")
    blanks = [at for at in range(len(plain) - 1) if plain[at : at + 2] == "  "]
    rows = [plain[:at] + filling + plain[at + 2 :] for at in blanks]
    text = (new_heading + "\n".join([*[plain] * 100, *rows, *[plain] * 100]) + "\n").encode()
    assert_same(scan([text]), by_lines(text))
