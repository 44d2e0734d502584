"""Plots in letters: the right letter in the right place, in 80 columns, in ASCII."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.report.markdown import plot_lines
from busbw.report.plots import Plot, Table
from busbw.report.text_plots import drawing

NO_TABLE = Table(("a",), (("1",),))


def lines(plot: Plot, columns: int = 80) -> list[str]:
    return drawing(plot, columns)


def point(x: float, y: float, **fields: Any) -> dict[str, Any]:
    whole = {"series": "one", "kind": "measured", "low": None, "high": None, "text": ""}
    return {**whole, "x": x, "y": y, **fields}


def curve(*rows: dict[str, Any], **words: Any) -> Plot:
    return Plot("curve", (), "c", "A title", "A note.", rows, NO_TABLE, {"x": "size", "y": "GB/s", **words})


def test_points_stand_where_their_values_are() -> None:
    text = lines(curve(point(1024, 1.0), point(2048, 3.0), point(4096, 4.0)))
    drawn = [line[11:] for line in text if "|" in line[:12] or "+" in line[:12]][:-1]
    assert len(drawn) == 14
    places = {(row, line.index("o")) for row, line in enumerate(drawn) if "o" in line}
    # Powers of two at equal distances; 0 at the bottom, 4 on top.
    assert places == {(10, 0), (3, 34), (0, 68)}
    assert text[-2].split() == ["size", "1", "KiB", "2", "KiB", "4", "KiB"]
    assert text[-1] == "o one"


def test_intervals_limits_and_points_in_one_place() -> None:
    rows = (
        point(1024, 2.0, low=1.0, high=4.0), point(1024, 2.0, series="two"), point(4096, 3.0, series="two"),
        point(1024, 3.9, series="limit: wires", kind="limit"),
        point(4096, 3.9, series="limit: wires", kind="limit"),
    )  # fmt: skip
    text = lines(curve(*rows))
    drawn = [line[11:] for line in text if "|" in line[:12] or "+" in line[:12]][:-1]
    column = "".join(line[:1] or " " for line in drawn)
    assert column[0] == column[10] == "|"
    assert column[7] == "&"  # 2 of 4
    assert drawn[0].count("=") > 60
    assert text[-1] == "o one   x two   = limit: wires   & several"


def test_time_has_a_logarithmic_axis_with_units() -> None:
    text = lines(curve(point(8, 0.5), point(16, 50.0), point(32, 5e6), y="time", scales=("log",)))
    labels = [line[:9].strip() for line in text if line[:9].strip()]
    assert labels[:2] == ["time", "5 s"]
    assert "500 ns" in labels


def heat(columns: list[str], **words: Any) -> Plot:
    bins = {"bad": "high2", "fine": "mid"}
    rows = tuple(
        {"x": x, "y": y, "bin": "bad" if (x, y) == (columns[1], "b") else "fine", "cell": str(len(x))}
        for y in ("a", "b")
        for x in columns
        if x != y
    )
    words = {"x": "size", "y": None, "bins": bins, **words}
    return Plot("heat", (), "h", "Map", "Note.", rows, NO_TABLE, words)


def test_a_map_has_numbers_and_letters() -> None:
    assert lines(heat(["1 KiB", "2 KiB", "16 KiB"])) == [
        "  1 KiB     16 KiB",
        "  |         |",
        "a 5 .  5 .  6 .",
        "b 5 .  5 #  6 .",
        "",
        "# bad   . fine",
    ]
    assert lines(heat(["1 KiB", "2 KiB", "16 KiB"]), 16)[2:4] == ["a .   .   .", "b .   #   ."]


@pytest.mark.parametrize("columns", [40, 80, 110])
def test_nothing_is_wider_than_the_terminal(columns: int) -> None:
    long = "a-host-with-a-very-long-name.of-a-site.example"
    plots = (
        curve(*(point(2**power, power, series=long) for power in range(3, 34))),
        heat([f"{2**power} KiB" for power in range(31)], down=["a", "b"]),
    )  # fmt: skip
    for plot in plots:
        text = lines(plot, columns)
        assert max(map(len, text)) <= max(columns, len(long) + 2)
        assert all(line.isascii() for line in text)


def test_a_table_that_is_too_wide_goes_on_below_under_the_same_names() -> None:
    head = ("host", "link", *(f"column{at}" for at in range(9)))
    rows = tuple((f"node{row}", "nic0", *(f"{row}.{at}" for at in range(9))) for row in range(2))
    table = Table(head, rows, keys=2, notes=("stopped: " + "a limit " * 20,))
    plot = Plot("bars", (), "b", "Links", "A note.", (), table)
    text = list(plot_lines([plot], 50))
    assert text[:4] == ["### Links", "", "A note.", ""]
    assert max(map(len, text)) <= 50
    assert text[4:8] == [
        "| host  | link | column0 | column1 | column2 |",
        "| ----- | ---- | ------- | ------- | ------- |",
        "| node0 | nic0 |     0.0 |     0.1 |     0.2 |",
        "| node1 | nic0 |     1.0 |     1.1 |     1.2 |",
    ]
    assert text[9].startswith("| host  | link | column3 |")
    assert sum(line.startswith("- stopped: a limit") for line in text) == 1
