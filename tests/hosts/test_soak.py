"""A soak between hosts, one of whose links becomes slow for a while."""

from __future__ import annotations

import time
from typing import Any

import pytest
from busbw_testing.shaping import NOMINAL_MBIT, clear, send_at, why_no_shaping

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]


def windows(cluster: Any) -> int:
    return int((cluster.record().get("soak") or {}).get("windows", 0))


def test_a_link_that_is_slow_for_a_while_is_a_change_of_level(fresh_cluster: Any) -> None:
    cluster = fresh_cluster
    if why := why_no_shaping(cluster.hosts):
        pytest.skip(why)
    for name in ("h1", "h2"):
        send_at(cluster.hosts, name)
    words = ("-b", "256K", "--time", "60s", "--backend", "mpi", "--on", "hosts", "--hosts", "h1,h2")
    front = cluster.start("soak", "all_reduce", *words)
    deadline = time.monotonic() + 120
    while windows(cluster) < 40:
        assert time.monotonic() < deadline, front.err
        time.sleep(0.2)
    send_at(cluster.hosts, "h2", NOMINAL_MBIT / 4)
    time.sleep(20)
    send_at(cluster.hosts, "h2")
    code = front.finish().code
    found = [each for each in cluster.record()["soak"]["changes"] if each["share"] < -0.3]
    clear(cluster.hosts, "h2")
    medians = [round(each["median_ns"] / 1e6, 1) for each in cluster.record()["soak"]["kept"]]
    assert (code, bool(found)) == (1, True), " ".join(map(str, medians))
    assert ": level -" in front.out
