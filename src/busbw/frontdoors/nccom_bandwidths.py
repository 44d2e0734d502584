"""Bandwidths of a row of nccom-test, which belong to the time that it prints."""

from __future__ import annotations

from typing import Final

from busbw.model.case import Case
from busbw.model.result import CaseResult, GroupResult
from busbw.units import gb_per_s

UNEQUAL: Final = (
    "groups of several sizes: algbw is size / time of the row, busbw has the factor of the group with the"
    " largest mean"
)


def bandwidths(case: Case, result: CaseResult, time_ns: float | None) -> tuple[float | None, float | None]:
    """Algbw and busbw at another time than the headline's: of the row's size and of the time that is printed.
    Over groups of several sizes busbw has the factor of the group that bounds the row, which is the one with
    the largest mean.
    """
    if time_ns is None or not time_ns or result.time_ns is None:
        return None, None
    algbw, busbw = result.algbw_gb_per_s, result.busbw_gb_per_s
    bounding = _bounding(result)
    if algbw is None and bounding is not None:
        # The time is per call that of whichever group was last, so no group's own bandwidth belongs to it.
        algbw = gb_per_s(case.size_bytes, time_ns)
        return algbw, None if bounding.ranks == 1 else algbw * case.row.busbw_factor(bounding.ranks)
    scale = result.time_ns / time_ns
    return (
        None if algbw is None else algbw * scale,
        None if busbw is None else busbw * scale,
    )


def _bounding(result: CaseResult) -> GroupResult | None:
    """The group with the largest mean."""
    timed = [group for group in result.groups if group.time_ns is not None]
    return max(timed, key=lambda group: group.mean_ns or group.time_ns or 0.0, default=None)
