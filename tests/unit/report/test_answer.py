"""The answer of a run: peak, verdict, what it missed, problems where there are some, and one next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from busbw_testing.compared import record_of

from busbw.judge.diagnose.variance import UNSTABLE
from busbw.judge.expectation import expect
from busbw.judge.launch_history import earlier_runs, launch_of
from busbw.judge.own_reference import launches_of, reference_of
from busbw.judge.references.reference import Reference
from busbw.model.conclusion import Conclusion
from busbw.model.finding import Severity
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import Status
from busbw.report.answer import RunAnswer, answer_lines, answer_of

MIB = 2**20
RUN = record_of({MIB: 100.0, 2 * MIB: 150.0, 4 * MIB: 300.0})


def answer(
    run: RunRecord = RUN, references: Sequence[Reference] = (), conclusions: Sequence[Conclusion] = ()
) -> RunAnswer:
    return answer_of(run, expect([run], references), conclusions, "last")


def reference(run: RunRecord) -> list[Reference]:
    return reference_of("good", run, launches_of([run]))


def lines(said: RunAnswer, columns: int = 100) -> list[str]:
    found = answer_lines(asdict(said), columns)
    assert max(map(len, found)) <= columns
    return found


def test_without_a_reference_the_run_is_offered_as_one_if_it_came_to_its_end() -> None:
    said = answer()
    assert (said.verdict, said.peak_size_bytes, said.loss_unseen) == ("no reference", 2 * MIB, None)
    assert lines(said) == [
        "# 13.98 GB/s at 2 MiB out-of-place: no saved reference matches this operation, job size and device",
        "# next: `busbw expect last --save NAME` keeps this run as the reference",
    ]
    assert len(lines(said, 60)) == 4
    assert answer(replace(RUN, status=RunStatus.RUNNING)).next == "busbw diagnose last"


def test_as_expected_says_what_was_missed() -> None:
    several = record_of(
        {size: [t, t * 1.01, t * 0.99] for size, t in ((MIB, 100.0), (2 * MIB, 150.0))}, name="old"
    )
    said = answer(references=reference(several))
    assert said.verdict == "as expected"
    assert said.loss_unseen is not None
    missed = f"a loss under {said.loss_unseen:.0%} would not show"
    assert said.answer.endswith(f"as expected in 2 of 3 cases (good; {missed})")
    assert lines(said)[-1].startswith("# next: `busbw report last`")


def test_below_names_the_worst_case() -> None:
    fast = record_of({MIB: [5.0, 5.1], 2 * MIB: [150.0, 151.0], 4 * MIB: [300.0, 301.0]}, name="old")
    said = answer(references=reference(fast))
    assert said.verdict == "below"
    assert "below good in 1 of 3 cases; the worst, 1 MiB out-of-place, has 5% of it" in said.answer
    assert said.next == "busbw diagnose last"


def test_what_is_broken_comes_before_what_is_odd() -> None:
    wrong = replace(RUN.results[0], status=Status.WRONG, busbw_gb_per_s=None)
    run = replace(RUN, results=(wrong, *RUN.results[1:]))
    unsteady = Conclusion(Severity.WARNING, "2 of 3 cases are unstable", check=UNSTABLE)
    late = Conclusion(Severity.WARNING, "rank 3 is slow", check="ranks.odd")
    noted = Conclusion(Severity.INFO, "all links are up", check="links.up")
    said = answer(run, conclusions=(noted, late, unsteady))
    assert said.problems == (
        "1 of 3 cases gave wrong data: do not use them",
        "rank 3 is slow",
        "2 of 3 cases are unstable",
    )
    assert "and 1 more" in " ".join(lines(said))
    assert said.next == "busbw diagnose last"
    # What was set on purpose and single unstable cases are no problem.
    chosen = Conclusion(Severity.WARNING, "NCCL_ALGO=Ring", check="algorithm.set")
    some = Conclusion(Severity.INFO, "unstable in 1 of 3 cases", check=UNSTABLE)
    assert answer(conclusions=(chosen, some)).problems == ()


def test_what_has_no_bus_bandwidth_is_no_reference() -> None:
    said = answer(record_of({MIB: 100.0}, ranks=1))
    assert said.answer.startswith("10.49 GB/s (algbw) at 1 MiB out-of-place: one rank copies within")
    assert said.next == "busbw report last"


def test_earlier_runs_are_held_against_those_that_are_alike() -> None:
    earlier = [replace(RUN, run_id=f"run-{number}") for number in range(3)]
    kept = [launch for each in earlier if (launch := launch_of(each, each.run_id)) is not None]
    (found,) = earlier_runs(kept, RUN)
    said = answer(references=[found])
    assert said.verdict == "as expected"
    assert "(3 earlier runs of this machine; " in said.answer
    (others,) = earlier_runs(kept, earlier[0])
    assert others.launches == 2  # a run is not held against itself
    assert earlier_runs(kept, record_of({MIB: 1.0}, version="6.0", name="new")) == ()
