"""Everything killed with SIGKILL at a random moment: what is in the run folder can be read and is whole."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from typing import Any

import pytest

from busbw.model.record import RunStatus
from busbw.model.sample import SampleFlag
from busbw.record.read import read_digests, read_record, read_samples

TIMES = 4


def kill_at_one_moment(launcher: Any) -> None:
    """Stopped first, so that none lives to react to another's end: a rank whose launcher is gone is hung up,
    and closes its record as interrupted. Children before parents: a stopped group without a parent is woken.
    """
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in sorted(launcher.processes(), reverse=True):
            with contextlib.suppress(ProcessLookupError):  # it went with the one before
                os.kill(pid, number)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(TIMES))
def test_the_record_is_whole_at_any_moment(launcher: Any, seed: int) -> None:
    words = ("all_reduce,sendrecv", "--ranks", "2", "-b", "8", "-e", "256K", "--case-time", "20ms")
    run = launcher.begin("run", *words)
    run.until(lambda: list(run.home.glob("*/run.json")))
    time.sleep(random.Random(seed).uniform(0, 1.5))
    kill_at_one_moment(launcher)
    run.process.wait()
    assert not launcher.left()
    (path,) = run.home.glob("*/run.json")
    record = read_record(path.parent)
    assert record.status in (RunStatus.RUNNING, RunStatus.COMPLETE)
    assert [result.case for result in record.results] == list(range(len(record.results)))
    samples, digests = read_samples(path.parent), read_digests(path.parent)
    for result in record.results:
        own = samples[(samples["case"] == result.case) & (samples["flags"] & SampleFlag.SINGLE_CALL == 0)]
        maxima = (own["rank"] == -1).sum()
        is_whole = bool(result.finished)  # of a case that is only shown so far, no samples yet
        # Those that were left out of the result stay in the record.
        kept = sum(result.pass_samples) if is_whole else 0
        assert maxima == kept >= (result.samples if is_whole else 0)
        assert (own["rank"] == 1).sum() == maxima
        assert (digests["case"] == result.case).sum() == (2 if kept else 0)  # n/a has none
    assert record.status is RunStatus.COMPLETE or len(record.results) < len(record.plan.cases) + 1
