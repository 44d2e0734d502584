"""Whether launches of two series are one measurement."""

from __future__ import annotations

from dataclasses import replace

from busbw_testing.compared import record_of

from busbw.judge.matching import differences
from busbw.model.neighbour import Neighbour

RUN = record_of({1024: 10.0})


def test_launches_of_other_ranks_versions_or_settings_are_not_and_of_another_allocation_are() -> None:
    assert differences(RUN, replace(RUN, settings={"launch": {"on": "slurm", "job_id": "8"}})) == []
    assert differences(RUN, record_of({1024: 10.0}, ranks=4)) == ["ranks: 2 and 4"]
    assert differences(RUN, record_of({1024: 10.0}, version="5.1")) == ["version: MPI 5.0.2 and MPI 5.1"]
    plain, tuned = (record_of({1024: 10.0}, variables=own) for own in ({}, {"UCX_TLS": "tcp"}))
    assert differences(plain, tuned) == ["settings: no tuning variable and UCX_TLS=tcp"]


def test_calls_beside_an_operation_are_started_otherwise_unless_it_has_ranks_of_its_own() -> None:
    def beside(neighbour: Neighbour) -> list[str]:
        return differences(RUN, replace(RUN, plan=replace(RUN.plan, beside=(neighbour,))))

    assert beside(Neighbour("compute", "compute")) == []
    assert beside(Neighbour("alltoall:ranks=2-3", "alltoall", ranks=(2, 3))) == []
    way, _ = beside(Neighbour("alltoall", "alltoall"))
    assert way == "way of timing: back to back, one GPU a process and as beside an operation"
