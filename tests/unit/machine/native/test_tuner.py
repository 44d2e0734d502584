"""Tables of a tuner: what is read, and that nothing in a file breaks the reader."""

from __future__ import annotations

import random
from pathlib import Path

from busbw_testing.tuner_table import rows_of

ROWS = [
    "# collective,first,last,algorithm,protocol,channels,nodes,ranks,group,registered",
    "allreduce,0,4096,tree,ll,4,1,8,-1,-1",
    " allgather , 16777216,16777216, ring ,ll128, 24,-1,-1\r",
    "reducescatter,1,18446744073709551615,nvls,simple,-1,2,16,1,0",
    "broadcast,8,8,ring,simple,1",
    "",
]
PARTS = [",", "-1", "\n", "#", "\0", "\r", " ", "ring", "9" * 30, "é", "\t", "-", "allreduce", "x" * 5000]


def test_a_table_as_people_write_it(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\n".join(ROWS))
    assert rows_of(path) == 4


def test_no_text_breaks_the_reader(tmp_path: Path) -> None:
    draw, path = random.Random(1), tmp_path / "table.csv"
    whole, read, refused = "\n".join(ROWS), 0, 0
    for _ in range(5000):
        text = whole
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(text) + 1)
            end = min(len(text), at + draw.randint(0, 12))
            text = text[:at] + draw.choice([*PARTS, ""]) + text[end:]
        path.write_bytes(text.encode())
        try:
            rows = rows_of(path)
        except ValueError as error:
            refused += str(path) in str(error)
        else:
            read += rows > 0
    assert read + refused == 5000
    assert read > 100
    assert refused > 100
