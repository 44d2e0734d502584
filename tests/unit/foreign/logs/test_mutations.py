"""Damaged logs: no traceback, no endless loop, and no row that is neither the original's nor reported.

What the digits do not rule out cannot be found: a digit of a time whose bandwidth is printed as 0.00 can
become another without a trace. So digits are replaced by other digits only in the tests that say so.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from busbw.errors import UndecidedError
from busbw.foreign.read_any import Reading
from busbw.model.record import RunRecord

# Output of other programs that gets between and into lines.
NOISE = (
    "ip-10-0-1-2:14:20 [0] NCCL INFO Launch mode Parallel",
    "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-21T18:15:02 ***",
    "# a comment",
    "...",
    "WARNING: 3 of 16 links are down",
    "\x1b[2K\r 50%|#####     | 5/10",
    "\ufffd\ufffd 17 \u0661\u0662 nan",
    "8 2 float",
)
# Titles of windows, colours, pages, marks that write from right to left, returns.
ESCAPES = (
    "\x1b]0;a\x07",
    "\x1b[31m",
    "\x1b[2J",
    "\x9b2K",
    "\x1b",
    "\x00",
    "\u202e",
    "\x08\x08",
    "\r",
    "\x7f",
)
NOT_DIGITS = "abcXYZ#[]:;-_+ \t\u00e9"


def cut_tail(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


def cut_head(rng: random.Random, text: str) -> str:
    return text[rng.randrange(len(text)) :]


def drop_line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    del lines[rng.randrange(len(lines))]
    return "".join(lines)


def swap_lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "".join(lines)


def repeat_line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return "".join(lines)


def insert_line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines)), rng.choice(NOISE) + "\n")
    return "".join(lines)


def write_into_line(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(NOISE) + rng.choice(("", "\n")) + text[at:]


def delete_span(rng: random.Random, text: str) -> str:
    """Shorter than a line: the beginning of a row and the end of the next one can make a whole row."""
    at = rng.randrange(len(text))
    return text[:at] + text[at + rng.randint(1, 30) :]


def insert_digit(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice("0123456789") + text[at:]


def replace_character(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return (
        text if text[at].isdigit() or text[at] == "." else text[:at] + rng.choice(NOT_DIGITS) + text[at + 1 :]
    )


def spoil_digit(rng: random.Random, text: str) -> str:
    at = rng.choice([index for index, letter in enumerate(text) if letter.isdigit()])
    return text[:at] + rng.choice("abcXYZ#[]:;\u00e9") + text[at + 1 :]


def break_line(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + "\n" + text[at:]


def join_lines(rng: random.Random, text: str) -> str:
    at = rng.choice([index for index, letter in enumerate(text) if letter == "\n"])
    return text[:at] + text[at + 1 :]


def glue_output(rng: random.Random, text: str) -> str:
    """Other output behind a whole line, whose end comes after it; a progress display writes over a line."""
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    noise = rng.choice([words for words in NOISE if "\r" not in words])
    lines[at] = lines[at].rstrip("\n") + noise + "\n\n"
    return "".join(lines)


def eat_signs(rng: random.Random, text: str) -> str:
    """As pages that take a comment sign for a headline do."""
    return text.replace("#", "") if rng.random() < 0.5 else text.replace("# ", "")


def eat_blanks(rng: random.Random, text: str) -> str:
    """Those in front of lines, or all but one between words, in every line or in some."""
    share, part = rng.choice((1.0, 0.5)), rng.random()
    changed = [line.lstrip(" ") if part < 0.5 else " ".join(line.split()) for line in text.split("\n")]
    pairs = zip(text.split("\n"), changed, strict=True)
    return "\n".join(new if rng.random() < share else old for old, new in pairs)


def double_part(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    first, at = rng.randrange(len(lines)), rng.randrange(len(lines))
    return "".join([*lines[:at], *lines[first : first + rng.randint(1, 40)], *lines[at:]])


def mix_lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    first, count = rng.randrange(len(lines)), rng.randint(2, 40)
    part = lines[first : first + count]
    rng.shuffle(part)
    return "".join([*lines[:first], *part, *lines[first + count :]])


def lose_lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if rng.random() > 0.1)


def write_escapes(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(ESCAPES) + text[at:]
    return text


def two_jobs(rng: random.Random, text: str) -> str:
    """Two prefixes, whose lines take turns."""
    lines = [f"{rank}: {line}" for line in text.splitlines(keepends=True) for rank in (0, 1)]
    for at in rng.sample(range(len(lines) - 1), 10):
        if lines[at][:2] != lines[at + 1][:2]:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return "".join(lines)


# Damage to many lines at once: nothing false comes of it, whatever is lost is not asked for.
WIDE = (eat_signs, eat_blanks, double_part, mix_lines, lose_lines, write_escapes, two_jobs)
MUTATIONS = (
    cut_tail,
    cut_head,
    drop_line,
    swap_lines,
    repeat_line,
    insert_line,
    write_into_line,
    delete_span,
    insert_digit,
    replace_character,
    spoil_digit,
    break_line,
    join_lines,
    glue_output,
)


def rows_of(records: list[RunRecord]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (
            case.size_bytes,
            case.count,
            case.dtype,
            case.op,
            case.placement,
            result.time_ns,
            result.wrong,
            case.root,
        )
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=True)
    )


@pytest.fixture
def sources(published_by_name: dict[str, Any]) -> list[str]:
    return [table.text() for table in published_by_name.values() if len(table.rows) > 4]


def test_a_changed_digit_is_found_where_the_bandwidths_have_digits(
    sources: list[str], imported: Callable[..., list[RunRecord]]
) -> None:
    """One row in five, so that the others tell what is right; changes of 1 % and more."""
    found = tried = 0
    for text in sources[2:]:
        original = rows_of(imported(text, op="all_reduce"))
        lines = text.splitlines()
        for number, line in enumerate(lines):
            cells = line.split()
            if not cells or not cells[0].isdigit():
                continue
            for changed in (
                cells[5].replace(cells[5][0], str(int(cells[5][0]) % 9 + 1), 1),
                cells[5][0] + str((int(cells[5][1]) + 5) % 10) + cells[5][2:],
            ):
                tried += 1
                damaged = "\n".join(
                    [*lines[:number], line.replace(cells[5], changed, 1), *lines[number + 1 :]]
                )
                (record,) = imported(damaged, op="all_reduce")
                assert not rows_of([record]) - original
                found += any(f.kind == "damaged" and f.line == number + 1 for f in record.source.findings)
    assert found == tried > 20


# A span as long as a line, from one row into the next, leaves a row that nothing in OSU's table contradicts.
UNSEEN = {"osu": {delete_span}}
# Damage inside a line: it leaves a trace, unlike a line that is missing or there twice.
INSIDE = (
    write_into_line,
    delete_span,
    insert_digit,
    replace_character,
    spoil_digit,
    break_line,
    join_lines,
    glue_output,
)
PREFIXES = (
    "",
    "0: ",
    "[1,0]<stdout>:",
    "[pod/a-b/c] ",
    "    ",
    "2026-11-21T18:15:02Z ",
    "Sat Nov 21 18:15:02 2026<stdout>:",
    "worker-1  | ",
    "> ",
    "launcher-x7k2p main ",
    "14/Nov/2026:18:15:02 +0000 ",
)
TOLD = {"damaged", "rows-missing", "cut", "foreign", "no-heading"}
# A second in the CPU's time is a hundred times what such a log takes.
MOST_SECONDS = 2.0
LOGS = int(os.environ.get("BUSBW_DAMAGED_LOGS", "300"))


def times_of(records: list[RunRecord]) -> set[tuple[Any, ...]]:
    return {
        (case.size_bytes, case.placement, result.time_ns, result.algbw_gb_per_s)
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=True)
        if result.time_ns is not None
    }


def words_of(records: list[RunRecord]) -> list[str]:
    """The words of a log that a record has, as they are printed."""
    found = []
    for record in records:
        found += [record.error, *(result.error for result in record.results), *map(str, record.source.fields)]
        found += [str(value) for value in record.source.header.values()]
        found += [f"{rank.host} {rank.device}" for rank in (record.world.ranks if record.world else ())]
    return found


def attack(
    tables: dict[str, Callable[[int], str]],
    read: Callable[..., Reading],
    imported: Callable[..., list[RunRecord]],
    seeds: range,
) -> tuple[Counter[str], int]:
    """Damaged logs of all tools; how many lost a row without a word, by tool, and how many were tried."""
    silent: Counter[str] = Counter()
    tried = 0
    for seed in seeds:
        rng = random.Random(seed)
        tool, prefix = rng.choice(list(tables)), rng.choice(PREFIXES)
        lines = (tables[tool](1) + tables[tool](2)).splitlines()
        text = "".join(f"{prefix}{line}\n" for line in lines)
        mutation = rng.choice(rng.choices((INSIDE, MUTATIONS, WIDE), (5, 2, 3))[0])
        if mutation in UNSEEN.get(tool, ()):
            continue
        original = times_of(imported(text, op="all_reduce", ranks=16))
        damaged = mutation(rng, text) or "\n"
        start = time.process_time()
        said: list[str] = []
        try:
            records = imported(damaged, op="all_reduce", ranks=16)
        except UndecidedError as error:
            records = []
            said = [error.message]
        assert time.process_time() - start < MOST_SECONDS, f"seed {seed}"
        found = times_of(records)
        assert found <= original, f"seed {seed}: {found - original} of no row of {tool}"
        findings = [finding for record in records for finding in record.source.findings]
        findings += read(damaged).findings
        said += [finding.text for finding in findings] + words_of(records)
        assert all(text.isprintable() for text in said), f"seed {seed}"
        told = {finding.kind for finding in findings}
        # A progress display writes over the row that it gets into, on a terminal too.
        is_told = bool(told & TOLD or (said and not records))  # an error is a word too
        if found < original and mutation in INSIDE and not is_told and "\r" not in damaged:
            silent[f"{tool}, {mutation.__name__}, seed {seed}"] += 1
        tried += 1
    return silent, tried


def test_damaged_logs_of_all_tools(
    tool_tables: dict[str, Callable[[int], str]],
    read: Callable[..., Reading],
    imported: Callable[..., list[RunRecord]],
) -> None:
    silent, tried = attack(tool_tables, read, imported, range(100))
    assert not silent
    assert tried > 80


@pytest.mark.timeout(1800)
@pytest.mark.slow  # benchmarks/importers says which seeds were run, and what they gave
def test_hundreds_of_damaged_logs(
    tool_tables: dict[str, Callable[[int], str]],
    read: Callable[..., Reading],
    imported: Callable[..., list[RunRecord]],
) -> None:
    silent, tried = attack(tool_tables, read, imported, range(100, 100 + LOGS))
    # Other output that stands before a short row in its line can swallow it without a trace.
    assert silent.total() <= 0.01 * LOGS, silent
    assert tried > 0.9 * LOGS
