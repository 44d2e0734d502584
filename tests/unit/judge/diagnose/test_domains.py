"""Hosts of one NVLink domain: what is said of NICs that their data need not use."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of
from busbw_testing.diagnosed import conclusions

from busbw.judge.wires import Wires
from busbw.model.record import HostInfo

GB200 = Wires(nvlink_gb_per_s=900.0, network_gb_per_s=200.0, nics=4)
SIZE = 2**30


@pytest.mark.parametrize(("domain", "told"), [("rack.1", True), ("", False)])
def test_a_rack_is_not_held_against_its_nics(domain: str, *, told: bool) -> None:
    """8 GPUs of two trays at 680 GB/s: 340 % of 200 GB/s of NICs, which they do not use."""
    run = record_of({SIZE: SIZE / 680e3 * 2 * 7 / 8}, ranks=8, hosts=2, algorithm="RING")
    assert run.world is not None
    places = tuple(HostInfo(host, nvlink_domain=domain) for host in run.world.hosts)
    run = replace(run, world=replace(run.world, places=places))
    found = conclusions(run, wires=GB200)
    assert "expected.wire" not in found
    claim = "76 % of what the wires" if told else "what the wires allow is not known"
    assert claim in found["expected.limit"].claim
