"""How the samples of a case spread, as bars: plain text in a pipe, blocks and colours on a terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from busbw.judge.samples import Distribution, Percentile, Scale
from busbw.model.plan import Plan
from busbw.report.columns import NOT_APPLICABLE, format_time_us
from busbw.report.ranks import flagged_words, sample_words
from busbw.report.table import describe_case
from busbw.units import NS_PER_US, format_share

if TYPE_CHECKING:
    from rich.text import Text

BAR_WIDTH: Final = 32  # with three marks beside it, a line has 78 columns
_PLAIN_BAR: Final = "*"
_BLOCK: Final = "\N{FULL BLOCK}"


@dataclass(frozen=True)
class Bar:
    """One bin: its edges and count as text, its length in characters, and what lies in it."""

    low_us: str
    high_us: str
    count: str
    length: int
    marks: str


def head(plan: Plan, spread: Distribution, time: str) -> list[str]:
    """What is drawn. ``time`` is the run's own words for its times."""
    of = "one call a sample" if spread.calls_per_sample == 1 else sample_words(spread.calls_per_sample, "")
    if spread.single_calls:
        of = "a separate pass with one call a sample; the run's number does not use it"
    return [
        f"# case     {spread.case}: {describe_case(plan.cases[spread.case])}",
        f"# time     of one call (us); the run's number is the {time}",
        f"# samples  {spread.samples}; {of}",
        *([] if not spread.flagged else [f"# flagged  {flagged_words(spread.flagged)}{left_out(spread)}"]),
        f"# bins     {_bins(spread)}",
    ]


def left_out(spread: Distribution) -> str:
    """What is added to the number of flagged samples where percentiles are without them; else empty."""
    return "; they are in the bins but not in the percentiles" if spread.kept < spread.samples else ""


def foot(spread: Distribution) -> list[str]:
    """Percentiles that so many samples can carry, and the modes."""
    lines = ["# " + ", ".join(_percentile(item, spread.kept) for item in spread.percentiles)]
    if spread.modes:
        low, high = (
            f"{format_time_us(mode.centre_ns)} us ({format_share(mode.share, decimals=0)})"
            for mode in spread.modes
        )
        lines.append(f"# two modes: {low} and {high}; the median lies in the larger one")
    return lines


def bars(spread: Distribution) -> list[Bar]:
    """A bar for every bin, empty ones too. A bin with samples is at least one character long."""
    edges = [_edge(edge, spread) for edge in spread.edges_ns]
    most = max(spread.counts)
    return [
        Bar(
            edges[index],
            edges[index + 1],
            str(count),
            math.ceil(BAR_WIDTH * count / most),
            " ".join(_marks(spread, index)),
        )
        for index, count in enumerate(spread.counts)
    ]


def plain(spread: Distribution) -> list[str]:
    """The bars as text, under a head that starts with #."""
    return [f"#{_columns('from', 'to', 'count', spread)[1:]}", *map(str.rstrip, _lines(spread, _PLAIN_BAR))]


def coloured(spread: Distribution) -> Iterator[Text]:
    """The same for a terminal that can show blocks."""
    from rich.text import Text

    yield Text(f"#{_columns('from', 'to', 'count', spread)[1:]}")
    for bar, line in zip(bars(spread), _lines(spread, _BLOCK), strict=True):
        text = Text(line.rstrip())
        text.highlight_regex(f"{_BLOCK}+", "cyan")
        if bar.marks:
            text.highlight_words([bar.marks], "bold")
        yield text


def _lines(spread: Distribution, block: str) -> Iterator[str]:
    for bar in bars(spread):
        columns = _columns(bar.low_us, bar.high_us, bar.count, spread)
        yield f"{columns}  {block * bar.length:<{BAR_WIDTH}}  {bar.marks}"


def _columns(low: str, high: str, count: str, spread: Distribution) -> str:
    width = max(8, *(len(_edge(edge, spread)) for edge in spread.edges_ns))
    return f"  {low:>{width}}  {high:>{width}}  {count:>7}"


def _edge(edge_ns: float, spread: Distribution) -> str:
    """Microseconds with as many digits as neighbouring edges take to differ."""
    steps = [
        high - low for low, high in zip(spread.edges_ns, spread.edges_ns[1:], strict=False) if high > low
    ]
    smallest_us = min(steps, default=NS_PER_US) / NS_PER_US
    return f"{edge_ns / NS_PER_US:.{max(0, 1 - math.floor(math.log10(smallest_us)))}f}"


def _bins(spread: Distribution) -> str:
    if len(spread.counts) == 1:
        return "1: all samples are equal"
    ratio = spread.edges_ns[-1] / spread.edges_ns[0] if spread.edges_ns[0] > 0 else math.inf
    kind = "of equal ratio (logarithmic)" if spread.scale is Scale.LOG else "of equal width"
    return f"{len(spread.counts)} {kind}: the largest sample is {ratio:.3g} times the smallest"


def _percentile(item: Percentile, samples: int) -> str:
    name = f"p{item.percent:g}"
    if item.value_ns is None:
        return f"{name} {NOT_APPLICABLE} (needs {item.needed} samples, has {samples})"
    return f"{name} {format_time_us(item.value_ns)} us"


def _marks(spread: Distribution, index: int) -> Iterator[str]:
    for item in spread.percentiles:
        if item.value_ns is not None and _bin_of(spread, item.value_ns) == index:
            yield f"p{item.percent:g}"
    for mode in spread.modes:
        if _bin_of(spread, mode.centre_ns) == index:
            yield "mode"


def _bin_of(spread: Distribution, value_ns: float) -> int:
    """The bin that holds a value; the last one has its upper edge too."""
    inside = sum(edge <= value_ns for edge in spread.edges_ns) - 1
    return min(max(inside, 0), len(spread.counts) - 1)
