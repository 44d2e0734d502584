"""Hunts between hosts with shaped links: the slow one is named, the lost one is left out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from busbw_testing.shaping import NOMINAL_MBIT, clear, lose, require_named, send_at, why_no_shaping

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]

HOSTS = ("h1", "h2", "h3", "h4", "h5", "h6")
MPI = ("--backend", "mpi", "--rank-wait", "sleep", "--no-preflight")
ON = ("--on", "hosts", "--hosts", ",".join(HOSTS), *MPI)


def shape(cluster: Any, slow: str = "", share: float = 1.0) -> None:
    if why := why_no_shaping(cluster.hosts):
        pytest.skip(why)
    for name in HOSTS:
        send_at(cluster.hosts, name, NOMINAL_MBIT * (share if name == slow else 1.0))


def test_a_slow_host_is_named(six_hosts: Any) -> None:
    """By half: whatever else runs on this machine, it is that or no decision, and never another host."""
    shape(six_hosts, "h4", 0.5)
    front = six_hosts.start("isolate", *ON, "-b", "2M")
    code = front.finish().code
    (field,) = six_hosts.record()["hunt"]["fields"]
    assert code == (1 if field["suspects"] else 3)
    require_named(field, "h4")
    assert field["exclude"]["slurm"] == "--exclude=h4"
    assert "# slurm    --exclude=h4" in front.out
    assert 0.3 < field["suspects"][0]["loss"] < 0.7
    assert field["suspects"][0]["direction"] in ("sends", "")
    assert "h4: " in front.out
    again = six_hosts.run("show", "last")
    assert again.out.count("# slurm    --exclude=h4") == 1


def test_a_host_that_loses_packets_is_named_by_what_is_sent_again(six_hosts: Any) -> None:
    shape(six_hosts)
    lose(six_hosts.hosts, "h3", 3)
    try:
        front = six_hosts.start("isolate", *ON, "-b", "2M")
        code = front.finish().code
    finally:
        clear(six_hosts.hosts, "h3")
    (field,) = six_hosts.record()["hunt"]["fields"]
    assert code == (1 if field["suspects"] else 3), front.out
    require_named(field, "h3")
    (suspect,) = field["suspects"]
    assert suspect["metric"] == "resent" or "resent" in suspect["also"]


def test_a_round_that_is_merely_long_costs_nobody_its_place(six_hosts: Any) -> None:
    """One message takes 2.7 s."""
    shape(six_hosts)
    front = six_hosts.start("isolate", *ON, "-b", "64M", "--round-timeout", "2s")
    assert front.finish().code == 3, front.err
    assert "all 6 ranks waited: round 1 with h" in front.err
    assert "give a smaller -b" in front.err
    assert "lost" not in front.err
    assert front.err.count("submitted hosts job") == 1
    assert six_hosts.record()["findings"] == []


def test_two_lost_hosts_are_both_left_out(six_hosts: Any) -> None:
    """The one that is heard of first is left out, and then the other cannot be reached any more."""
    shape(six_hosts)
    front = six_hosts.start(
        *("isolate", *ON, "-b", "4M", "--round-timeout", "20s", "--set", "connect-timeout=3"),
        *("--format", "json"),
    )
    front.until(lambda: "round 1, screen" in front.err)
    for name in ("h2", "h5"):
        six_hosts.hosts.kill(name)
    assert front.finish().code == 1, front.err
    record = json.loads(front.out)  # one document, of the last launch
    assert record["status"] == "complete", front.err
    lost = {finding["host"] for finding in record["findings"] if finding["check"] == "lost"}
    assert lost == {"h2", "h5"}, front.err
    (field,) = record["hunt"]["fields"]
    assert field["names"] == ["h1", "h3", "h4", "h6"]


def test_rails_show_who_receives_slowly_and_nobody_else(six_hosts: Any) -> None:
    """What h2 sends arrives at h3; what h2 itself receives is as quick as with the others."""
    shape(six_hosts, "h2", 0.3)
    record = json.loads(six_hosts.run("rails", *ON, "-b", "1M", "--format", "json", code=3).out)
    took = {
        HOSTS[test["other"]]: test["times_ns"]["bandwidth"][0][0]
        for tested in record["rounds"]
        for test in tested["tests"]
    }
    assert set(took) == set(HOSTS)
    assert took.pop("h3") > 1.5 * max(took.values())


def test_the_matrix_shows_the_direction(six_hosts: Any) -> None:
    shape(six_hosts, "h2", 0.4)
    front = six_hosts.run("pairs", *ON, "-b", "1M", "--format", "csv")
    rows = [line.split(",") for line in front.out.splitlines()[1:]]
    assert len(rows) == len(HOSTS) * (len(HOSTS) - 1)
    sent = sorted((float(row[2]), row[0]) for row in rows)
    assert [name for _, name in sent[:5]] == ["h2"] * 5
    told = re.findall(r"^round (\d+), matrix: (\d) pairs of hosts", front.err, re.MULTILINE)
    assert told == [(str(number), "3") for number in range(1, 6)]


def test_a_hunt_by_each_nic_tells_which_one_is_slow(two_nics_cluster: Any) -> None:
    """By eth0 all are alike; by eth1 h3 sends at half the rate."""
    cluster = two_nics_cluster
    names = ("h1", "h2", "h3", "h4")
    if why := why_no_shaping(cluster.hosts):
        pytest.skip(why)
    for name in names:
        send_at(cluster.hosts, name)
        send_at(cluster.hosts, name, NOMINAL_MBIT * (0.4 if name == "h3" else 1.0), "eth1")
    on = ("--on", "hosts", "--hosts", ",".join(names), *MPI)
    front = cluster.start(
        "isolate", *on, "-b", "512K", "--rounds", "3", "--loss", "30%", "--each-nic", "eth0,eth1"
    )
    code = front.finish().code
    by_nic = {}
    for file in cluster.home.glob("*/run.json"):
        record = json.loads(file.read_text())
        by_nic[record["plan"]["hunt"]["nic"]] = record
    assert set(by_nic) == {"eth0", "eth1"}
    for nic, record in by_nic.items():
        claims = [finding["claim"] for finding in record["findings"] if finding["check"] == "by-nic"]
        assert len(claims) == 1
        assert claims[0].startswith(f"{nic} carried what was sent, by its counters: "), claims
        assert f"UCX_NET_DEVICES={nic}" in json.dumps(record)
    (alike,), (slow,) = (by_nic[nic]["hunt"]["fields"] for nic in ("eth0", "eth1"))
    assert alike["suspects"] == []
    assert code in ((1,) if slow["suspects"] else (0, 3))
    require_named(slow, "h3")
    assert "# error    h3 by eth1: " in front.out
    assert re.search(r"^# eth1 +slow +h3$", front.out, re.MULTILINE), front.out
    assert re.search(r"^# eth0 +(healthy|undecided) +-$", front.out, re.MULTILINE), front.out
