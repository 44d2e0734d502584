"""A run on hosts in which nothing moves ends: each host's watcher reports, and one rank is named."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]


def test_a_stopped_rank_is_named_with_what_the_ranks_of_other_hosts_wait_in(cluster: Any) -> None:
    front = cluster.start(
        *("run", "all_reduce", "-b", "8", "-e", "8", "-w", "1", "-n", "2000000000", "--backend", "mpi"),
        *("--on", "hosts", "--hosts", "h2,h3,h4", "--format", "jsonl", "--stall", "2s"),
    )
    front.until(lambda: '"event":"header"' in front.out)
    (victim,) = cluster.ranks("h3")
    rank = cluster.rank_of(victim)
    os.kill(victim, signal.SIGSTOP)
    assert front.finish().code == 5
    assert front.error.startswith(f"rank {rank} on h3 (pid ")
    assert "; its process is stopped" in front.error
    states = cluster.record()["hang"]["states"]
    assert (states[0]["state"], states[0]["ranks"]) == ("stopped", [rank])
    assert sorted(number for row in states for number in row["ranks"]) == [0, 1, 2]
    assert not cluster.left()
