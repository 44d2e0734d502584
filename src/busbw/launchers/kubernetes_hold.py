"""What a pod runs that is held for many launches: nothing, while launches come and go in it.

    python -c TEXT SECONDS

TEXT is this file, which needs nothing but the standard library, whatever the image has. It is the container's
first process, so it takes up what launches leave behind. It ends when it is told to, and by itself where
nobody comes any more: who held the pod was killed, or lost the cluster.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

# Pods of one job can start long after each other, while images are pulled or nodes become free: beside the
# seconds that are given.
FIRST_SECONDS: Final = 600.0
# Between two launches there is a moment.
IDLE_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 5.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


def others() -> bool:
    """Whether any other process is in this container: every launch has one in each pod."""
    own = {str(os.getpid()), "1"}  # where pods share their processes, another one is the first
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and entry.name not in own:
            with contextlib.suppress(OSError):  # ended meanwhile
                if (entry / "cmdline").read_bytes():  # not of the kernel, and not ended
                    return True
    return False


def hold(first_seconds: float, idle_seconds: float) -> int:
    """Wait for the end; the exit code is never good: a job whose pods end one by one must fail as a whole."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    limit_s, since_s = first_seconds, time.monotonic()
    while True:
        heard = signal.sigtimedwait(_SIGNALS, _LOOK_SECONDS)
        if heard is not None and heard.si_signo != signal.SIGCHLD:
            return 128 + heard.si_signo
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if others():
            limit_s, since_s = idle_seconds, time.monotonic()
        elif time.monotonic() - since_s > limit_s:
            sys.stderr.write(f"busbw: this pod is not held any more: no launch came for {limit_s:.0f} s\n")
            return 1


if __name__ == "__main__":
    sys.exit(hold(float(sys.argv[1]) + FIRST_SECONDS, IDLE_SECONDS))
