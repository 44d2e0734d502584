"""The matrix of pairs: a heat map for a terminal, and rows for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY
from busbw.reports.levels import edges, levels
from busbw.units import NS_PER_US, decimals, gb_per_s

Floats = npt.NDArray[np.float64]

# From the worst to the best part of the range between them.
_SHADES: Final = ".:-=+*#%@"
_MOST_NAMED: Final = 24  # parts whose numbers still can be read on a line
_NAME: Final = 5  # letters of a part's number
_NUMBER: Final = 8  # of a value with the space before it: of GPUs 337.18, of a bad path 12345.6 us
UNBOUND: Final = 10_000  # columns of what is no terminal
CSV_FIELDS: Final = (
    "source",
    "target",
    "one_way_gb_per_s",
    "both_ways_gb_per_s",
    "latency_us",
)


def matrix(rounds: Sequence[Mapping[str, Any]], metric: str) -> Floats:
    """Nanoseconds [source, target] of the slowest lane; NaN where a pair was not tested."""
    count = len(rounds[0]["names"])
    found = np.full((count, count), np.nan)
    for tested in rounds:
        for test in tested["tests"]:
            there, back = test["times_ns"][metric]
            found[test["one"], test["other"]] = max(there)
            found[test["other"], test["one"]] = max(back)
    return found


def rows(
    rounds: Sequence[Mapping[str, Any]], size_bytes: int
) -> Iterator[tuple[str, str, float, float, float]]:
    """Source, target, GB/s one way and both ways at once (of each), and latency in us; see CSV_FIELDS."""
    names: Sequence[str] = rounds[0]["names"]
    one_way, both, small = (matrix(rounds, metric) for metric in (BANDWIDTH, BOTH_WAYS, LATENCY))
    for source, target in np.argwhere(~np.isnan(one_way)).tolist():
        yield (
            names[source],
            names[target],
            gb_per_s(size_bytes, one_way[source, target]),
            gb_per_s(size_bytes, both[source, target]),
            small[source, target] / NS_PER_US,
        )


def matrix_lines(rounds: Sequence[Mapping[str, Any]], size_bytes: int, columns: int = UNBOUND) -> list[str]:
    """Three maps, each with its range and its slowest pairs. Where a line has fewer ``columns`` than the
    numbers take, the map has shades only; where it has fewer than parts, a shade is the worst of several.
    """
    names: Sequence[str] = rounds[0]["names"]
    lanes = len(rounds[0]["tests"][0]["times_ns"][BANDWIDTH][0])
    lines = [f"# {number:>3}  {name}" for number, name in enumerate(names)]
    each = f" of each of {lanes} rank pairs" if lanes > 1 else ""
    for metric, what in ((BANDWIDTH, "one way"), (BOTH_WAYS, "both ways at once, of one")):
        values = gb_per_s(size_bytes, 1.0) / matrix(rounds, metric)
        digits = decimals(float(np.nanmedian(values)), 2)
        lines += ["#", f"# GB/s {what}{each}: row sends, column receives", *_map(values, digits, columns)]
        lines += _slowest(values, names, "GB/s", largest=False)
    values = matrix(rounds, LATENCY) / NS_PER_US
    lines += ["#", "# us of a small exchange, mean", *_map(values, 1, columns, inverted=True)]
    return lines + _slowest(values, names, "us", largest=True)


def _map(values: Floats, digits: int, columns: int, *, inverted: bool = False) -> list[str]:
    """Numbers where they fit, and a shade for each: the darker, the better."""
    count = len(values)
    with_numbers = count <= _MOST_NAMED and _NAME + (_NUMBER + 1) * count + 2 <= columns
    own, first = fold(values, max(1, columns - _NAME), largest=inverted)
    found = levels(own, edges(own, len(_SHADES)))
    shades = _SHADES[::-1] if inverted else _SHADES
    lines = []
    if with_numbers:
        lines.append(" " * _NAME + "".join(f"{number:>{_NUMBER}}" for number in range(count)))
    if len(own) < count:
        lines.append(f"# a shade is the worst of {first[1]} x {first[1]} pairs")
    for number, row, steps in zip(first, own, found, strict=True):
        shaded = "".join(" " if step < 0 else shades[step] for step in steps)
        cells = "".join(
            f"{'-':>{_NUMBER}}" if np.isnan(value) else f"{value:{_NUMBER}.{digits}f}" for value in row
        )
        lines.append(f"{number:>4} {f'{cells}  ' if with_numbers else ''}{shaded}".rstrip())
    return lines


def fold(values: Floats, most: int, *, largest: bool) -> tuple[Floats, list[int]]:
    """At most so many rows and columns: of neighbours, the worst (``largest``: the largest is); and the first
    part of each row. NaN where there is nothing.
    """
    step = -(-len(values) // most)
    first = list(range(0, len(values), step))
    if step == 1:
        return values, first
    empty, of = (-np.inf, np.fmax) if largest else (np.inf, np.fmin)
    known = np.where(np.isnan(values), empty, values)
    folded = of.reduceat(of.reduceat(known, first, axis=0), first, axis=1)
    return np.where(np.isinf(folded), np.nan, folded), first


def _slowest(values: Floats, names: Sequence[str], unit: str, *, largest: bool) -> list[str]:
    """The worst pair against the median, in words."""
    worst = np.nanargmax(values) if largest else np.nanargmin(values)
    source, target = (int(place) for place in np.unravel_index(worst, values.shape))
    middle = float(np.nanmedian(values))
    value = float(values[source, target])
    return [
        f"# median {middle:.3g} {unit}; worst {value:.3g} {unit}, from {names[source]} to {names[target]}"
    ]
