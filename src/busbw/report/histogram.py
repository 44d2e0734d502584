"""How the samples of a case spread, as bars: plain text in a pipe, blocks and colours on a terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
_MARKED: Final = r"(p[\d.]+|mode)( (p[\d.]+|mode))*$"


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


def lines(spread: Distribution, block: str = _PLAIN_BAR) -> list[str]:
    """A heading, and a bar of ``block`` for every bin, empty ones too; one with samples has a character at
    least.
    """
    edges = [_edge(edge, spread) for edge in spread.edges_ns]
    width, most = max(8, *map(len, edges)), max(spread.counts)
    made = [f"#{'from':>{width + 1}}  {'to':>{width}}  {'count':>7}"]
    for index, count in enumerate(spread.counts):
        bar = block * math.ceil(BAR_WIDTH * count / most)
        columns = f"  {edges[index]:>{width}}  {edges[index + 1]:>{width}}  {count:>7}"
        made.append(f"{columns}  {bar:<{BAR_WIDTH}}  {' '.join(_marks(spread, index))}".rstrip())
    return made


def coloured(spread: Distribution) -> Iterator[Text]:
    """The same for a terminal that can show blocks."""
    from rich.text import Text

    for line in lines(spread, _BLOCK):
        text = Text(line)
        text.highlight_regex(f"{_BLOCK}+", "cyan")
        text.highlight_regex(_MARKED, "bold")
        yield text


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
