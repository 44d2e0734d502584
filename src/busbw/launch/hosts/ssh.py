"""How a host is reached: the words that run a Python there, whose standard streams end here. And what is
asked of every host, all at once, before anything is started: which Python, which busbw, which MPI.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from busbw.errors import SiteError
from busbw.launch import agent
from busbw.launch.command import setup_failure, sourced
from busbw.launch.settle import set_count, set_words
from busbw.model.plain import from_plain

CONNECT_SECONDS: Final = 10
# A host that falls silent is taken for lost after their product. ssh's own default waits for ever.
ALIVE_SECONDS: Final = 5
ALIVE_COUNT: Final = 3
SILENCE_SECONDS: Final = ALIVE_SECONDS * ALIVE_COUNT

# The agent is sent after it, as text; the reader takes no byte too many (buffer of one).
_RECEIVE: Final = "import io;f=io.BufferedReader(io.FileIO(0,closefd=False),1);exec(f.read(int(f.read(10))))"
# Beside the connection: a cold Python over a network file system.
_ANSWER_SECONDS: Final = 60
_AT_ONCE: Final = 64
_SSH_FAILED: Final = 255
_NOT_FOUND: Final = (126, 127)
_KEYS: Final = ("ssh", "connect-timeout", "tmp")


def read_form(words: tuple[str, ...]) -> Mapping[str, str]:
    """--set for hosts: ``ssh`` (the command that stands in for ssh, with its options), ``connect-timeout``
    (seconds), ``tmp`` (folder for --bring). Raises UsageError.
    """
    form = dict(set_words(words, _KEYS, "--on hosts"))
    set_count("connect-timeout", form.get("connect-timeout", "1"))
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


def after_setup(setup: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """``argv`` in the environment that the text of a setup script makes; none where the script fails. The
    standard input, which is the agent's, stays as it is.
    """
    if not setup:
        return argv
    text = "busbw_setup=$1; shift\n" + sourced('8<<<"$busbw_setup"', "$(uname -n)")
    return ("/bin/bash", "-c", text, "busbw-setup", setup, *argv)


def agent_command(
    host: str, *, local: bool, ssh: tuple[str, ...], python: str, setup: str
) -> tuple[str, ...]:
    """The words that start the agent on a host. What the user set is quoted for the host's shell; the agent
    itself travels over standard input. The shell's start-up files may have left a line open.
    """
    argv = after_setup(setup, (python, "-c", _RECEIVE))
    return argv if local else (*ssh, host, f"echo; exec {shlex.join(argv)}")


def part(data: bytes) -> bytes:
    """Data as the agent reads it: after its length."""
    return b"%010d" % len(data) + data


def opening(task: Mapping[str, Any]) -> bytes:
    """What an agent reads first: its own source, and its task."""
    return part(Path(agent.__file__).read_bytes()) + part(json.dumps(task).encode())


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


# ---- what is asked of every host -----------------------------------------------------------------------


@dataclass(frozen=True)
class HostFacts:
    """A host's answer. ``busbw`` is the version, empty where it cannot be imported; then ``error`` has the
    words. ``mpi`` is the family of the library that mpi4py would load.
    ``instance`` is the firmware's asset tag: on EC2 the instance id. ``address`` is the one that ssh came to,
    where the host does not know the name that ssh has for it; else empty.
    """

    hostname: str
    python: tuple[int, int]
    executable: str
    machine: str
    cores: int
    gpus: int
    busbw: str = ""
    mpi: str = ""
    mpiexec: str = ""
    error: str = ""
    instance: str = ""
    address: str = ""


def probe(commands: Mapping[str, tuple[str, ...]], connect_seconds: float) -> dict[str, HostFacts]:
    """Ask all hosts; ``commands`` start the agent on each. Raises SiteError naming the first host that cannot
    be used, and the others.
    """
    with ThreadPoolExecutor(min(len(commands), _AT_ONCE)) as pool:
        asked = {host: pool.submit(_ask, host, words, connect_seconds) for host, words in commands.items()}
        answers = {host: answer.result() for host, answer in asked.items()}
    bad = {host: answer for host, answer in answers.items() if isinstance(answer, SiteError)}
    for first, error in bad.items():
        others = f" (and {len(bad) - 1} more: {', '.join([*bad][1:4])})" if len(bad) > 1 else ""
        raise SiteError(error.message + others, hint=error.hint, host=first)
    return {host: answer for host, answer in answers.items() if isinstance(answer, HostFacts)}


def _ask(host: str, command: tuple[str, ...], connect_seconds: float) -> HostFacts | SiteError:
    name = host.rpartition("@")[2].strip("[]")
    patience_s = connect_seconds + _ANSWER_SECONDS
    try:
        done = subprocess.run(
            command,
            input=opening({"do": "probe", "name": name}),
            capture_output=True,
            timeout=patience_s,
            check=False,
            start_new_session=True,  # Ctrl-C is ours
        )
    except subprocess.TimeoutExpired:
        return _refusal(host, None, [f"no answer within {patience_s:g} s"])
    except OSError as error:
        return _refusal(host, error.errno, [f"{command[0]}: {error.strerror}"])
    for line in done.stdout.splitlines():
        if line.startswith(b'{"probe": '):
            return from_plain(HostFacts, json.loads(line)["probe"])
    return _refusal(host, done.returncode, done.stderr.decode(errors="replace").strip().splitlines())


def _refusal(host: str, code: int | None, lines: list[str]) -> SiteError:
    """Of a host that did not answer; code None where it took too long."""
    words = lines[-1] if lines else ""
    if failure := setup_failure(lines):
        said = f": {lines[-2]}" if len(lines) > 1 else ""
        return SiteError(f"{failure}{said}", hint=f"try it there: ssh {host} bash -s < SCRIPT", host=host)
    if code in _NOT_FOUND:
        return SiteError(
            f"no such Python on {host}: {words}",
            hint="give --python PATH, or --bring to copy busbw there",
            host=host,
        )
    what = "cannot be reached" if code in (_SSH_FAILED, None) else f"did not answer (exit code {code})"
    # Shells without a terminal read it, too.
    hint = f"try: ssh -o BatchMode=yes {host} true; a ~/.bashrc there must not exit or read input"
    return SiteError(f"{host} {what}: {words}", hint=hint, host=host)
