from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable

from busbw.launchers.watch import RankWatch

# A launcher and its daemon, with three ranks below.
LAUNCHER = "sh -c 'for i in 0 1 2; do PMI_RANK=$i sleep 100 & echo $!; done; echo; wait'; true"


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not what() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert what()


def test_the_first_of_several_that_ended_is_named() -> None:
    launcher = subprocess.Popen(
        ["sh", "-c", LAUNCHER], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert launcher.stdout is not None
    try:
        pids = [int(launcher.stdout.readline()) for _ in range(3)]
        with contextlib.closing(RankWatch(launcher.pid, 3)) as watch:
            until(lambda: watch.look() or len(watch._watched) == 3)
            assert watch.first_dead() is None
            for rank in (1, 2, 0):
                os.kill(pids[rank], signal.SIGKILL)
                time.sleep(0.05)
            assert watch.first_dead() == 1
    finally:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.communicate()


def test_no_ranks_no_name() -> None:
    with contextlib.closing(RankWatch(os.getpid(), 2)) as watch:
        watch.look()
        assert watch.first_dead() is None
