"""Damaged logs: no traceback, no endless loop, and no row that is neither the original's nor reported.

What the digits do not rule out cannot be found: a digit of a time whose bandwidth is printed as 0.00 can
become another without a trace. So digits are replaced by other digits only in the tests that say so.
"""

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from busbw.errors import BusbwError
from busbw.importers.files import Reading
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


def insert_nuls(rng: random.Random, text: str) -> str:
    """A block that was not written yet when a file system crashed."""
    at, lost = rng.randrange(len(text)), rng.choice((0, 1, 40, 300))
    return text[:at] + "\0" * rng.choice((1, max(lost, 1), 4096)) + text[at + lost :]


def glue_output(rng: random.Random, text: str) -> str:
    """Other output behind a whole line, whose end comes after it; a progress display writes over a line."""
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    noise = rng.choice([words for words in NOISE if "\r" not in words])
    lines[at] = lines[at].rstrip("\n") + noise + "\n\n"
    return "".join(lines)


def change_root(rng: random.Random, text: str) -> str:
    """Only rows of nccl-tests have one."""
    rows = [found.span() for found in re.finditer(r" {4}-1(?= )", text)]
    if not rows:
        return text
    begin, end = rng.choice(rows)
    return text[:begin] + f"{rng.choice((-7, -2, 0, 3, 15, 9999)):6d}" + text[end:]


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
    insert_nuls,
    glue_output,
    change_root,
)
ONCE = (insert_digit, delete_span, spoil_digit, join_lines, break_line)


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


