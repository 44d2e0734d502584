"""Hunts between hosts with shaped links: the slow one is named, the lost one is left out."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
from typing import Any, Final

import pytest
from busbw_testing.shaping import NOMINAL_MBIT, clear, delay, lose, send_at, why_no_delay, why_no_shaping

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]

HOSTS = ("h1", "h2", "h3", "h4", "h5", "h6")
ON = (
    "--on",
    "hosts",
    "--hosts",
    ",".join(HOSTS),
    "--backend",
    "mpi",
    "--rank-wait",
    "sleep",
    "--no-preflight",
)


def shape(cluster: Any, slow: str = "", share: float = 1.0) -> None:
    if why := why_no_shaping(cluster.hosts):
        pytest.skip(why)
    for name in HOSTS:
        send_at(cluster.hosts, name, NOMINAL_MBIT * (share if name == slow else 1.0))


def test_a_slow_host_is_named(six_hosts: Any) -> None:
    """By half: whatever else runs on this machine, it is that or no decision, and never another host."""
    shape(six_hosts, "h4", 0.5)
    front = six_hosts.start("isolate", *ON, "-b", "2M")
    code = front.finish()
    (field,) = six_hosts.record()["hunt"]["fields"]
    named = [suspect["names"] for suspect in field["suspects"]]
    assert named in ([], [["h4"]])
    assert code == (1 if named else 3)
    if not named:
        pytest.skip(f"this machine is too busy to decide: {field['reason']}")
    assert field["exclude"]["slurm"] == "--exclude=h4"
    assert "# slurm    --exclude=h4" in front.out
    assert 0.3 < field["suspects"][0]["loss"] < 0.7
    assert field["suspects"][0]["direction"] in ("sends", "")
    assert "h4: " in front.out
    again = six_hosts.run("show", "last")
    assert again.out.count("# slurm    --exclude=h4") == 1


# Milliseconds that each of 100 connections to the host's sshd took: one there and back.
CONNECT: Final = """
import socket, sys, time
for _ in range(100):
    start = time.perf_counter()
    socket.create_connection((sys.argv[1], 22)).close()
    print(1e3 * (time.perf_counter() - start))
"""


def test_a_delay_is_as_long_as_it_is_set_and_ends(six_hosts: Any) -> None:
    """What the hunt below stands on, where the kernel has no delay of its own."""
    if why := why_no_delay(six_hosts.hosts):
        pytest.skip(why)

    def connect_ms(name: str) -> float:
        words = (sys.executable, "-c", CONNECT, six_hosts.hosts.address(name))
        return statistics.median(map(float, six_hosts.hosts.run("h1", *words).stdout.split()))

    delay(six_hosts.hosts, "h3", 0.005)
    assert connect_ms("h3") >= 10
    assert connect_ms("h4") < 5
    clear(six_hosts.hosts, "h3")
    assert connect_ms("h3") < 5


def test_a_delayed_host_is_named(six_hosts: Any) -> None:
    """Small messages to and from it are late; large ones only by as much, which is little of their time."""
    if why := why_no_delay(six_hosts.hosts):
        pytest.skip(why)
    shape(six_hosts)
    delay(six_hosts.hosts, "h3", 0.002)
    front = six_hosts.start("isolate", *ON, "-b", "2M")
    code = front.finish()
    (field,) = six_hosts.record()["hunt"]["fields"]
    named = [suspect["names"] for suspect in field["suspects"]]
    assert named in ([], [["h3"]])
    assert code == (1 if named else 3)
    if not named:
        pytest.skip(f"this machine is too busy to decide: {field['reason']}")
    assert field["exclude"]["slurm"] == "--exclude=h3"
    assert "more latency than the others have" in front.out


def test_alike_hosts_are_not_accused(six_hosts: Any) -> None:
    shape(six_hosts)
    assert six_hosts.start("isolate", *ON, "-b", "1M").finish() in (0, 3)
    (field,) = six_hosts.record()["hunt"]["fields"]
    assert field["suspects"] == []


# Ten connections a second to a server that is gone: each is sent again until it is given up.
CALLS: Final = """
import socket, time
called = []
while True:
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("10.99.9.99", 9999))
    called.append(one)
    time.sleep(0.1)
    if len(called) > 40:
        called.pop(0).close()
