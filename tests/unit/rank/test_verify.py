from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from busbw_testing.ranks import case, on_ranks, scripted, scripted_backend
from busbw_testing.sweeps import Notes, plan_of

from busbw.model.plan import Limits, Plan
from busbw.model.result import WrongData
from busbw.rank import main
from busbw.rank import verify as checking
from busbw.rank.backends.base import CheckOutcome, Strays
from busbw.rank.verify import AFTER_SEED, Checks, Verified, WrongKeeper

GOOD = CheckOutcome(0, -1, 2**63 + 5)
PAST = "wrote 16 bytes past the receive buffer"


def verified(case: Any, outcomes: list[list[CheckOutcome]]) -> Verified:
    """``outcomes[rank][check]``; every rank must come to one verdict."""
    checks = len(outcomes[0])
    cases = [scripted(lambda call: 1.0, check_outcomes=list(own)) for own in outcomes]
    verdicts = on_ranks(len(cases), lambda world: Checks(case, cases[world.rank], world, 7).before(checks))
    assert all(verdict == verdicts[0] for verdict in verdicts)
    return verdicts[0]


WRONG, MORE = CheckOutcome(3, 17, 1), CheckOutcome(2**33, 0, 2)
OTHER = CheckOutcome(0, -1, GOOD.digest - 2**32)


@pytest.mark.parametrize(
    ("name", "outcomes", "wrong_at"),
    [
        ("all_reduce", [[GOOD], [GOOD], [GOOD]], ()),
        (
            "all_reduce",
            [[GOOD], [WRONG], [MORE]],
            (WrongData(1, "host0", 3, 17), WrongData(2, "host0", 2**33, 0)),
        ),
        # Ranks that must agree.
        ("all_reduce", [[GOOD], [GOOD], [OTHER]], (WrongData(2, "host0", 1, -1, "differs from rank 0"),)),
        ("sendrecv", [[GOOD], [OTHER]], ()),
    ],
)
def test_wrong_elements_are_summed_and_their_ranks_named(
    name: str, outcomes: list[list[CheckOutcome]], wrong_at: tuple[WrongData, ...]
) -> None:
    assert verified(case(name), outcomes) == Verified(sum(at.wrong for at in wrong_at), wrong_at)


def test_the_check_that_found_most_counts_and_the_first_place_of_a_rank_is_kept() -> None:
    outcomes = [[GOOD, GOOD, GOOD], [GOOD, CheckOutcome(1, 5, 0), CheckOutcome(4, 0, 0)]]
    verdict = verified(case(), outcomes)
    assert verdict == Verified(4, (WrongData(1, "host0", 4, 5),))


def test_each_check_has_its_own_data_and_the_next_slot() -> None:
    prepared = scripted(lambda call: 1.0, slots=2)
    on_ranks(1, lambda world: Checks(case(index=4), prepared, world, 100).before(3))
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


RIGHT = CheckOutcome(0, -1, 7)


@dataclass
class Tensors:
    """A prepared case that only has something to save."""

    rank: int

    def tensors(self, seed: int, slot: int, first_wrong: int) -> bytes:
        return f"{self.rank} {seed} {slot} {first_wrong}".encode()


@dataclass
class Folder:
    files: dict[str, bytes] = field(default_factory=dict)

    def saved(self, name: str, content: bytes) -> None:
        self.files[name] = content


def kept(offsets: list[int], checks: int = 1) -> dict[str, bytes]:
    """The files of so many failed checks of case 3, each with these first wrong elements by rank."""
    folder = Folder()

    def live(world: Any) -> None:
        keep: Any = WrongKeeper(world, folder if world.rank == 0 else None)
        for check in range(checks):
            keep.keep(3, Tensors(world.rank), 100 + check, check % 2, offsets[world.rank])

    on_ranks(len(offsets), live)
    return folder.files


def test_of_many_ranks_the_first_few_are_kept() -> None:
    names = kept([0] * (checking.KEPT_RANKS + 3))
    assert list(names) == [f"case-3-seed-100-rank-{rank}.npz" for rank in range(checking.KEPT_RANKS)]


def test_of_many_checks_the_first_ones_are_kept() -> None:
    assert len(kept([1, -1], checks=checking.KEPT_CHECKS + 5)) == checking.KEPT_CHECKS


