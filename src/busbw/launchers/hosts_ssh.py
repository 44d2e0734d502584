"""How a host is reached: the words that run a Python there, whose standard streams end here."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from busbw.errors import UsageError

CONNECT_SECONDS: Final = 10
# A host that falls silent is taken for lost after their product; ssh's own default waits for ever.
ALIVE_SECONDS: Final = 5
ALIVE_COUNT: Final = 3

# The agent is sent after it, as text; the reader takes no byte too many (buffer of one).
_RECEIVE: Final = "import io;f=io.BufferedReader(io.FileIO(0,closefd=False),1);exec(f.read(int(f.read(10))))"
_KEYS: Final = ("ssh", "connect-timeout", "tmp")


def read_form(words: tuple[str, ...]) -> Mapping[str, str]:
    """--set for hosts: ``ssh`` (the command that stands in for ssh, with its options), ``connect-timeout``
    (seconds), ``tmp`` (folder for --bring). Raises UsageError.
    """
    form = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS:
            raise UsageError(f"--set {word}: no such value for hosts", hint=f"hosts knows {', '.join(_KEYS)}")
        form[key] = value
    timeout = form.get("connect-timeout", "1")
    if not (timeout.isascii() and timeout.isdigit() and int(timeout)):
        raise UsageError(f"--set connect-timeout={timeout} is no number of seconds", hint="give 1 or more")
    return form


def ssh_words(form: Mapping[str, str]) -> tuple[str, ...]:
    """The words of ssh with its options, without a host: never asks, and notices a host that is gone."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": form.get("connect-timeout", str(CONNECT_SECONDS)),
        "ServerAliveInterval": str(ALIVE_SECONDS),
        "ServerAliveCountMax": str(ALIVE_COUNT),
    }
    given = (word for name, value in options.items() for word in ("-o", f"{name}={value}"))
    return (*shlex.split(form.get("ssh", "ssh")), *given)


# What the host's shell says before it does what it is told, on a line of its own: its start-up files may
# print without a line break, or end it. Any login shell takes it (csh has no >&2).
STARTED: Final = "busbw: the shell has started"

# How a setup script that failed is told, before its exit code.
SETUP_FAILED: Final = "busbw: the setup script ended with exit code "
_TELL: Final = f"trap 'busbw_code=$?; echo \"{SETUP_FAILED}$busbw_code\" >&2' EXIT"
# Sourced, so that it may `return`; standard input, which is the agent's, stays as it is.
_SOURCE: Final = f"""\
{_TELL}
busbw_setup=$1; shift; busbw_words=("$@"); set --
. <(printf '%s\\n' "$busbw_setup")
busbw_code=$?; [ "$busbw_code" = 0 ] || exit "$busbw_code"; trap - EXIT
exec "${{busbw_words[@]}}"
"""


def after_setup(setup: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """``argv`` in the environment that the text of a setup script makes; none where the script fails."""
    return ("/bin/bash", "-c", _SOURCE, "busbw-setup", setup, *argv) if setup else argv


def agent_command(
    host: str, *, local: bool, ssh: tuple[str, ...], pythons: tuple[str, ...], setup: str
) -> tuple[str, ...]:
    """The words that start the agent on a host, by the first of ``pythons`` that is there.

    What the user set is quoted for the host's shell; the agent itself travels over standard input.
    """
    argv: tuple[str, ...] = (pythons[0], "-c", _RECEIVE)
    if len(pythons) > 1:
        found = "; ".join(
            f'command -v {shlex.quote(python)} >/dev/null && exec {shlex.quote(python)} "$@"'
            for python in pythons
        )
        argv = ("/bin/sh", "-c", f"{found}; echo no {pythons[0]} >&2; exit 127", "sh", "-c", _RECEIVE)
    argv = after_setup(setup, argv)
    return argv if local else (*ssh, host, f"echo; echo {STARTED!r}; exec {shlex.join(argv)}")


def agent_text() -> bytes:
    """The agent's own source."""
    return Path(__file__).with_name("hosts_agent.py").read_bytes()


def part(data: bytes) -> bytes:
    """Data as the agent reads it: after its length."""
    return b"%010d" % len(data) + data


def is_this_machine(name: str) -> bool:
    """Whether a host's name or address is this machine's own: only then can a socket be bound to it."""
    if name == socket.gethostname():
        return True
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
                return True
        except OSError:
            continue
    return False