def survives(original: Counter[tuple[Any, ...]], imported: Callable[..., list[RunRecord]], text: str) -> int:
    """Import a damaged log; whatever rows it has must be the original's."""
    try:
        records = imported(text, op="all_reduce")
    except BusbwError:
        return 0
    said = " ".join(f.text for record in records for f in record.source.findings if f.kind == "foreign")
    for row in rows_of(records):
        foreign = [word for word in row[2:4] if f"{word!r}" in said]
        assert row in original or foreign, f"{row} is no row of the original"
    return sum(len(record.results) for record in records)


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> list[str]:
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    spec = spec_from_file_location("published_tables", Path(__file__).with_name("conftest.py"))
    module = module_from_spec(spec)
    import sys

    sys.modules["published_tables"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return [table.text() for table in module.PUBLISHED if len(table.rows) > 4]


def run(sources: list[str], imported: Callable[..., list[RunRecord]], seeds: range) -> int:
    originals = [rows_of(imported(text, op="all_reduce")) for text in sources]
    kept = 0
    for seed in seeds:
        rng = random.Random(seed)
        index = rng.randrange(len(sources))
        text = sources[index]
        for mutation in rng.choices(MUTATIONS, k=rng.choice((1, 1, 1, 2, 3))):
            # A character lost and one won in the same line are a changed digit.
            if mutation not in ONCE or text == sources[index]:
                text = mutation(rng, text) or "\n"
        kept += survives(originals[index], imported, text)
    return kept


def test_damaged_logs(sources: list[str], imported: Callable[..., list[RunRecord]]) -> None:
    assert run(sources, imported, range(400)) > 400 * 4  # most rows are untouched and stay


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a minute or two of CPU: more on a busy machine
def test_ten_thousand_damaged_logs(sources: list[str], imported: Callable[..., list[RunRecord]]) -> None:
    assert run(sources, imported, range(1000, 11_000)) > 10_000 * 4


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


def osu_table() -> str:
    rows = [f"{4 << k:<11d}{3.1 + (4 << k) / 9e3:17.2f}{2.1 + (4 << k) / 9.9e3:18.2f}" for k in range(20)]
    tails = [f"{4.1 + (4 << k) / 8e3:18.2f}{1000:12d}\n" for k in range(20)]
    return (
        "# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_FLOAT.\n"
        "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"
        + "".join(row + tail for row, tail in zip(rows, tails, strict=True))
    )


def imb_table() -> str:
    rows = [
        f"{4 << k:13d}{1000:13d}{2.1 + (4 << k) / 9.9e3:13.2f}{4.1 + (4 << k) / 8e3:13.2f}"
        f"{3.1 + (4 << k) / 9e3:13.2f}\n"
        for k in range(20)
    ]
    return (
        "# Benchmarking Allreduce\n# #processes = 4\n#----\n"
        "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n" + "".join(rows) + "\n"
    )


def nccom_table() -> str:
    text = (
        "nccom-test -r 16 allr\n"
        "       size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)\n"
    )
    for k in range(18):
        size, time = 1024 << k, round(50 + (1024 << k) / 9e3, 2)
        algbw = size / time / 1e3
        text += f"{size:14d}{256 << k:16d}{'fp32':>8}{time:16.2f}{algbw:15.2f}{1.875 * algbw:15.2f}\n"
    return text


# A span as long as a line, from one row into the next, leaves a row that nothing in OSU's table contradicts.
UNSEEN = {"osu": {delete_span}, "imb": set(), "nccom": set()}


@pytest.mark.parametrize("name", UNSEEN)
def test_damaged_tables_of_other_tools(name: str, imported: Callable[..., list[RunRecord]]) -> None:
    text = {"osu": osu_table, "imb": imb_table, "nccom": nccom_table}[name]()

    def times(records: list[RunRecord]) -> set[tuple[int, float | None]]:
        return {
            (case.size_bytes, result.time_ns)
            for record in records
            for case, result in zip(record.plan.cases, record.results, strict=True)
            if result.time_ns is not None
        }

    original = times(imported(text, op="all_reduce", ranks=16))
    assert len(original) >= 18
    mutations = [mutation for mutation in MUTATIONS if mutation not in UNSEEN[name]]
    kept = 0
    for seed in range(300):
        rng = random.Random(seed)
        damaged = rng.choice(mutations)(rng, text) or "\n"
        found = times(imported(damaged, op="all_reduce", ranks=16))
        assert found <= original, f"seed {seed}"
        kept += len(found)
    assert kept > 300 * 8


# Damage inside a line: it leaves a trace, unlike a line that is missing or there twice.
INSIDE = (
    write_into_line,
    delete_span,
    insert_digit,
    replace_character,
    spoil_digit,
    break_line,
    join_lines,
    insert_nuls,
    glue_output,
)
PREFIXES = ("", "0: ", "[1,0]<stdout>:", "[pod/a-b/c] ", "    ", "2026-11-21T18:15:02Z ")
TOLD = {"damaged", "rows-missing", "cut", "foreign", "no-heading"}


def times_of(records: list[RunRecord]) -> set[tuple[Any, ...]]:
    return {
        (case.size_bytes, case.placement, result.time_ns, result.algbw_gb_per_s)
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=True)
        if result.time_ns is not None
    }


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
        mutation = rng.choice(INSIDE if rng.random() < 0.7 else MUTATIONS)
        if mutation in UNSEEN.get(tool, ()):
            continue
        original = times_of(imported(text, op="all_reduce", ranks=16))
        damaged = mutation(rng, text) or "\n"
        records = imported(damaged, op="all_reduce", ranks=16)
        found = times_of(records)
        assert found <= original, f"seed {seed}: {found - original} of no row of {tool}"
        told = {finding.kind for record in records for finding in record.source.findings}
        if read(damaged).findings:
            told.add("no-heading")
        silent[tool] += found < original and mutation in INSIDE and not told & TOLD
        tried += 1
    return silent, tried


@pytest.mark.slow
def test_damaged_logs_of_all_tools(
    tool_tables: dict[str, Callable[[int], str]],
    read: Callable[..., Reading],
    imported: Callable[..., list[RunRecord]],
) -> None:
    silent, tried = attack(tool_tables, read, imported, range(300))
    assert (silent.total(), tried > 250) == (0, True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_damaged_logs_of_all_tools(
    tool_tables: dict[str, Callable[[int], str]],
    read: Callable[..., Reading],
    imported: Callable[..., list[RunRecord]],
) -> None:
    silent, tried = attack(tool_tables, read, imported, range(1000, 11_400))
    assert tried > 10_000
    # A row of OSU or IMB has few words: of some pieces nobody can tell that they are pieces of a row.
    assert {tool for tool, count in silent.items() if count} <= {"osu", "imb"}
    assert silent.total() < tried / 500
