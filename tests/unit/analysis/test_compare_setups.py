"""Series of setups: how far each came, gains beside costs, and which to take."""

from __future__ import annotations

from busbw_testing.compared import record_of

from busbw.analysis.compare import Comparison, Verdict, compare
from busbw.analysis.compare_setups import LaunchOutcome, choices, effects, reaches, setup_arms, winner
from busbw.model.record import RunRecord

BLOCKS = 12
SIZES = (1024, 2048, 4096, 8192)
# Times against the default, by size: helps large messages, hurts small ones.
SETUPS = {
    "plain": (1.0, 1.0, 1.0, 1.0),
    "large": (1.3, 1.0, 0.8, 0.7),
    "better": (0.95, 0.95, 0.95, 0.9),
}


def measured(
    setups: dict[str, tuple[float, ...]] = SETUPS,
) -> tuple[list[LaunchOutcome], dict[str, RunRecord]]:
    outcomes, records = [], {}
    for block in range(BLOCKS):
        for name, factors in setups.items():
            folder = f"launches/{len(outcomes)}"
            level = 100 * (1 + 0.05 * block)  # drifts by 60 % over the series
            wobble = 1 + 0.001 * ((block * 7) % 5)
            times = {size: level * factor * wobble for size, factor in zip(SIZES, factors, strict=True)}
            records[folder] = record_of(times)
            outcomes.append(LaunchOutcome(name, block, 0, folder, 1.0))
    return outcomes, records


def test_blocks_are_paired_and_drift_does_not_matter() -> None:
    outcomes, records = measured()
    found = compare(setup_arms("s", list(SETUPS), outcomes, records, 0))
    large = [row.verdict for row in found.rows if row.arm == "large"]
    assert large == [Verdict.SLOWER, Verdict.SAME, Verdict.FASTER, Verdict.FASTER]
    assert {row.verdict for row in found.rows if row.arm == "better"} == {Verdict.FASTER}
    assert all(row.ratio.n == (BLOCKS, BLOCKS) for row in found.rows)


def test_gains_and_costs_stand_together() -> None:
    outcomes, records = measured()
    found = effects(compare(setup_arms("s", list(SETUPS), outcomes, records, 0)))
    told = [(e.setup, e.verdict, e.first_bytes, e.last_bytes) for e in found]
    assert told == [
        ("large", Verdict.SLOWER, 1024, 1024),
        ("large", Verdict.FASTER, 4096, 8192),
        ("better", Verdict.FASTER, 1024, 8192),
    ]
    gain = found[1]
    assert (round(gain.least_speedup, 2), round(gain.most_speedup, 2)) == (1.25, 1.43)


def test_the_one_to_take_by_size() -> None:
    outcomes, records = measured()
    comparison = compare(setup_arms("s", list(SETUPS), outcomes, records, 0))
    assert [(c.setup, c.first_bytes, c.last_bytes) for c in choices(comparison)] == [
        ("better", 1024, 2048),
        ("large", 4096, 8192),
    ]
    # large wins where it is faster, and is slower elsewhere: not the one to export.
    assert winner([comparison]).setup == "better"


def test_a_setup_that_costs_anywhere_is_not_the_one_to_export() -> None:
    outcomes, records = measured(
        {"plain": (1.0,) * 4, "mixed": (0.7, 0.7, 0.7, 1.3), "calm": (0.9, 1.0, 1.0, 1.0)}
    )
    comparison = compare(setup_arms("s", ["plain", "mixed", "calm"], outcomes, records, 0))
    assert winner([comparison]).setup == "calm"


def test_the_default_is_taken_where_nothing_is_faster() -> None:
    outcomes, records = measured({"plain": (1.0,) * 4, "slow": (1.2,) * 4})
    comparison = compare(setup_arms("s", ["plain", "slow"], outcomes, records, 0))
    assert [(c.setup, c.first_bytes, c.last_bytes) for c in choices(comparison)] == [("plain", 1024, 8192)]
    assert winner([comparison]).setup == "plain"


