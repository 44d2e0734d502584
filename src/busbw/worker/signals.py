"""SIGINT and SIGTERM end a rank at once, even while its main thread is inside a collective that never
returns.

Python runs signal handlers only between bytecodes of the main thread, so a handler would wait for the C call.
Instead the signals are blocked and one thread takes them with sigwait. A signal goes to any thread that does
not block it, so they are blocked before a library starts threads of its own (numpy's OpenBLAS at import);
this module needs the standard library only.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from busbw.errors import ExitCode

_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})


def block() -> None:
    """From now on the signals wait. Call it in the main thread, before any other thread exists, so that all
    of them inherit the mask.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def exit_on_signal(last_words: Callable[[signal.Signals], None]) -> Callable[[], None]:
    """Leave on either signal, also on one that came since ``block``, which has to be called first.

    At first the signal itself ends the process: MPI_Init may wait for ever holding the interpreter's lock, so
    no Python code could. After a call of what this returns, ``last_words`` are said and the exit code is 130.
    """
    connected, ready = threading.Event(), threading.Event()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)

    def wait() -> None:
        # The one thread that can be given the signal; the default action ends the whole process.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        connected.wait()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        ready.set()
        received = signal.sigwait(_SIGNALS)
        try:
            last_words(signal.Signals(received))
        finally:
            os._exit(ExitCode.INTERRUPTED)

    def arm() -> None:
        connected.set()
        ready.wait()

    threading.Thread(target=wait, name="busbw-signals", daemon=True).start()
    return arm