"""
MANAGEMENT: Final = (
    ("link", "add", "mgmt0", "type", "veth", "peer", "name", "mgmt1"),
    ("link", "set", "mgmt1", "up"),
    ("addr", "add", "10.99.9.3/24", "dev", "mgmt0"),
    ("link", "set", "mgmt0", "up"),
    ("neigh", "add", "10.99.9.99", "lladdr", "02:00:00:00:00:99", "dev", "mgmt0", "nud", "permanent"),
)


def resent_on(cluster: Any, name: str) -> int:
    """What the whole host sent again so far."""
    text = cluster.hosts.run(name, "cat", "/proc/net/snmp").stdout
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def test_what_another_program_sends_again_accuses_nobody(six_hosts: Any) -> None:
    """On another NIC, to a server that is gone: dozens of segments a test, and none of them the ranks'."""
    shape(six_hosts)
    for words in MANAGEMENT:
        six_hosts.hosts.run("h3", "ip", *words)
    caller = subprocess.Popen(six_hosts.hosts.command("h3", [sys.executable, "-c", CALLS]))
    try:
        front = six_hosts.start("isolate", *ON, "-b", "1M")
        assert front.finish() in (0, 3), front.out
        assert resent_on(six_hosts, "h3") > 50
    finally:
        for pid, line in six_hosts.hosts.processes("h3").items():
            if "9999" in line:
                os.kill(pid, signal.SIGKILL)
        caller.wait()
        six_hosts.hosts.run("h3", "ip", "link", "del", "mgmt0")
    (field,) = six_hosts.record()["hunt"]["fields"]
    assert field["suspects"] == []
    assert "resent" in field["resolution"]


def test_a_host_that_loses_packets_is_named_by_what_is_sent_again(six_hosts: Any) -> None:
    shape(six_hosts)
    lose(six_hosts.hosts, "h3", 3)
    try:
        front = six_hosts.start("isolate", *ON, "-b", "2M")
        code = front.finish()
    finally:
        clear(six_hosts.hosts, "h3")
    (field,) = six_hosts.record()["hunt"]["fields"]
    named = [suspect["names"] for suspect in field["suspects"]]
    assert named in ([], [["h3"]])
    assert code == (1 if named else 3), front.out
    if not named:
        pytest.skip(f"this machine is too busy to decide: {field['reason']}")
    (suspect,) = field["suspects"]
    assert suspect["metric"] == "resent" or "resent" in suspect["also"]


def test_hosts_with_more_ranks_than_others_are_not_accused(six_hosts: Any) -> None:
    """Two pairs of ranks between h2 and h3 would share a link that those of the others have alone."""
    shape(six_hosts)
    on = ("--on", "hosts", "--hosts", "h1:1,h2:2,h3:2,h4:1,h5:1,h6:1", *ON[4:])
    front = six_hosts.start("isolate", *on, "-b", "1M")
    assert front.finish() in (0, 3), front.out + front.err
    (field,) = six_hosts.record()["hunt"]["fields"]
    assert field["suspects"] == []
    assert "not covered: ranks 2, 4: every host is tested with one rank" in front.out


def test_a_round_between_hosts_takes_no_longer_for_quick_ones_within(six_hosts: Any) -> None:
    """Within a host a sample is hundreds of messages, of which one between hosts takes 20 ms."""
    shape(six_hosts)
    on = ("--on", "hosts", "--hosts", "h1:3,h2:3,h3:3,h4:3", *ON[4:])
    six_hosts.start("isolate", *on, "-b", "512K", "--rounds", "3").finish()
    inside, between = six_hosts.record()["hunt"]["fields"]
    assert [inside["kind"], between["kind"]] == ["rank", "host"]
    assert between["seconds"] / between["rounds"] < 5, (inside, between)


@pytest.mark.parametrize("how", ["paused", "killed"])
def test_a_lost_host_is_a_finding_and_the_hunt_goes_on(six_hosts: Any, how: str) -> None:
    shape(six_hosts)
    front = six_hosts.start("isolate", *ON, "-b", "4M", "--round-timeout", "20s")
    front.until(lambda: "round 1, screen" in front.err)
    if how == "paused":
        for pid in six_hosts.ranks("h5"):
            os.kill(pid, signal.SIGSTOP)
    else:
        six_hosts.hosts.kill("h5")
    assert front.finish() == 1, front.err
    assert "h5: lost during the hunt" in front.err
    record = six_hosts.record()
    assert record["status"] == "complete"
    (field,) = record["hunt"]["fields"]
    assert field["names"] == [name for name in HOSTS if name != "h5"]
    (lost,) = [finding for finding in record["findings"] if finding["check"] == "lost"]
    assert (lost["host"], lost["severity"]) == ("h5", "error")
    assert "h5: lost during the hunt" in front.out
    assert "--exclude=h5" in field["exclude"]["slurm"]
    assert "# slurm    --exclude=h5" in front.out
    assert ": the other 5 hosts" in front.out


