from __future__ import annotations

import numpy as np
import pytest

from busbw.errors import LauncherMismatch, RankFailed
from busbw.rank.world import select
from busbw.rank.world.base import PeerFailure, World, distinct_hosts, reducible
from busbw.rank.world.identity import identify
from busbw.rank.world.select import SoloWorld


def ignore(failure: PeerFailure) -> None:
    raise AssertionError(failure)


def test_collectives_of_one_rank_are_the_identity(host: str) -> None:
    world: World = SoloWorld()
    world.barrier()
    values = np.array([[1.0, 2.0]])
    assert world.broadcast(b"x") == b"x"
    assert world.gather(b"x") == [b"x"]
    assert world.max(values).tolist() == [[1.0, 2.0]]
    assert world.sum(np.array([2**60], dtype=np.int64)).tolist() == [2**60]
    assert world.max(values) is not values
    assert (world.kind, world.rank, world.size, distinct_hosts(world.members)) == ("solo", 0, 1, (host,))
    with pytest.raises(RankFailed, match="reason"):
        world.fail("reason")
    world.close()


def test_only_exact_types_and_numbers_can_be_reduced() -> None:
    with pytest.raises(TypeError, match="float32"):
        reducible(np.zeros(2, dtype=np.float32))  # type: ignore[type-var]
    with pytest.raises(ValueError, match="NaN"):
        reducible(np.array([1.0, np.nan]))
    assert reducible(np.array(3.0)).shape == ()
    assert reducible(np.arange(6, dtype=np.int64).reshape(2, 3).T).flags.c_contiguous


def test_one_process_is_solo_and_keeps_its_launcher() -> None:
    assert isinstance(select.create(None, "auto", ignore), SoloWorld)
    assert isinstance(select.create(None, "nccl", ignore), SoloWorld)
    identity = identify({"SLURM_PROCID": "0", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "1"})
    world = select.create(identity, "auto", ignore)
    assert (world.kind, world.launcher) == ("solo", "slurm")


def test_solo_is_refused_to_one_of_many() -> None:
    identity = identify({"BUSBW_RANK": "1", "BUSBW_WORLD_SIZE": "4"})
    with pytest.raises(LauncherMismatch, match="started 4 ranks"):
        select.create(identity, "solo", ignore)
