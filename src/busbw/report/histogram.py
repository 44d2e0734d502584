"""How the samples of a case spread, as a plot. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from busbw.judge.samples import Distribution, Scale, nccl_tests_mean_ns
from busbw.model.case import Case
from busbw.model.result import CaseResult
from busbw.report.plots import LINEAR, LOG, Plot, Table
from busbw.report.ranks import flagged_words
from busbw.units import NS_PER_US, format_share, format_size, format_time

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MANY_US: Final = 1e7  # ns from which times are shown in milliseconds
_DIGITS: Final = range(4, 13)


def histogram(
    name: str, case: Case, result: CaseResult | None, spread: Distribution, digests: npt.NDArray[np.void]
) -> Plot:
    """A bar a bin, with the times that are made of the samples; ``name`` is the run's. ``digests`` are those
    of its ranks.
    """
    edges = spread.edges_ns
    unit, unit_ns = ("ms", 1000 * NS_PER_US) if edges[-1] >= _MANY_US else ("us", NS_PER_US)
    # As many digits as the edges take to differ.
    texts = [[format_time(edge, digits) for edge in edges] for digits in _DIGITS]
    words = next((each for each in texts if len(set(each)) == len(edges)), texts[0])
    rows = [
        {
            "low": edges[at] / unit_ns,
            "high": edges[at + 1] / unit_ns,
            "zero": 0,
            "count": count,
            "text": f"{words[at]} to {words[at + 1]}: {count} samples",
        }
        for at, count in enumerate(spread.counts)
    ]
    marks = _marks(case, result, digests)
    size = format_size(case.size_bytes)
    calls = "one call" if spread.calls_per_sample == 1 else f"{spread.calls_per_sample} calls"
    note = f"{spread.samples} samples of {calls} each."
    note += " A separate pass, which the run's number does not use." if spread.single_calls else ""
    note += f" Flagged: {flagged_words(spread.flagged)}{_left_out(spread)}." if spread.flagged else ""
    return Plot(
        "histogram",
        (name, case.collective, case.dtype, case.op),
        f"histogram-{size.replace(' ', '')}-{case.placement.value}",
        f"Samples of {case.collective} {case.dtype}, {size}, {case.placement.value}",
        note,
        tuple(rows),
        Table(("of the samples", "value"), tuple(_facts(spread, marks))),
        {
            "x": f"time of a call ({unit})",
            "marks": [(name, value / unit_ns, colour) for name, value, colour in marks],
            "scales": (LOG if spread.scale is Scale.LOG else LINEAR,),
        },
    )


def _marks(
    case: Case, result: CaseResult | None, digests: npt.NDArray[np.void]
) -> list[tuple[str, float, str]]:
    """Name, time in ns and colour of what else is made of the case's samples."""
    median_ns, mean_ns = (result.time_ns, result.mean_ns) if result is not None else (None, None)
    found = {
        "median": (median_ns, "c2"),
        "mean of all": (mean_ns, "c3"),
        "mean over ranks (nccl-tests prints it)": (nccl_tests_mean_ns(digests, case.index), "c4"),
    }
    return [(name, value, colour) for name, (value, colour) in found.items() if value is not None]


def _facts(spread: Distribution, marks: list[tuple[str, float, str]]) -> list[tuple[str, str]]:
    facts = [("samples", str(spread.samples)), ("calls a sample", str(spread.calls_per_sample))]
    if spread.kept < spread.samples:
        facts.append(("samples of the percentiles", str(spread.kept)))
    facts += [
        (
            f"p{each.percent:g}",
            f"needs {each.needed} samples" if each.value_ns is None else format_time(each.value_ns, 4),
        )
        for each in spread.percentiles
    ]
    facts += [(name, format_time(value, 4)) for name, value, _ in marks]
    facts += [
        (f"mode near {format_time(mode.centre_ns, 4)}", format_share(mode.share, decimals=0))
        for mode in spread.modes
    ]
    return facts


def _left_out(spread: Distribution) -> str:
    """What is added to the number of flagged samples where percentiles are without them; else empty."""
    return "; they are in the bins but not in the percentiles" if spread.kept < spread.samples else ""