def test_a_setup_that_never_ran_has_failed_rows() -> None:
    outcomes, records = measured({"plain": (1.0,) * 4})
    outcomes += [
        LaunchOutcome("broken", block, 0, "", 1.0, "no such library", ("dlopen",)) for block in (0, 1)
    ]
    outcomes += [LaunchOutcome("broken", block, 0, "", 0.0, skipped=True) for block in range(2, BLOCKS)]
    comparison = compare(setup_arms("s", ["plain", "broken"], outcomes, records, 0))
    assert {(row.verdict, row.why) for row in comparison.rows} == {(Verdict.FAILED, "no such library")}
    assert winner([comparison]).setup == "plain"
    plain, broken = reaches(["plain", "broken"], outcomes)
    assert (plain.failed, plain.launches) == (0, BLOCKS)
    assert (broken.failed, broken.launches, broken.error, broken.words) == (
        2,
        2,
        "no such library",
        ("dlopen",),
    )


def test_the_largest_number_of_nodes_and_the_first_that_failed() -> None:
    outcomes = [
        LaunchOutcome("plain", block, nodes, "", 1.0, error="hung" if nodes == 8 and block == 1 else "")
        for nodes in (2, 4, 8)
        for block in (0, 1)
    ]
    (reach,) = reaches(["plain"], outcomes)
    assert (reach.largest_nodes, reach.first_failed_nodes, reach.error) == (4, 8, "hung")


def test_launches_that_failed_leave_their_blocks_out() -> None:
    outcomes, records = measured()
    gone = next(o for o in outcomes if o.setup == "large" and o.block == 3)
    del records[gone.folder]
    index = outcomes.index(gone)
    outcomes[index] = LaunchOutcome("large", 3, 0, gone.folder, 9.0, "hung", ())
    comparison = compare(setup_arms("s", list(SETUPS), outcomes, records, 0))
    row = next(row for row in comparison.rows if row.arm == "large")
    assert row.ratio.n == (BLOCKS - 1, BLOCKS - 1)
    assert any("large: a launch failed: hung" in note for note in comparison.notes)


def both(
    setups: dict[str, tuple[float, ...]], on_more_nodes: dict[str, tuple[float, ...]]
) -> list[Comparison]:
    """The same setups on few nodes and on more."""
    made = []
    for factors in (setups, on_more_nodes):
        outcomes, records = measured(factors)
        made.append(compare(setup_arms("s", list(setups), outcomes, records, 0)))
    return made


def test_a_setup_that_costs_on_another_number_of_nodes_is_not_the_one_to_export() -> None:
    few = {"plain": (1.0,) * 4, "mixed": (1.3,) * 4, "calm": (1.0,) * 4}
    more = {"plain": (1.0,) * 4, "mixed": (0.7,) * 4, "calm": (0.9, 1.0, 1.0, 1.0)}
    for comparisons in (both(few, more), both(more, few)):
        best = winner(comparisons)
        assert best.setup == "calm"
        assert best.why.startswith("of 8 cases ")
        assert "FASTER in 1" in best.why
        assert "SAME in 7" in best.why
    assert winner(both(few, {**more, "calm": (1.0,) * 4})).setup == "plain"


def test_a_setup_that_hung_in_a_block_is_not_the_one_to_export() -> None:
    outcomes, records = measured({"plain": (1.0,) * 4, "fast": (0.7,) * 4, "calm": (0.9,) * 4})
    gone = next(o for o in outcomes if o.setup == "fast" and o.block == 3)
    outcomes[outcomes.index(gone)] = LaunchOutcome("fast", 3, 0, "", 9.0, "hung", ())
    comparison = compare(setup_arms("s", ["plain", "fast", "calm"], outcomes, records, 0))
    assert comparison.count(Verdict.FASTER) == 8
    assert winner([comparison]).setup == "calm"
