"""The table of a run on a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.judge.scatter import Prior, Scatter, SizeClass
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status, StopReason
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.report import screen_table
from busbw.terminal import fit

GOOD = CaseResult(
    0, Status.GOOD, 12345.6, 12000.0, 12600.0, 12400.0, 84.934, 148.635, 8, 4, 20, StopReason.PRECISION, 0
)


def plan_of(*stats: str, size: str = "1M") -> Plan:
    return make_plan(
        ("all_reduce",), RunSettings(minbytes=Size(size), maxbytes=Size(size), stats=stats), "mpi", 2
    )


def shown(plan: Plan, width: int, *results: CaseResult) -> list[str]:
    layout = screen_table.lay_out(plan, plan.cases[0], width)
    sides = [replace(result, case=at) for at, result in enumerate(results)]
    heading = screen_table.heading(layout, plan.cases[0])
    return [*heading, *screen_table.rows(layout, plan, plan.cases[0], sides)]


WRONG = replace(
    GOOD, status=Status.WRONG, wrong=17, algbw_gb_per_s=None, busbw_gb_per_s=None, marks=("unstable",)
)


def test_placements_stand_beside_each_other_from_100_columns() -> None:
    assert shown(plan_of(), 100, GOOD, WRONG) == [
        "# all_reduce sum float",
        "#               out-of-place                        in-place",
        "# size     time      +-   algbw   busbw      time      +-   algbw   busbw",
        "#            us     95%    GB/s    GB/s        us     95%    GB/s    GB/s",
        " 1 MiB    12.35    2.4%   84.93  148.63     12.35    2.4%     n/a     n/a WRONG 17",
    ]


def test_placements_stand_below_each_other_on_less() -> None:
    assert shown(plan_of(), 80, GOOD, WRONG) == [
        "# all_reduce sum float",
        "# size         time      +-   algbw   busbw",
        "#                us     95%    GB/s    GB/s",
        " 1 MiB out    12.35    2.4%   84.93  148.63",
        " 1 MiB in     12.35    2.4%     n/a     n/a WRONG 17",
    ]


@pytest.mark.parametrize("width", [80, 100])
def test_the_longest_values_fit(width: int) -> None:
    long = replace(
        GOOD, time_ns=12345678e3, low_ns=None, tau=9.0, samples=99, algbw_gb_per_s=1234.567,
        marks=("descheduled", "stopped"),
    )  # fmt: skip
    lines = shown(plan_of(size="1073741820"), width, long, GOOD)
    assert max(map(len, lines)) <= width
    assert any("descheduled" in line for line in lines)
    assert not any("unstable" in line for line in lines)


def test_columns_that_were_asked_for_are_shown_as_far_as_they_fit() -> None:
    many = plan_of("p50,p90,p99,p99.9,cv,first,skew,issue")
    assert "p50      p90      p99    p99.9" in "\n".join(shown(many, 200, GOOD, GOOD))
    narrow = shown(many, 80, GOOD, GOOD)
    assert max(map(len, narrow)) <= 80
    assert "# --wide also shows p99, p99.9, cv, first, skew, issue" in narrow


@pytest.mark.parametrize(
    ("out", "inside", "mark"),
    [
        (GOOD, replace(GOOD, marks=("stopped",)), "stopped(in)"),
        (replace(GOOD, marks=("stopped",)), replace(GOOD, marks=("stopped",)), "stopped"),
        (GOOD, CaseResult(1, Status.FAILED), "failed(in)"),
        (WRONG, WRONG, "WRONG 17"),
        (GOOD, replace(WRONG, wrong=None), "WRONG"),
        (replace(GOOD, marks=("stopped", "unstable")), replace(GOOD, marks=("stopped",)), "unstable(out)"),
        (replace(GOOD, marks=("stopped",)), CaseResult(1, Status.FAILED), "failed(in)"),
        (GOOD, GOOD, ""),
    ],
)
def test_a_row_has_one_mark(out: CaseResult, inside: CaseResult, mark: str) -> None:
    placements = [case.placement for case in plan_of().cases]
    assert screen_table.mark_of(placements, (out, inside)) == mark


def test_how_far_short_launches_differ_is_said_once() -> None:
    plan = plan_of(size="8")
    assert screen_table.scatter_line(Prior(on_device=True), plan, [GOOD]) == [
        "# scatter  below 50 us, launches differ by about 15% (the default: too few earlier launches here)"
    ]
    known = Prior(on_device=True, known={("", SizeClass.SMALL): Scatter(0.042, 12)})
    assert screen_table.scatter_line(known, plan, [GOOD, GOOD]) == [
        "# scatter  below 50 us, launches differ by about 4% (12 earlier launches here)"
    ]
    assert not screen_table.scatter_line(known, plan, [replace(GOOD, time_ns=50_000.0)])


def test_long_lines_go_on_below_their_text_and_no_word_is_cut() -> None:
    path = "/scratch/" + "a" * 60
    line = f"# record   {path} is where everything stands that was measured, and nothing else"
    assert list(fit(line, 60)) == [
        f"# record   {path}",
        "#          is where everything stands that was measured, and",
        "#          nothing else",
    ]
    assert list(fit(line, 200)) == [line]
    assert list(fit(f"  libmpi.so.12  MPICH 5.0.2  /opt/{'b' * 40}", 60)) == [
        "  libmpi.so.12  MPICH 5.0.2",
        f"    /opt/{'b' * 40}",
    ]
