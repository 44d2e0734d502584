"""The rows of a run: all columns, which scripts read, and those that fit a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.judge.scatter import Prior, Scatter, SizeClass
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status, StopReason
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.report.rows import all_columns, fitted, heading, rows, scatter_line, worst_mark
from busbw.terminal import fit

GOOD = CaseResult(
    0, Status.GOOD, 12345.6, 12000.0, 12600.0, 12400.0, 84.934, 148.635, 8, 4, 20, StopReason.PRECISION, 0
)


def plan_of(*stats: str, size: str = "1M") -> Plan:
    return make_plan(
        ("all_reduce",), RunSettings(minbytes=Size(size), maxbytes=Size(size), stats=stats), "mpi", 2
    )


def case(collective: str = "all_reduce", op: str = "sum", size: int = 2**20) -> Case:
    return Case(0, collective, "float", op, -1, size, size, size // 4, Placement.OUT_OF_PLACE)


def shown(plan: Plan, width: int, *results: CaseResult) -> list[str]:
    layout = fitted(plan, plan.cases[0], width)
    sides = [replace(result, case=at) for at, result in enumerate(results)]
    return [*heading(layout), *rows(layout, plan, plan.cases[0], sides)]


WRONG = replace(
    GOOD, status=Status.WRONG, wrong=17, algbw_gb_per_s=None, busbw_gb_per_s=None, marks=("unstable",)
)


def test_placements_stand_beside_each_other_from_100_columns_and_below_each_other_on_less() -> None:
    assert shown(plan_of(), 100, GOOD, WRONG) == [
        "# all_reduce sum float",
        "#               out-of-place                        in-place",
        "# size     time      +-   algbw   busbw      time      +-   algbw   busbw",
        "#            us     95%    GB/s    GB/s        us     95%    GB/s    GB/s",
        " 1 MiB    12.35    2.4%   84.93  148.63     12.35    2.4%     n/a     n/a WRONG 17",
    ]
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
    assert worst_mark(case(), list(zip(placements, (out, inside), strict=True))).strip() == mark


def test_how_far_short_launches_differ_is_said_once() -> None:
    plan = plan_of(size="8")
    assert scatter_line(Prior(on_device=True), plan, [GOOD]) == [
        "# scatter  below 50 us, launches differ by about 15% (the default: too few earlier launches here)"
    ]
    known = Prior(on_device=True, known={("", SizeClass.SMALL): Scatter(0.042, 12)})
    assert scatter_line(known, plan, [GOOD, GOOD]) == [
        "# scatter  below 50 us, launches differ by about 4% (12 earlier launches here)"
    ]
    assert not scatter_line(known, plan, [replace(GOOD, time_ns=50_000.0)])


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


# With all columns.

PLAN = replace(plan_of(), show=())
BAD = CaseResult(1, Status.WRONG, 12345.6, 12000.0, 12600.0, 12400.0, wrong=17)
EMPTY = CaseResult(0, Status.GOOD, 512.0, 512.0, 512.0, 512.0, 0.0, 0.0, 8, 4, 20, StopReason.PRECISION)


def row_of(what: Case, *results: CaseResult, plan: Plan = PLAN) -> str:
    sides = [replace(result, case=at) for at, result in enumerate(results)]
    (line,) = rows(all_columns(plan, plan.cases[0]), plan, what, sides)
    return line


def test_the_heading_of_all_columns() -> None:
    name, titles, units = heading(all_columns(PLAN, case()))
    assert name == f"# {'all_reduce':<61}out-of-place{'in-place':>39}"
    of_case = (
        "#        size        count      type  redop  root",
        "#         (B)   (elements)                    ",
    )
    assert titles == of_case[0] + "       time     +-   algbw   busbw #wrong" * 2
    assert units == (
        of_case[1] + "          (us)    95%  (GB/s)  (GB/s)       " + "       (us)    95%  (GB/s)  (GB/s)"
    )


CASE = "      1048576       262144     float    sum    -1"
SIDE = "      12.35   2.4%   84.93  148.63      0"


@pytest.mark.parametrize(
    ("what", "results", "text"),
    [
        (case(), (GOOD, GOOD), CASE + SIDE + SIDE),
        (case(), (GOOD, BAD), CASE + SIDE + "      12.35   2.4%     n/a     n/a     17  WRONG"),
        (
            case("sendrecv", ""),
            (GOOD, CaseResult(1, Status.NOT_APPLICABLE)),
            CASE.replace(" sum", "none") + SIDE + "        n/a            n/a     n/a    N/A",
        ),
        (
            case("all_gather", "", 0),
            (EMPTY, EMPTY),
            "            0            0     float   none    -1"
            + "       0.51   0.0%    0.00    0.00    N/A" * 2,
        ),
        (case(), (GOOD,), CASE + SIDE),
        (
            case(),
            (CaseResult(0, Status.GOOD, stop=StopReason.CHECK_ONLY, wrong=0),) * 2,
            CASE + "        n/a            n/a     n/a      0" * 2,
        ),
    ],
    ids=["good", "wrong", "not applicable", "size 0", "half", "only checked"],
)
def test_rows_with_all_columns(what: Case, results: tuple[CaseResult, ...], text: str) -> None:
    assert row_of(what, *results) == text


def test_marks_follow_the_row_each_once() -> None:
    """The columns before them stay where they are, so that a script may cut them off."""
    drifted = replace(GOOD, marks=("unstable", "stopped"))
    wrong = replace(BAD, marks=("stopped", "throttled"))
    row, plain = row_of(case(), drifted, wrong), row_of(case(), GOOD, BAD)
    assert row == f"{plain.removesuffix('  WRONG')}  WRONG unstable(out) stopped throttled(in)"
    assert row_of(case(), GOOD, replace(BAD, status=Status.GOOD, wrong=0)).endswith("0")


@pytest.mark.parametrize("show", [(), ("p99", "imbalance", "n"), ("timestamp", "first", "skew", "issue")])
def test_columns_that_were_asked_for_line_up_too(show: tuple[str, ...]) -> None:
    times = {"first_call_ns": 9e6, "skew_ns": 1.0, "issue_ns": 2.0}
    stats, finished = {"p99": 123_456.0, "imbalance": 500.0}, "2026-01-02T03:04:05.678+00:00"
    full, plan = replace(GOOD, stats=stats, finished=finished, **times), replace(PLAN, show=show)
    titles, row = heading(all_columns(plan, case()))[1], row_of(case(), full, full, plan=plan)
    assert len(titles) == len(row)
    # Every title ends where its value ends.
    ends = [at for at, letter in enumerate(titles) if letter != " " and (titles + " ")[at + 1] == " "]
    assert all(row[at] != " " and (row + " ")[at + 1] == " " for at in ends[1:])
    assert len(row.split()) == len(titles.split()) - 1 == len(ends) - 1
