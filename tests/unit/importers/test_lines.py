"""Lines are read many at once, by patterns and shapes: what comes out is what each line alone would give."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from busbw.importers.devices import Devices
from busbw.importers.lines import Kind, Lines
from busbw.importers.scan import Log, scan

TABLES = 16
PREFIXES = {
    "none": lambda number: "",
    "srun -l": lambda number: "0: ",
    "srun -l, wide": lambda number: " 3: ",
    "--tag-output": lambda number: "[1,0]<stdout>:",
    "kubectl": lambda number: "[pod/nccl-test-launcher-x7k2p/nccl] ",
    "time stamps": lambda number: f"2026-11-21T18:{number // 60 % 60:02}:{number % 60:02}.123456Z ",
    "time stamps and srun -l": lambda number: f"[2026-11-21 18:15:{number % 60:02}] 0: ",
    "indented": lambda number: "    ",
    "two streams": lambda number: f"{number % 2}: ",
}
NOISE = (
    "node1:14:20 [3] NCCL INFO Channel 07/0 : 0[0] -> 1[1] via P2P/CUMEM",
    "node1:14:20 [3] NCCL INFO Using network AWS Libfabric",
    "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-21T18:15:02 ***",
    "+ mpirun -np 16 ./all_gather_perf -b 8",
    "...",
    "# 12 of 16 links are up",
    "8 2 float",
    "",
)


def with_prefix(text: str, prefix: Callable[[int], str]) -> str:
    """Every line with its prefix; a whole line after the other one where there are two streams."""
    lines = text.splitlines()
    if prefix(0) != prefix(1) and prefix(0) == prefix(2):
        lines = [line for line in lines for _ in range(2)]
    return "".join(f"{prefix(number)}{line}\n" for number, line in enumerate(lines))


def contents(log: Log) -> Any:
    """All that a text was found to hold, to compare."""
    tables = []
    for table in log.tables:
        columns = table.columns
        rows = columns and (
            columns.lines.tolist(),
            columns.widths.tolist(),
            {name: values.tolist() for name, values in columns.whole.items()},
            columns.words,
            {
                key: np.nan_to_num(np.array(values), nan=-7).tolist()
                for key, values in columns.measures.items()
            },
        )
        beside = {name: value for name, value in vars(table).items() if name not in ("blocks", "facts")}
        tables.append((rows, beside, table.facts.header, tuple(Devices(table.facts.devices))))
    return tables, log.facts.header, log.job, log.evidence, log.last_words, log.lines


def one_by_one(text: str) -> Log:
    return scan(line.encode() for line in text.splitlines(keepends=True))


def first_difference(one: Iterable[Any], other: Iterable[Any]) -> str:
    return next((f"{a!r:.2000}\n{b!r:.2000}" for a, b in zip(one, other, strict=False) if a != b), "lengths")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_many_lines_at_once_are_what_each_of_them_is(prefix: str, tool_table: Callable[[int], str]) -> None:
    text = with_prefix("".join(map(tool_table, range(TABLES))), PREFIXES[prefix])
    together, alone = contents(scan([text.encode()])), contents(one_by_one(text))
    assert together == alone, first_difference(together[0], alone[0])
    assert len(together[0]) == TABLES * (2 if prefix == "two streams" else 1)
    assert all(rows is not None for rows, *_ in together[0])


@pytest.mark.parametrize("seed", range(12))
def test_damaged_lines_at_once_are_what_each_of_them_is(seed: int, tool_table: Callable[[int], str]) -> None:
    rng = random.Random(seed)
    prefix = PREFIXES[rng.choice(list(PREFIXES))]
    lines = with_prefix("".join(map(tool_table, range(TABLES))), prefix).splitlines()
    for _ in range(12):
        at = rng.randrange(len(lines))
        line = lines[at]
        place = rng.randrange(len(line) + 1)
        lines[at : at + 1] = rng.choice(
            (
                [line[:place] + rng.choice(NOISE) + line[place:]],
                [line[:place] + rng.choice(NOISE), line[place:]],
                [line, prefix(at) + rng.choice(NOISE)],
                [rng.choice(NOISE), line],
                [line[:place] + rng.choice(" \t#0123456789x\u0661\x1b[0m\r") + line[place + 1 :]],
                [line[place:]],
                [],
            )
        )
    text = "\n".join(lines)
    whole, pieces = scan([text.encode()]), text.encode().split(b"\n")
    alone = scan([*(line + b"\n" for line in pieces[:-1]), pieces[-1]])
    assert contents(whole) == contents(alone), first_difference(contents(whole)[0], contents(alone)[0])


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("# nThread 1 nGpus 8 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20", Kind.FACT),
        ("#  Rank  7 Group  0 Pid  14840 on node-171 device  3 [0x01] NVIDIA GB200", Kind.DEVICE),
        ("0: #  Rank  7 Group  0 Pid  14840 on node-171 device  3 [0x01] NVIDIA GB200", Kind.DEVICE),
        ("# Avg bus bandwidth    : 52.9753 ", Kind.FACT),
        ("a:1:2 [0] NCCL INFO Using network IB", Kind.NCCL),
        ("mpirun -np 8 ./all_reduce_perf_mpi -b 8", Kind.COMMAND),
        ("#", Kind.COMMENT),
        ("0: ", Kind.EMPTY),
        ("hello", Kind.TEXT),
        ("# busbw: time = mean of 3", Kind.FACT),
        ("# busbw: all_reduce float sum out-of-place, 4 ranks", Kind.ODD),
        ("\x1b[32mhello", Kind.ODD),
        ("caf\u00e9", Kind.ODD),
    ],
)
def test_kinds_of_lines(line: str, kind: Kind) -> None:
    lines = Lines("")
    assert lines.meaning(line.encode() + b"\n").kind is kind
    other = line.translate(str.maketrans("123456789", "987654321")).encode() + b"\n"
    assert lines.meaning(other).kind is kind  # the same shape


def test_columns_that_differ_by_a_digit_are_other_columns() -> None:
    """i_p99 is a column of nccl-tests, i_p95 is none: a shape alone does not tell headings."""
    heading = "# size count type redop root time algbw busbw #wrong i_min i_max i_p{} i_cv%\n"
    lines = Lines("")
    assert lines.meaning(heading.format(95).encode()).kind is Kind.ODD
    row = "8 2 float sum -1 4.0 0.00 0.00 0 3.9 4.1 4.1 1.0\n"
    for number, rows in ((95, 0), (99, 1)):
        tables = scan([(heading.format(95) + heading.format(number) + row).encode()]).tables
        assert sum(len(table.columns or ()) for table in tables) == rows


def test_the_memory_for_shapes_is_bounded() -> None:
    lines = Lines("")
    for number in range(30_000):
        lines.meaning(f"{chr(97 + number % 26) * (1 + number // 26 % 40)} {'x' * (number % 31)}\n".encode())
        lines.stretch(f"# {'y' * (number % 3001)}\n#\n".encode())
    assert len(vars(lines)["_known"]) <= 10_000
    assert len(vars(lines)["_stretches"]) <= 1_000
