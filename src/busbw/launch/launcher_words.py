"""What launchers and the ranks under them print about a rank that died, read back. Pure.

The wordings are those of MPICH's hydra (5.0; a process id, no rank), of Open MPI's mpirun (4.1 and 5.0; a
rank, and a process id only for signals) and of Slurm's srun (22.05; later versions say the same). What
follows from them is decided in ``verdict``.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Death:
    """A process that ended badly. ``code`` is negative for a signal, as subprocess has it, None where it is
    not known: then ``number`` may be an exit code or a signal's.
    """

    host: str
    pid: int | None = None
    rank: int | None = None
    code: int | None = None
    number: int | None = None

    @property
    def how(self) -> str:
        """How it ended, after the words for who."""
        if self.code is not None:
            return f"ended with {describe(self.code)}" if self.code >= 0 else f"was {describe(self.code)}"
        if self.number:
            return f"ended with {self.number} (an exit code, or a signal's number: hydra prints both alike)"
        return "ended first, and the launcher ended the others"


_HYDRA_PLACE = re.compile(r"^=\s+PID (\d+) RUNNING AT (\S+)", re.MULTILINE)
_HYDRA_CODE = re.compile(r"^=\s+EXIT CODE: (\d+)", re.MULTILINE)
_HYDRA_SIGNAL = re.compile(r"EXIT STRING: .*\(signal (\d+)\)|KILLED BY SIGNAL: (\d+)")
_HYDRA_FAILED: Final = "process manager error waiting for completion"
_OPEN_MPI_SIGNAL = re.compile(
    r"process rank (\d+) with PID (\d+) on node (\S+) exited on\s+signal (\d+)", re.DOTALL
)
# Open MPI 5: a survivor's words, which it may say before its launcher has noticed who died.
_OPEN_MPI_PEER = re.compile(r"peer process has unexpectedly disconnected.*?Peer host:\s+(\S+)", re.DOTALL)
# And its launcher's, over a host whose daemon it lost.
_OPEN_MPI_DAEMON = re.compile(r"Remote host:\s+(\S+)\s+Daemon exit status:")
# The first lines of what a launcher itself says; a rank's own last words come before.
_BANNER = re.compile(r"^(={20,}|-{20,})$")
# Not of the rank that died: notices of Open MPI's launcher and of ranks that lost another one, places in
# hydra's own source (behind a host's name, where there is one), and what srun and slurmstepd say of tasks. Of
# Open MPI's trace of a fault, the function that it happened in tells most: the signal's frame before it, and
# its callers, are left out.
_HYDRA_SOURCE = r"(?:\S+: )?\[(?:mpiexec|proxy[^@\]]*)@[^\]]+\] \w+ \([^)]*\.c:\d+\): "
_OTHERS = re.compile(
    rf"\[[^\]:]+:\d+\] (?:\*\*\*|plm:|PMIX ERROR|\[ *(?!1\])\d+\])|{_HYDRA_SOURCE}"
    r"|(?:\s*\d+: )?(?:srun|slurmstepd(?:-\S+)?): (?!.*\boom_kill\b)"
)
# What a survivor of Open MPI (5.0) says, and nobody else: its TCP transport lost a connection.
_LOST_A_PEER = re.compile(
    r"\*\*\* An error occurred in Socket closed|peer process has unexpectedly disconnected"
)
# MPICH and Open MPI, of a call whose sizes differ between ranks.
_CUT: Final = re.compile(r"message truncated", re.IGNORECASE)
# mpirun: a rank that called MPI_Abort, or an error handler that does.
_ABORTED = re.compile(r"due to process rank (\d+) with PID \d+ on node \S+ calling\s+\"abort\"", re.DOTALL)


def read_death(lines: Sequence[str]) -> Death | None:
    """The death that a launcher reported in its output, None where it reported none."""
    text = "\n".join(lines)
    if match := _OPEN_MPI_SIGNAL.search(text):
        rank, pid, host, number = match.groups()
        return Death(host, int(pid), int(rank), -int(number))
    if match := _HYDRA_PLACE.search(text):
        return Death(match[2], int(match[1]), **_hydra_code(text))
    return None


def ranks_on(host: str, places: Mapping[int, str]) -> list[int]:
    """The ranks of a host, whose long name a launcher may have."""
    short = host.partition(".")[0]
    return [rank for rank, place in places.items() if place.partition(".")[0] == short]


def cut_a_message(lines: Sequence[str]) -> bool:
    """Whether an MPI library said that a message was longer than the call that received it."""
    return any(_CUT.search(line) for line in lines)


def read_lost_peer(lines: Sequence[str]) -> str | None:
    """The host of a process that others lost their connection to; None where nobody said so."""
    text = "\n".join(lines)
    match = _OPEN_MPI_PEER.search(text) or _OPEN_MPI_DAEMON.search(text)
    return match[1] if match else None


def _hydra_code(text: str) -> dict[str, int]:
    # Hydra prints a signal's number as exit code too. Its last line, which is missing where hydra fails over
    # the end itself, has the statuses of all ranks or'ed, and it kills the others: SIGABRT reads "Terminated
    # (signal 15)", which is 6 | 9; an exit code leaves the 9.
    found, last = _HYDRA_CODE.search(text), _HYDRA_SIGNAL.search(text)
    if last is None:
        return {"number" if _HYDRA_FAILED in text else "code": int(found[1])} if found else {}
    combined = int(last[1] or last[2])
    number = int(found[1]) if found else combined
    of_signal = number | signal.SIGKILL
    if combined == number or combined == of_signal != signal.SIGKILL:
        return {"code": -number}
    return {"code" if combined == signal.SIGKILL != of_signal else "number": number}


def words_of_ranks(lines: Sequence[str]) -> list[str]:
    """What ranks printed before their launcher began to speak, without blank lines."""
    words = []
    for line in lines:
        if _BANNER.match(line.strip()):
            break
        if line.strip() and not _OTHERS.match(line):
            words.append(line)
    return words


def last_words(lines: Sequence[str]) -> str:
    """The last line that a rank printed before its launcher began to speak; empty where there is none."""
    return next((line.strip() for line in reversed(words_of_ranks(lines))), "")


def first_complaint(lines: Sequence[str]) -> str:
    """What a launcher gave up over where no rank had started: hydra's first message is the cause of those
    that follow, and Open MPI's stands below its banner. Empty where there is none.
    """
    texts = (
        re.sub(f"^{_HYDRA_SOURCE}", "", line.strip()) for line in lines if not _BANNER.match(line.strip())
    )
    return next((text for text in texts if text and not _OTHERS.match(text)), "")


def survivors(words: Mapping[int, Sequence[str]], launcher_words: Sequence[str]) -> set[int]:
    """Ranks that ended because they had lost another one, by their own words. An abort alone may be a cause:
    it counts where somebody lost a connection.
    """
    found = {rank for rank, lines in words.items() if _LOST_A_PEER.search("\n".join(lines))}
    if found:
        found |= {int(rank) for rank in _ABORTED.findall("\n".join(launcher_words))}
    return found


# ---- Slurm ---------------------------------------------------------------------------------------------

_TASK_DIED: Final = re.compile(
    r"^(?:\s*\d+: )?srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,\[\]-]+): (?P<how>.+?)\s*$", re.MULTILINE
)
# Of scancel or, after the first death, of srun itself.
_STEP_ENDS: Final = re.compile(r"error: \*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*")
# Of srun, asked to by a PMIx server: it kills the ranks, and may not have heard yet which one died.
_STEP_ABORTED: Final = re.compile(r"srun: Job step aborted: ")
# Slurm's number for a task that was killed for its memory, and for all of that node that end after it.
_OUT_OF_MEMORY: Final = 125
# srun has the C library's words: Killed, Segmentation fault, ...
_SIGNALS: Final[Mapping[str, int]] = {
    **{signal.strsignal(number) or "": int(number) for number in signal.Signals},
    "Out Of Memory": _OUT_OF_MEMORY,
}


def srun_deaths(lines: Sequence[str]) -> tuple[list[Death], list[Death] | None]:
    """Each task that srun reported, in its order: before it or Slurm began to end the step, and since then
    where a PMIx server had it do that, else None.
    """
    before: list[Death] = []
    later: list[Death] = []
    found, is_aborted = before, False
    for line in lines:
        is_aborted = is_aborted or bool(_STEP_ABORTED.search(line))
        if is_aborted or _STEP_ENDS.search(line):
            found = later
        if (match := _TASK_DIED.match(line)) and (code := _srun_code(match["how"])) is not None:
            for first, last in re.findall(r"(\d+)(?:-(\d+))?", match["tasks"]):  # 0,3-5
                tasks = range(int(first), int(last or first) + 1)
                found += [Death(match["host"], rank=task, code=code) for task in tasks]
    return before, later if is_aborted else None


def _srun_code(how: str) -> int | None:
    if match := re.match(r"Exited with exit code (\d+)", how):
        return int(match[1])
    name = how.removesuffix(" (core dumped)")
    return -_SIGNALS[name] if name in _SIGNALS else None


def describe(code: int) -> str:
    """How a process ended: ``exit code 3``, ``killed by SIGKILL``."""
    if code >= 0:
        return f"exit code {code}"
    if code == -_OUT_OF_MEMORY:
        return "killed for its memory"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
