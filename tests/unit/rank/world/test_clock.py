from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from busbw.rank.world.clock import GlobalClock, Recheck, clock_source, worst_of
from busbw.rank.world.clock_model import Line

CLOCK = GlobalClock(
    line=Line(1_000, 50, 0.001),
    made_ns=2_000,
    error_ns=900.0,
    own_error_ns=300.0,
    drift_error=1e-6,
    leader_of=(0, 1, 0, 3, 1),
)


def test_the_promise_grows_with_the_distance_in_time() -> None:
    assert CLOCK.promised_ns(2_000) == 300.0
    assert CLOCK.promised_ns(2_000 + 10**9) == CLOCK.promised_ns(2_000 - 10**9) == 1300.0


@pytest.mark.parametrize(
    ("excess_ns", "expired", "renew"), [(0.0, False, False), (0.0, True, True), (1.0, False, True)]
)
def test_a_clock_is_renewed_when_old_or_broken(excess_ns: float, expired: bool, renew: bool) -> None:
    assert Recheck(5.0, excess_ns, 0, expired=expired).renew is renew


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ([[0, 0, 0], [70, 0, 0], [90, 0, 0]], Recheck(90.0, 0.0, 2, expired=False)),
        ([[0, 0, 0], [70, 5, 0], [90, 0, 0]], Recheck(90.0, 5.0, 1, expired=False)),
        ([[0, 0, 1], [70, 0, 0], [90, 0, 0]], Recheck(90.0, 0.0, 2, expired=True)),
    ],
)
def test_a_broken_clock_is_named_before_a_distant_one(table: list[list[float]], found: Recheck) -> None:
    assert worst_of(np.array(table, dtype=np.float64)) == found


def machine(root: Path, boot: str = "1-2", source: str = "tsc", namespace: str = "time:[4026531834]") -> Path:
    for path, text in (
        ("proc/sys/kernel/random/boot_id", boot),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", source),
    ):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(f"{text}\n")
    link = root / "proc/self/ns/time"
    link.parent.mkdir(parents=True)
    link.symlink_to(namespace)
    return root


@pytest.mark.parametrize("other", [{}, {"boot": "9"}, {"source": "hpet"}, {"namespace": "time:[5]"}])
def test_ranks_share_a_clock_of_one_boot_source_and_time_namespace(
    tmp_path: Path, other: dict[str, str]
) -> None:
    mine, theirs = machine(tmp_path / "mine"), machine(tmp_path / "theirs", **other)
    assert (clock_source(1, str(mine)) == clock_source(2, str(theirs))) is not bool(other)


def test_ranks_share_nothing_where_the_kernel_does_not_say(tmp_path: Path) -> None:
    assert clock_source(1, str(tmp_path)) != clock_source(2, str(tmp_path))
