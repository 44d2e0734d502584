"""--save-wrong: what failed checks find comes to rank 0, bounded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from busbw_testing.sweeps import Notes, OnRanks, plan_of

from busbw.backends.base import CheckOutcome
from busbw.worker import main, wrong
from busbw.worker.wrong import WrongKeeper

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


def kept(on_ranks: OnRanks, offsets: list[int], checks: int = 1) -> dict[str, bytes]:
    """The files of so many failed checks of case 3, each with these first wrong elements by rank."""
    folder = Folder()

    def live(world: Any) -> None:
        keep: Any = WrongKeeper(world, folder if world.rank == 0 else None)
        on_wrong = keep.of(3, Tensors(world.rank))
        for check in range(checks):
            on_wrong(100 + check, check % 2, offsets[world.rank])

    on_ranks(len(offsets), live)
    return folder.files


def test_ranks_that_found_something_send_it(on_ranks: OnRanks) -> None:
    assert kept(on_ranks, [-1, 5, -1, 9]) == {
        "case-3-seed-100-rank-1.npz": b"1 100 0 5",
        "case-3-seed-100-rank-3.npz": b"3 100 0 9",
    }


def test_of_many_ranks_the_first_few_are_kept(on_ranks: OnRanks) -> None:
    names = kept(on_ranks, [0] * (wrong.KEPT_RANKS + 3))
    assert list(names) == [f"case-3-seed-100-rank-{rank}.npz" for rank in range(wrong.KEPT_RANKS)]


def test_of_many_checks_the_first_ones_are_kept(on_ranks: OnRanks) -> None:
    assert len(kept(on_ranks, [1, -1], checks=wrong.KEPT_CHECKS + 5)) == wrong.KEPT_CHECKS


@pytest.mark.parametrize("save_wrong", [True, False])
def test_a_run_saves_where_it_was_asked_to(
    on_ranks: OnRanks,
    monkeypatch: pytest.MonkeyPatch,
    scripted: Any,
    scripted_backend: Any,
    save_wrong: bool,
) -> None:
    """Of the second case's two checks the second fails, on rank 1."""
    folder = Folder()
    cases = [
        scripted(lambda call: 1e6, check_outcomes=[*(RIGHT,) * 3, CheckOutcome(rank, 4 if rank else -1, 7)])
        for rank in range(2)
    ]
    for rank, case in enumerate(cases):
        monkeypatch.setattr(case, "tensors", Tensors(rank).tensors, raising=False)
    monkeypatch.setattr(main, "create", lambda plan, world: scripted_backend(cases[world.rank], 10.0))
    plan = replace(plan_of("all_reduce", checks=2), save_wrong=save_wrong)
    notes = Notes()
    monkeypatch.setattr(notes, "saved", folder.saved, raising=False)
    on_ranks(2, lambda world: main.run(world, plan, notes if world.rank == 0 else None))
    seed = plan.seed + 1 * 2 + 1
    assert folder.files == (
        {f"case-1-seed-{seed}-rank-1.npz": f"1 {seed} 0 4".encode()} if save_wrong else {}
    )
    assert [result.wrong for result in notes.results] == [0, 1, 0, 0]
