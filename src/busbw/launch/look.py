"""How a host is asked about a job that may hang: one shell script, sent over SSH, srun or kubectl, or run
here. Nothing of busbw needs to be there: bash is enough.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.errors import SiteError
from busbw.model.hang import ProcessSeen

RAS_ADDRESS: Final = "localhost:28028"  # NCCL's own, where NCCL_RAS_ADDR is not set
_PART: Final = re.compile(r"^##busbw (\w+) ?(\S*)\n", re.MULTILINE)
_SECONDS: Final = 90  # four questions of RAS, each of 12 s at most, and py-spy
_FRAME: Final = re.compile(r"^stack +(\S.*\(.*\))$", re.MULTILINE)


@dataclass(frozen=True)
class HostSaid:
    """What RAS answered, a text each time that it did; and the processes, by id."""

    ras: tuple[str, ...]
    processes: dict[int, ProcessSeen]


def ask_host(shell: Sequence[str], address: str, pids: Sequence[int] = ()) -> HostSaid:
    """Ask through ``shell``, the words that run bash with a script on its standard input; none of them: here.
    Raises SiteError where that does not work.
    """
    script = Path(__file__).with_name("look.sh").read_bytes()
    words = (*shell, "bash", "-s", "--", address or "-", *map(str, pids))
    try:
        done = subprocess.run(words, input=script, capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError as error:
        raise SiteError(f"{words[0]} was not found", hint=f"put {words[0]} on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise SiteError(f"{' '.join(shell) or 'this host'} has not answered within {_SECONDS} s") from error
    text = done.stdout.decode(errors="replace")
    if "##busbw end" not in text:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SiteError(
            f"{' '.join(shell)}: {said[-1] if said else f'exit code {done.returncode}'}",
            hint="try this command by itself: it must come in without a question",
        )
    return read_said(text)


def read_said(text: str) -> HostSaid:
    """The parts of what the script printed."""
    kinds = list(_PART.finditer(text))
    ends = [*(found.start() for found in kinds[1:]), len(text)]
    ras, processes = [], {}
    for found, end in zip(kinds, ends, strict=True):
        body = text[found.end() : end]
        if found[1] == "ras" and body.strip():
            ras.append(body)
        elif found[1] == "process":
            processes[int(found[2])] = _process(body)
    return HostSaid(tuple(ras), processes)


def _process(body: str) -> ProcessSeen:
    lines = body.splitlines()
    told = dict(line.split(" ", maxsplit=1) for line in lines if line.startswith(("command ", "waits_in ")))
    waits = told.get("waits_in", "").strip()
    return ProcessSeen(
        state=lines[0][:1] if lines else "",
        command=told.get("command", "").strip(),
        waits_in="" if waits == "0" else waits,
        stack=tuple(_FRAME.findall(body)),
    )
