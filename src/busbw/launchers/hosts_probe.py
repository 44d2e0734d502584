"""What is asked of every host, all at once, before anything is started: can it be reached, which Python,
which busbw, which MPI.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Final

from busbw.errors import SiteError
from busbw.launchers.hosts_ssh import SETUP_FAILED, STARTED, agent_text, part

# Beside the connection: a cold Python over a network file system.
_ANSWER_SECONDS: Final = 60
_AT_ONCE: Final = 64
_SSH_FAILED: Final = 255
_NOT_FOUND: Final = (126, 127)
# In the place of a host's last words.
_SHELL_ENDED: Final = "its shell ended before"
# numpy is always needed, the others in one of the worlds.
MODULES: Final = ("numpy", "mpi4py", "zmq")


@dataclass(frozen=True)
class HostFacts:
    """A host's answer. ``busbw`` is the version, empty where it cannot be imported; then ``error`` has the
    words. ``mpi`` is the family of the library that mpi4py would load, ``missing`` names absent packages.
    ``instance`` is the firmware's asset tag: on EC2 the instance id. ``address`` is the one that ssh came to,
    where the host does not know the name that ssh has for it; else empty.
    """

    hostname: str
    python: tuple[int, int]
    executable: str
    machine: str
    cores: int
    gpus: int
    missing: tuple[str, ...] = ()
    busbw: str = ""
    mpi: str = ""
    mpiexec: str = ""
    error: str = ""
    instance: str = ""
    address: str = ""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> HostFacts:
        """What the agent said; fields of a later agent are left out."""
        known = {each.name for each in fields(HostFacts)}
        kept = {name: value for name, value in values.items() if name in known}
        return HostFacts(**{**kept, "python": tuple(kept["python"]), "missing": tuple(kept["missing"])})


def probe(commands: Mapping[str, tuple[str, ...]], connect_seconds: float) -> dict[str, HostFacts]:
    """Ask all hosts; ``commands`` start the agent on each. Raises SiteError naming the first host that cannot
    be used, and how many there are.
    """
    with ThreadPoolExecutor(min(len(commands), _AT_ONCE)) as pool:
        asked = {
            host: pool.submit(_ask, command, connect_seconds, host.rpartition("@")[2].strip("[]"))
            for host, command in commands.items()
        }
        answers = {host: answer.result() for host, answer in asked.items()}
    bad = {host: answer for host, answer in answers.items() if not isinstance(answer, HostFacts)}
    for host, answer in bad.items():
        raise _refusal(host, answer, tuple(bad))
    return {host: answer for host, answer in answers.items() if isinstance(answer, HostFacts)}


def _ask(command: tuple[str, ...], connect_seconds: float, name: str) -> HostFacts | tuple[int | None, str]:
    """The answer, or the exit code (None: it took too long) and last words of what was tried."""
    task = json.dumps({"do": "probe", "modules": MODULES, "name": name}).encode()
    patience_s = connect_seconds + _ANSWER_SECONDS
    try:
        done = subprocess.run(
            command,
            input=part(agent_text()) + part(task),
            capture_output=True,
            timeout=patience_s,
            check=False,
            start_new_session=True,  # Ctrl-C is ours
        )
    except subprocess.TimeoutExpired as error:
        return None, _SHELL_ENDED if _is_shells(
            command, error.stdout
        ) else f"no answer within {patience_s:g} s"
    except OSError as error:
        return error.errno, f"{command[0]}: {os.strerror(error.errno or 0)}"
    for line in done.stdout.splitlines():
        if line.startswith(b'{"probe": '):
            return HostFacts.from_json(json.loads(line)["probe"])
    if done.returncode != _SSH_FAILED and _is_shells(command, done.stdout):
        return done.returncode, _SHELL_ENDED
    words = done.stderr.decode(errors="replace").strip().splitlines()
    if len(words) > 1 and words[-1].startswith(SETUP_FAILED):
        words.append(f"{words[-1]}: {words[-2]}")
    return done.returncode, words[-1] if words else ""


def _is_shells(command: tuple[str, ...], printed: bytes | None) -> bool:
    """Whether the host's shell never came to what it was told: a start-up file of it ended it, or waits."""
    return STARTED in command[-1] and STARTED.encode() not in (printed or b"").splitlines()


def _refusal(host: str, answer: tuple[int | None, str], bad: tuple[str, ...]) -> SiteError:
    code, words = answer
    others = f" (and {len(bad) - 1} more: {', '.join(bad[1:4])})" if len(bad) > 1 else ""
    if words.startswith(SETUP_FAILED):
        number, _, said = words.removeprefix(SETUP_FAILED).partition(": ")
        return SiteError(
            f"the setup script ended with exit code {number} on {host}{others}"
            + (f": {said}" if said else ""),
            hint=f"try it there: ssh {host} bash -s < SCRIPT",
            host=host,
        )
    if words == _SHELL_ENDED:
        how = "waits" if code is None else f"ended with exit code {code}"
        return SiteError(
            f"the shell on {host}{others} {how} before it did what it was told over ssh",
            hint=f"look in ~/.bashrc there, and what it sources, for what shells without a terminal must not"
            f" do (exit, read); try: ssh -o BatchMode=yes {host} echo well",
            host=host,
        )
    if code in _NOT_FOUND:
        return SiteError(
            f"no such Python on {host}{others}: {words}",
            hint="give --python PATH, or --bring to copy busbw there",
            host=host,
        )
    what = "cannot be reached" if code in (_SSH_FAILED, None) else f"did not answer (exit code {code})"
    return SiteError(
        f"{host} {what}{others}: {words}",
        hint=f"try: ssh -o BatchMode=yes {host} true",
        host=host,
    )
