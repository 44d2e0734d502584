from __future__ import annotations

from collections.abc import Callable
from typing import Any

from busbw.backends.base import CheckOutcome
from busbw.model.result import WrongData
from busbw.worker.verify import Verdict, verify

OnRanks = Callable[[int, Callable[[Any], Any]], list[Any]]
GOOD = CheckOutcome(0, -1, 2**63 + 5)


def verified(on_ranks: OnRanks, scripted: Any, case: Any, outcomes: list[list[CheckOutcome]]) -> Verdict:
    """``outcomes[rank][check]``; every rank must come to one verdict."""
    checks = len(outcomes[0])
    cases = [scripted(lambda call: 1.0, check_outcomes=list(own)) for own in outcomes]
    verdicts = on_ranks(len(cases), lambda world: verify(case, cases[world.rank], world, 7, checks))
    assert all(verdict == verdicts[0] for verdict in verdicts)
    return verdicts[0]


def test_all_good(on_ranks: OnRanks, scripted: Any, case: Any) -> None:
    assert verified(on_ranks, scripted, case(), [[GOOD], [GOOD], [GOOD]]) == Verdict(0, ())


def test_wrong_elements_are_summed_and_their_ranks_named(on_ranks: OnRanks, scripted: Any, case: Any) -> None:
    wrong = CheckOutcome(3, 17, 1)
    more = CheckOutcome(2**33, 0, 2)
    assert verified(on_ranks, scripted, case(), [[GOOD], [wrong], [more]]) == Verdict(
        2**33 + 3, (WrongData(1, "host0", 3, 17), WrongData(2, "host0", 2**33, 0))
    )


def test_ranks_that_must_agree_but_differ_are_wrong(on_ranks: OnRanks, scripted: Any, case: Any) -> None:
    other = CheckOutcome(0, -1, GOOD.digest - 2**32)
    verdict = verified(on_ranks, scripted, case(), [[GOOD], [GOOD], [other]])
    assert verdict == Verdict(1, (WrongData(2, "host0", 1, -1),))


def test_a_digest_that_differs_in_its_low_half_is_seen(on_ranks: OnRanks, scripted: Any, case: Any) -> None:
    other = CheckOutcome(0, -1, GOOD.digest + 1)
    assert verified(on_ranks, scripted, case(), [[GOOD], [other]]).wrong == 1


def test_ranks_of_a_ring_need_not_agree(on_ranks: OnRanks, scripted: Any, case: Any) -> None:
    other = CheckOutcome(0, -1, 1)
    assert verified(on_ranks, scripted, case("sendrecv"), [[GOOD], [other]]) == Verdict(0, ())


def test_checks_add_up_and_the_first_place_of_a_rank_is_kept(
    on_ranks: OnRanks, scripted: Any, case: Any
) -> None:
    outcomes = [[GOOD, GOOD, GOOD], [GOOD, CheckOutcome(1, 5, 0), CheckOutcome(4, 0, 0)]]
    verdict = verified(on_ranks, scripted, case(), outcomes)
    assert verdict == Verdict(5, (WrongData(1, "host0", 5, 5),))


def test_each_check_has_its_own_data_and_the_next_slot(on_ranks: OnRanks, scripted: Any, case: Any) -> None:
    prepared = scripted(lambda call: 1.0, slots=2)
    on_ranks(1, lambda world: verify(case(index=4), prepared, world, 100, 3))
    assert prepared.log == [
        ("load", 112, 0),
        ("run", 0, 1),
        ("check", 112, 0),
        ("load", 113, 1),
        ("run", 1, 1),
        ("check", 113, 1),
        ("load", 114, 0),
        ("run", 0, 1),
        ("check", 114, 0),
    ]


def test_no_two_cases_of_a_plan_share_check_data(on_ranks: OnRanks, scripted: Any, case: Any) -> None:
    seeds: list[int] = []
    for index in range(5):
        prepared = scripted(lambda call: 1.0)
        on_ranks(1, lambda world, p=prepared, i=index: verify(case(index=i), p, world, 9, 3))
        seeds += [entry[1] for entry in prepared.log if entry[0] == "load"]
    assert len(set(seeds)) == 15
