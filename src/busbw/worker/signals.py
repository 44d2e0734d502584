"""SIGINT and SIGTERM end a rank at once, even while its main thread is inside a collective that never
returns.

Python runs signal handlers only between bytecodes of the main thread, so a handler would wait for the C call.
Instead the signals are blocked and one thread takes them with sigwait.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from busbw.errors import ExitCode

_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})


def exit_on_signal(last_words: Callable[[signal.Signals], None]) -> None:
    """From now on, leave with exit code 130 on either signal, after ``last_words``. Call it in the main
    thread, before any other thread exists, so that all of them inherit the mask.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def wait() -> None:
        received = signal.sigwait(_SIGNALS)
        try:
            last_words(signal.Signals(received))
        finally:
            os._exit(ExitCode.INTERRUPTED)

    threading.Thread(target=wait, name="busbw-signals", daemon=True).start()