@pytest.mark.parametrize(
    ("size", "limit", "said"),
    [
        ("4M", "1s", "a round takes 2."),  # known from the pace: 14 messages of 0.17 s
        ("64M", "2s", "all 6 ranks waited: round 1 with h"),  # one message takes 2.7 s
    ],
)
def test_a_round_that_is_merely_long_costs_nobody_its_place(
    six_hosts: Any, size: str, limit: str, said: str
) -> None:
    shape(six_hosts)
    front = six_hosts.start("isolate", *ON, "-b", size, "--round-timeout", limit)
    assert front.finish() == 3, front.err
    assert said in front.err
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
    assert front.finish() == 1, front.err
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


def test_rails_that_share_a_slow_host_are_not_accused(six_hosts: Any) -> None:
    """It takes as much from both: its steps show it, and no rail is worse than the other."""
    shape(six_hosts, "h2", 0.3)
    on = ("--on", "hosts", "--hosts", ",".join(f"{name}:2" for name in HOSTS), *ON[4:])
    front = six_hosts.start("rails", *on, "-b", "512K")
    assert front.finish() in (0, 1, 3), front.err
    record = six_hosts.record()
    assert record["status"] == "complete"
    rails, hosts = record["hunt"]["fields"]
    assert (rails["names"], hosts["names"]) == (["rail 0", "rail 1"], list(HOSTS))
    assert rails["suspects"] == []
    assert "bus bandwidth of alltoall in every rail, all rails at once" in front.out


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
    on = ("--on", "hosts", "--hosts", ",".join(names), *ON[4:])
    front = cluster.start(
        "isolate", *on, "-b", "512K", "--rounds", "3", "--loss", "30%", "--each-nic", "eth0,eth1"
    )
    code = front.finish()
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
    named = [suspect["names"] for suspect in slow["suspects"]]
    assert named in ([], [["h3"]])
    assert code in ((1,) if named else (0, 3))
    if not named:
        pytest.skip(f"this machine is too busy to decide: {slow['reason']}")
    assert "# error    h3 by eth1: " in front.out
    assert re.search(r"^# eth1 +slow +h3$", front.out, re.MULTILINE), front.out
    assert re.search(r"^# eth0 +(healthy|undecided) +-$", front.out, re.MULTILINE), front.out


def test_who_was_late_in_a_run_is_doubted_in_the_next_hunt(six_hosts: Any) -> None:
    """A slow link makes the step of a ring long for the first rank of the next host and, unless what it sends
    fits buffers, for the last rank of its own. In the hunt both hosts are tested afresh, and the slow one
    alone is named.
    """
    shape(six_hosts, "h4", 0.5)
    on = ["--on", "hosts", "--hosts", ",".join(f"{name}:2" for name in HOSTS), *ON[4:6], "--no-preflight"]
    words = ("sendrecv", *on, "-b", "1M", "-e", "2M", "-n", "5", "--mode", "latency")
    ran = six_hosts.start("run", *words)
    assert ran.finish() == 0, ran.err
    front = six_hosts.start("isolate", *ON, "-b", "2M", "--prior", "last", "--doubt", "h2, h9")
    code = front.finish()
    late = re.findall(r"rank \d+ on (h\d) (?:was|sends to rank \d+,) late in \d of 2 cases", front.err)
    assert "h4" in late, front.err
    (field,) = six_hosts.record()["hunt"]["fields"]
    named = [suspect["names"] for suspect in field["suspects"]]
    assert named in ([], [["h4"]])
    assert code == (1 if named else 3)
    assert {each["name"] for each in field["acquitted"]} <= {*late, "h2"} - {"h4"}
    assert "nobody in this hunt is h9, who was doubted" in " ".join(front.out.split())
