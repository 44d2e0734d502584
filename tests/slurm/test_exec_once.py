"""A command that is started once in a job on Slurm, and starts ranks itself."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.exec_programs import FACTS, facts_of

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

ON = ("exec", "--on", "slurm", "--once", "-N")


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_a_command_is_started_once(where: str, request: pytest.FixtureRequest) -> None:
    """Its lines are its own, also where they look as if srun had labelled them."""
    front = request.getfixturevalue(where)
    words = ("3", "--ranks-per-node", "2", "--env", "A=it's", "--", sys.executable, "-c")
    done = front.run(*ON, *words, f"{FACTS}\nimport os, sys\nprint('0: ' + os.environ['A'])\nsys.exit(7)")
    assert done.code == 7, done
    line, labelled = done.out.splitlines()
    assert labelled == "0: it's"
    (facts,) = facts_of(line)
    assert facts[:5] == ("h1", "h1 slots=2/h2 slots=2/h3 slots=2", "3", "0", "h1")
    assert "note:" not in done.err
    assert front.run("attach", "last").code == 7


def test_it_starts_ranks_in_its_job(front: Any) -> None:
    """By srun, and by a busbw inside, as steps of the same nodes."""
    own = f"{sys.executable} -m busbw run all_reduce -e 8 --backend null --on slurm --job-id $SLURM_JOB_ID"
    done = front.run(*ON, "2", "--", "sh", "-c", f"srun hostname; {own} --world nccl")
    assert done.code == 0, done
    assert sorted(line for line in done.out.splitlines() if line in ("h1", "h2")) == ["h1", "h2"]
    assert "ranks    2 on 2 hosts (h1, h2)" in done.out


def test_an_interrupt_ends_it(front: Any, cluster: SlurmCluster) -> None:
    running = front.start(
        *ON, "2", "--", "sh", "-c", "trap 'echo told; exit 3' TERM; echo up; sleep 1000 & wait"
    )
    running.until(lambda: running.out.split() == ["up"])
    running.signal(signal.SIGINT)
    done = running.finish()
    assert (done.code, done.out.split()) == (130, ["up", "told"]), done
    cluster.wait_until_idle()
