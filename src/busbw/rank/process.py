"""What a rank's process does beside measuring: it takes signals, keeps time limits, and prints events.

SIGINT and SIGTERM end a rank at once, even while its main thread is inside a collective that never returns.
Python runs signal handlers only between bytecodes of the main thread, so a handler would wait for the C call.
Instead the signals are blocked and one thread takes them with sigwait. A signal goes to any thread that does
not block it, so they are blocked before a library starts threads of its own (numpy's OpenBLAS at import);
this module loads the standard library only.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, ExitCode, RankFailed, UndecidedError
from busbw.model.event import Event, encode_parts

if TYPE_CHECKING:
    from busbw.model.case import Case

# Set by busbw for ranks that it starts with its own MPI: hydra's -bind-to leaves files in /tmp when it is
# killed.
BIND_VARIABLE = "BUSBW_BIND"
AHEAD = "--ahead"  # a rank that was started before its variables were known
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})
# A real-time signal: users, launchers and libraries send the others. `machine/look.sh` sends this one.
_STACK_SIGNAL = 60


def block() -> None:
    """From now on the signals wait. Call it in the main thread, before any other thread exists, so that all
    of them inherit the mask.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def offer_stack() -> None:
    """Write this thread's Python stack, whatever call it is in, when somebody outside asks with a signal who
    wants to know where a rank is that does not go on. The file is in memory alone, and read through /proc.
    """
    with contextlib.suppress(OSError):  # a kernel without memory files (before 3.17)
        faulthandler.register(_STACK_SIGNAL, file=os.memfd_create("busbw-stack"), all_threads=False)


def keep_libraries_from_threads(environ: MutableMapping[str, str]) -> None:
    """The OpenBLAS of numpy starts a thread for every core, which spins for 10 ms and is never used: on a
    host of many cores and ranks that is seconds of CPU time. Call it before numpy is imported.
    """
    environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def collect_garbage_seldom() -> None:
    """Python looks for circles among all objects while modules are loaded, which leave none, and again at its
    end: a tenth of the CPU time of a short command.
    """
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)


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


def emit(item: Event) -> None:
    """Print an event. Each line is one write: launchers that merge the ranks' output cannot mix it."""
    for line in encode_parts(item):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def bind(local_rank: int | None, environ: Mapping[str, str]) -> None:
    """Keep this rank on a core of its own where it was asked for: ranks that start on one core and spin can
    stay there for seconds, at milliseconds a call. Call it before other threads exist.
    """
    if BIND_VARIABLE not in environ or local_rank is None:
        return
    from busbw.machine.host import usable_cpus_by_core

    cores = usable_cpus_by_core()
    if local_rank < len(cores):
        os.sched_setaffinity(0, cores[local_rank])


def keep_to_loopback(environ: MutableMapping[str, str]) -> None:
    """Keep other hosts from reaching the ranks of this one. UCX listens on every network device, unless the
    user says on which, or over what (``UCX_TLS=tcp`` does not connect over ``lo`` alone). The launcher's
    listening sockets, left open here, are kept to the device ``lo``: hydra has no flag for it, and its own
    processes have connected before they started this one.
    """
    if "UCX_TLS" not in environ:
        environ.setdefault("UCX_NET_DEVICES", "lo")
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as found:
                if found.family in _INTERNET and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")


class Deadline:
    """A limit for one case (-T) or round of a hunt, kept by a thread: an MPI call that never returns can only
    be left. ``stop(error)`` is called from another thread when one takes longer, and does not return. Of 0
    seconds: no limit.
    """

    def __init__(self, seconds: float = 0.0, stop: Callable[[BusbwError], None] = lambda error: None) -> None:
        self._seconds, self._stop = seconds, stop

    def for_case(self, case: Case) -> AbstractContextManager[None]:
        """Watch over one case, which takes longer on this rank and soon on all."""
        doing = f"{case.collective} {case.dtype} {case.size_bytes} B {case.placement}"
        text = f"{doing}: did not end within {self._seconds:g} s (-T)"
        hint = "give -T more seconds, or look for a rank or link that hangs"
        return self._timer(self._seconds, RankFailed(text, hint=hint))

    def watch(self, seconds: float, doing: str) -> AbstractContextManager[None]:
        """Watch over what this rank is ``doing`` in a round of a hunt."""
        error = UndecidedError(
            f"{doing}: did not end within {seconds:g} s (--round-timeout)",
            hint="give a smaller -b or a longer --round-timeout, or look for a link that carries next to"
            " nothing",
        )
        return self._timer(seconds, error)

    @contextmanager
    def _timer(self, seconds: float, error: BusbwError) -> Iterator[None]:
        if seconds <= 0:
            yield
            return
        timer = threading.Timer(seconds, self._stop, (error,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # once it has begun to act, what ends after all is too late
