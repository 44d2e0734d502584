"""The matrix of pairs: a heat map for a terminal, and rows for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY
from busbw.units import NS_PER_US, gb_per_s

Floats = npt.NDArray[np.float64]

# From the worst to the best fifth of the range between them.
_SHADES: Final = ".:-=+*#%@"
_MOST_NAMED: Final = 24  # parts whose numbers still fit on a line
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


def matrix_lines(rounds: Sequence[Mapping[str, Any]], size_bytes: int) -> list[str]:
    """Three maps, each with its range and its slowest pairs."""
    names: Sequence[str] = rounds[0]["names"]
    lanes = len(rounds[0]["tests"][0]["times_ns"][BANDWIDTH][0])
    lines = [f"# {number:>3}  {name}" for number, name in enumerate(names)]
    each = f" of each of {lanes} rank pairs" if lanes > 1 else ""
    for metric, what in ((BANDWIDTH, "one way"), (BOTH_WAYS, "both ways at once, of one")):
        values = gb_per_s(size_bytes, 1.0) / matrix(rounds, metric)
        lines += ["#", f"# GB/s {what}{each}: row sends, column receives", *_map(values, "{:6.2f}")]
        lines += _slowest(values, names, "GB/s", largest=False)
    values = matrix(rounds, LATENCY) / NS_PER_US
    lines += ["#", "# us of a small exchange, mean", *_map(values, "{:6.1f}", inverted=True)]
    return lines + _slowest(values, names, "us", largest=True)


def _map(values: Floats, form: str, *, inverted: bool = False) -> list[str]:
    """Numbers where they fit, and a shade for each: the darker, the better."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    share = (values - low) / (high - low) if high > low else np.ones_like(values)
    shades = np.nan_to_num((1 - share if inverted else share) * (len(_SHADES) - 1))
    lines = []
    if len(values) <= _MOST_NAMED:
        lines.append(" " * 5 + "".join(f"{number:>6}" for number in range(len(values))))
    for number, row in enumerate(values):
        shaded = "".join(
            " " if np.isnan(value) else _SHADES[int(shades[number, place])] for place, value in enumerate(row)
        )
        cells = "".join("     -" if np.isnan(value) else form.format(value) for value in row)
        lines.append(f"{number:>4} {cells if len(values) <= _MOST_NAMED else ''}  {shaded}")
    return lines


def _slowest(values: Floats, names: Sequence[str], unit: str, *, largest: bool) -> list[str]:
    """The worst pair against the median, in words."""
    worst = np.nanargmax(values) if largest else np.nanargmin(values)
    source, target = (int(place) for place in np.unravel_index(worst, values.shape))
    middle = float(np.nanmedian(values))
    value = float(values[source, target])
    return [
        f"# median {middle:.3g} {unit}; worst {value:.3g} {unit}, from {names[source]} to {names[target]}"
    ]