@pytest.mark.parametrize(("of_run", "of_stream"), [(True, None), (False, None), (False, True), (True, False)])
def test_a_run_saves_where_it_was_asked_to(
    monkeypatch: pytest.MonkeyPatch, of_run: bool, of_stream: bool | None
) -> None:
    """Of the second case's two checks the second fails, on rank 1. A stream's own word is above the run's."""
    folder = Folder()
    # Two checks of the first case and one after its calls; the first check of the second case.
    cases = [
        scripted(lambda call: 1e6, check_outcomes=[*(RIGHT,) * 4, CheckOutcome(rank, 4 if rank else -1, 7)])
        for rank in range(2)
    ]
    for rank, own in enumerate(cases):
        monkeypatch.setattr(own, "tensors", Tensors(rank).tensors, raising=False)
    monkeypatch.setattr(main, "create", lambda plan, world: scripted_backend(cases[world.rank], 10.0))
    plan = replace(plan_of("all_reduce", checks=2, limits=Limits(calls=8)), save_wrong=of_run)
    save_wrong = of_run if of_stream is None else of_stream
    monkeypatch.setattr(Plan, "of_case", lambda plan, _: replace(plan, save_wrong=save_wrong))
    notes = Notes()
    monkeypatch.setattr(notes, "saved", folder.saved, raising=False)
    on_ranks(2, lambda world: main.run(world, plan, notes if world.rank == 0 else None))
    seed = plan.seed + 1 * 2 + 1
    assert folder.files == (
        {f"case-1-seed-{seed}-rank-1.npz": f"1 {seed} 0 4".encode()} if save_wrong else {}
    )
    assert [result.wrong for result in notes.results] == [0, 1, 0, 0]


# ---- after the timed calls -----------------------------------------------------------------------------


def verified_after(case: Any, outcomes: list[CheckOutcome], strays: Strays, before: Verified) -> Verified:
    """``strays`` are those of rank 1 in the timed calls."""
    cases = [
        scripted(
            lambda call: 1.0,
            slots=3,
            check_outcomes=[outcome],
            found_strays=strays if rank == 1 else Strays(),
        )
        for rank, outcome in enumerate(outcomes)
    ]
    verdicts = on_ranks(len(cases), lambda world: Checks(case, cases[world.rank], world, 7).after(before)[0])
    assert all(verdict == verdicts[0] for verdict in verdicts)
    assert cases[0].log == [
        ("strays",),
        ("load", 7 + AFTER_SEED, 2),
        ("run", 2, 1),
        ("check", 7 + AFTER_SEED, 2),
    ]
    return verdicts[0]


@pytest.mark.parametrize(
    ("outcome", "strays", "wrong", "fault"),
    [
        (CheckOutcome(0, -1, GOOD.digest, strays=Strays(past_recv=16)), Strays(), 4, PAST),
        (GOOD, Strays(past_recv=16), 4, PAST),
        (GOOD, Strays(before_send=1), 1, "wrote 1 byte before the send buffer"),
        (CheckOutcome(0, -1, GOOD.digest, sent_changed=3), Strays(), 3, "changed the send buffer"),
        (
            CheckOutcome(0, -1, GOOD.digest, 2, Strays(4096, 0, 0, 4)),
            Strays(),
            2 + 1024 + 1,
            (
                "wrote 4096 bytes before the receive buffer; wrote 4 bytes past the send buffer;"
                " changed the send buffer"
            ),
        ),
    ],
)
def test_what_else_a_call_has_changed_is_said(
    outcome: CheckOutcome, strays: Strays, wrong: int, fault: str
) -> None:
    verdict = verified_after(case(), [GOOD, outcome], strays, Verified(0, ()))
    when = f"{fault}; in the check after the timed calls"
    assert verdict == Verified(wrong, (WrongData(1, "host0", wrong, -1, when),))


def test_a_fault_that_was_there_before_is_not_said_to_be_later() -> None:
    before = Verified(2, (WrongData(1, "host0", 2, 5),))
    wrong = CheckOutcome(3, 0, 1)
    verdict = verified_after(case(), [GOOD, wrong], Strays(), before)
    assert verdict == Verified(3, (WrongData(1, "host0", 3, 5),))
