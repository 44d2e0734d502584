"""A rank that fails since another one is gone says no more than that, and not at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from busbw.errors import RankFailed
from busbw.rank import entry

GONE = "MPI call failed: Other MPI error\ncopy_iovs(224).........: process_vm_readv failed (errno 3)"


@pytest.mark.parametrize(("message", "is_witness"), [(GONE, True), ("MPI call failed: out of memory", False)])
def test_a_rank_that_reads_from_a_dead_one_leaves_it_to_the_launcher_to_name_it(
    message: str, is_witness: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []

    def fail(_: str) -> None:
        raise SystemExit

    monkeypatch.setattr(entry.time, "sleep", lambda _seconds: said.append("waited"))
    world: Any = SimpleNamespace(kind="mpi", rank=1, members=[None, SimpleNamespace(host="h")], fail=fail)
    with pytest.raises(SystemExit):
        entry._Rank(None, said.append, 1)._leave_alone(world, RankFailed(message))
    *waited, error = said
    assert waited == (["waited"] if is_witness else [])
    assert (error["rank"], error["peer_lost"]) == (1, is_witness)
