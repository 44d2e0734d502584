from __future__ import annotations

import os
import signal

import pytest

from busbw.launch.interrupt import Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_counted_and_the_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupt() as interrupt:
        assert not interrupt.requested
        os.kill(os.getpid(), number)
        assert (interrupt.requested, interrupt.insisted) == (True, False)
        os.kill(os.getpid(), number)
        assert interrupt.insisted
    assert signal.getsignal(number) is before


def test_what_is_ignored_on_purpose_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupt.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
