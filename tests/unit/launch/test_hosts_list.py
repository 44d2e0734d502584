"""Hosts as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.launch.hosts.list import Place, distribute, first_nodes, parse_hostfile, read_places
from busbw.plan.flags.launch import LaunchSettings

A, B, C = Place("a"), Place("b"), Place("c")


def test_a_list_may_say_how_many_ranks() -> None:
    places = read_places(LaunchSettings(hosts="a, b:4,me@c,[fe80::1]:2, 10.0.0.7:8,[::1]"))
    assert places == (
        A,
        Place("b", 4),
        Place("me@c"),
        Place("[fe80::1]", 2),
        Place("10.0.0.7", 8),
        Place("[::1]"),
    )
    assert [place.name for place in places[2:4]] == ["c", "fe80::1"]


def test_ranges_as_slurm_writes_them() -> None:
    places = read_places(LaunchSettings(hosts="n[09-10,3]:2,gpu-[1-2]-[0-1],[::1]"))
    assert places[:3] == (Place("n09", 2), Place("n10", 2), Place("n3", 2))
    assert [place.host for place in places[3:]] == ["gpu-1-0", "gpu-1-1", "gpu-2-0", "gpu-2-1", "[::1]"]
    assert parse_hostfile("n[1-2] slots=4\n", "f") == (Place("n1", 4), Place("n2", 4))


def test_a_host_file_as_each_program_writes_it() -> None:
    text = "# mine\nworker-1 slots = 4\n\n worker-2 slots= 8 max_slots=8 # two\nh3:2\nh4\nworker-1 slots=1\n"
    assert parse_hostfile(text, "f") == (
        Place("worker-1", 4),
        Place("worker-2", 8),
        Place("h3", 2),
        Place("h4"),
        Place("worker-1", 1),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n-oProxyCommand=x", "f, line 2: '-oProxyCommand=x' is not a host name"),
        ("$(x)", "f, line 1: '$(x)' is not a host name"),
        ("a;b", "is not a host name"),
        ("fe80::1", "is not a host name"),
        ("a slots=0", "f, line 1: a has 0 slots"),
        ("a slots=two", "f, line 1: 'slots=two' is not understood"),
        ("a b", "f, line 1: 'b' is not understood"),
    ],
)
def test_a_line_that_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hostfile(text, "f")
    assert said in caught.value.message


@given(st.text(max_size=40))
def test_any_text_gives_hosts_or_a_refusal(text: str) -> None:
    try:
        places = parse_hostfile(text, "f")
    except UsageError:
        return
    for place in places:
        assert place.host[0] not in "-$`;"
        assert not set(place.host) & set(" \t\n'\"$`;&|<>()*?\\")


def test_either_a_list_or_a_file(tmp_path: Path) -> None:
    hostfile = tmp_path / "hosts"
    hostfile.write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")  # an editor may begin it with a mark
    assert read_places(LaunchSettings(hostfile=hostfile)) == (A, B)
    for settings in (LaunchSettings(), LaunchSettings(hosts="a", hostfile=hostfile)):
        with pytest.raises(UsageError, match="either --hosts or --hostfile"):
            read_places(settings)
    with pytest.raises(UsageError, match="cannot read --hostfile"):
        read_places(LaunchSettings(hostfile=tmp_path / "none"))
    hostfile.write_text("# nobody\n")
    with pytest.raises(UsageError, match="names no host"):
        read_places(LaunchSettings(hostfile=hostfile))


def test_the_first_hosts() -> None:
    assert first_nodes((A, B, A, C), "2") == (A, B, A)
    assert first_nodes((A, B), "") == (A, B)
    with pytest.raises(UsageError, match="-N 3, but 2 hosts"):
        first_nodes((A, B), "3")


def test_ranks_are_given_out_in_order() -> None:
    two = (Place("a", 4), Place("b", 2))
    assert "".join(distribute((A, B), None, None, 8)) == "aaaaaaaabbbbbbbb"
    assert "".join(distribute(two, None, None, 8)) == "aaaabb"
    assert "".join(distribute(two, None, 1, 8)) == "ab"
    assert "".join(distribute((A, B, C), 4, None, 1)) == "aabc"
    assert "".join(distribute((A, B, C), 2, None, 1)) == "ab"
    assert "".join(distribute(two, 5, None, 1)) == "aaaab"
    assert "".join(distribute(two, 3, None, 1)) == "aaa"
    assert "".join(distribute((A, B), 4, 2, 1)) == "aabb"
    with pytest.raises(UsageError, match="--ranks 7, but 6 slots on 2 hosts"):
        distribute(two, 7, None, 1)
    with pytest.raises(UsageError, match="--ranks 2, but --ranks-per-node 4 makes 8 on 2 nodes") as refused:
        distribute(two, 2, 4, 1)
    assert refused.value.hint
