"""For all tests."""

from __future__ import annotations

import signal

# What tests start hears Ctrl-C, as in a terminal, though pytest itself was started with it ignored (in the
# background of a script, by nohup): an ignored signal would stay ignored, a handled one starts anew.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
