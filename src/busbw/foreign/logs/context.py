"""What stands around the tables of a log: command lines, NCCL's own lines, words of a test that ended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from busbw.foreign.logs.lines import LONGEST_LINE
from busbw.foreign.logs.operations import operation
from busbw.model.tuning_line import TUNING_LINE

# ---- command lines -----------------------------------------------------------------------------------------

_PROGRAM: Final = re.compile(r"(?:^|[\s/'\"])(\w{1,64}?)_perf(?:_\w{1,16})?(?=[\s'\";]|$)")
# A sentence can name the test too: a command goes on with an option or an operation.
_NCCOM: Final = re.compile(r"\bnccom-test\s+(([-\w]+)(?:[\s=].*)?)")
_OTHER_TESTS: Final = re.compile(r"\bosu_\w|\bIMB-")
_LAUNCHER: Final = re.compile(r"\b(?:mpirun|mpiexec|srun|orterun|prterun|aprun)\b")
_RANKS: Final = re.compile(r"\s(?:--np|-np|-n|--ntasks)[ =](\d{1,9})(?=\s|$)")


_TESTS: Final = ("_perf", "nccom-test", "osu_", "IMB-")


def job_facts(line: str) -> dict[str, Any]:
    """Words of a command line that started a test, where a log shows one.

    Ranks are the launcher's, which stand before the test: -n behind it is the test's own.
    """
    found: dict[str, Any] = {}
    nccom, program = _NCCOM.search(line), _PROGRAM.search(line)
    if nccom is not None and not (nccom[2].startswith("-") or operation(nccom[2])):
        nccom = None
    test = nccom or program or _OTHER_TESTS.search(line)
    launcher = _LAUNCHER.search(line, 0, test.start()) if test is not None else None
    ranks = _RANKS.search(line, launcher.end(), test.start() + 1) if test and launcher else None
    if nccom is not None:
        found["nccom_command"] = nccom[1].strip()
    elif program is not None and (launcher is not None or line[program.end() :].lstrip().startswith("-")):
        found["command_program"] = program[1]
    if ranks is not None:
        found["command_ranks"] = int(ranks[1])
    return found


class Job:
    """The words of the command lines since the last table.

    A command holds for the table below it, and for that one only. Two commands that contradict each other
    before a table (a script that was printed first) are not used.
    """

    def __init__(self) -> None:
        self._said: dict[str, set[Any]] = {}
        self._begun = ""  # a command whose line goes on in the next one

    def read(self, line: str) -> None:
        """Take what a line says, or the last one of those that a backslash joins."""
        line = self._begun + line
        self._begun = line[:-1] if line.endswith("\\") and len(line) < LONGEST_LINE else ""
        is_command = not self._begun and any(test in line for test in _TESTS)
        for name, value in job_facts(line).items() if is_command else ():
            self._said.setdefault(name, set()).add(value)

    def take(self) -> dict[str, Any]:
        """The words for the table that begins; the next one needs a command of its own."""
        taken = self.plain()
        self._said = {}
        return taken

    def plain(self) -> dict[str, Any]:
        """The words on which all commands agree."""
        return {name: value for name, values in self._said.items() if len(values) == 1 for value in values}


# ---- lines of NCCL (NCCL_DEBUG=INFO): evidence, never a number ---------------------------------------------

TUNING: Final = "algorithm"
VERSION: Final = "nccl_version"

# Key: what a line says; the groups, joined by a blank, are the evidence; of calls, it is NCCL's own words.
_LINES: Final = (
    (VERSION, re.compile(r"\b([NR]CCL) version *:? *(\d\S*)")),
    ("network", re.compile(r"Using network (.+?)\s*$")),
    ("network", re.compile(r"Assigned NET plugin (.+?) to comm")),
    ("network", re.compile(r" via NET/([^/]+)/\d")),
    ("network_started", re.compile(r"Initialized NET plugin (.+?)\s*$")),
    ("network_started", re.compile(r"NET/(\w+) ?: Using ")),
    ("network_plugin", re.compile(r"NET/Plugin: Loaded net plugin (.+?)\s*$")),
    ("network_plugin", re.compile(r"NET/OFI (?:Initializing|Using) (aws-ofi-nccl) (\S+)")),
    ("provider", re.compile(r"[Ss]elected [Pp]rovider is (\S+?),?(?:\s|$)")),
    ("provider", re.compile(r"MPI startup\(\): libfabric provider: (\S+)")),
    ("devices", re.compile(r"NET/[^:]+ ?: Using (.+?)\s*$")),
    ("no_devices", re.compile(r"NET/([^:]+?) ?: No device found")),
    ("mpi_version", re.compile(r"MPI startup\(\): (Intel\(R\) MPI Library),? Version (\d\S*)")),
    (TUNING, TUNING_LINE),
    ("connected", re.compile(r"Connected (all rings|all trees|NVLS tree|binomial trees|all NVLS trees)")),
    ("setting", re.compile(r"(NCCL_\w+) set by environment to (.+?)\.?\s*$")),
    ("warning", re.compile(r"NCCL WARN (.+?)\s*$")),
)
# One of these is in every line above: most lines of a debug log have none.
_SOME: Final = re.compile(
    r"CCL version|Using network|NET[/ ]|Bytes -> |Connected|set by environment|CCL WARN|rovider|MPI startup"
)


def is_of_a_library(line: str) -> bool:
    """Whether NCCL wrote the line, or another library of the job."""
    return any(mark in line for mark in ("CCL INFO", "CCL WARN", "CCL version", "MPI startup()"))


def said(line: str) -> list[tuple[str, str]]:
    """What a line of a library says: keys and words."""
    found = ((key, form.search(line)) for key, form in (_LINES if _SOME.search(line) else ()))
    return [(key, match[0] if key == TUNING else " ".join(match.groups())) for key, match in found if match]


Evidence = dict[str, dict[str, None]]  # distinct words by key, in order of appearance


def keep(evidence: Evidence, words: Iterable[tuple[str, str]]) -> None:
    """Keep what a line says."""
    for key, text in words:
        evidence.setdefault(key, {})[text] = None


# ---- words by which a job says that a test did not come to its end -----------------------------------------

# Slurm, Open MPI, hydra, PALS, Kubernetes, shells; nccl-tests says "Test NCCL failure", OSU "DATA VALIDATION
# ERROR". Warnings of a test that starts have "error" or "failed" in them too: these words alone end nothing.
_NOT_ZERO: Final = r"(?:exit_?)?(?:status|codes?|signal|exit|exited)[ =:]*(?:of \w+ \d+[ =:]*)?-?[1-9]"
_SOME_OF_THEM: Final = r"(?!\W*(?:0|no|none)\b)"  # a count may be 0
_ENDS: Final = (
    r"\b(?:failure|core dumped|stack trace|evicted|terminating|preempted)\b",
    rf"\b(?:kill(?:ed|ing)|cancel+ed|abort(?:ed|ing)|mpi_abort|segfault|oom[-_ ]?kill\w*)\b{_SOME_OF_THEM}",
    r"\babort\(|\btraceback \(|\bsending signal\b|\bassert(?:ion)?\b.* fail",
    r"\b(?:segmentation (?:fault|violation)|bus error|fatal error|bad termination)\b",
    r"\b(?:received signal|exiting improperly|job (?:has )?failed|backofflimitexceeded)\b",
    r"\btime ?limit\b|\btimed out\b|\boperation timeout\b|\bout of memory\b|\bnode[ _]fail",
    r"\bnon-?zero (?:exit|status|code|return)",
    rf"\b{_NOT_ZERO}|\berror [1-9]\d*$|\bnccl\w+error\b|\bunhandled \w+ error\b",
    r"\b(?:validation|data) (?:error|failed)",
    r"\bto be terminated\b|\bterminated (?:by|with|due|unexpected|early)|\bterminated$",
    r"\blost (?:connection|communication|contact)\b|\bbroken pipe\b|\bconnection .*(?:closed|reset) by\b",
    r"\b(?:will now|collective) abort\b|\bforcing job termination\b|\blaunch failed\b|\bcaught signal\b",
    r"\bunexpectedly disconnected\b|\bexception type=|\*\*\* \[.*\] interrupt\b",
    r"\b(?:illegal instruction|floating point exception|double free|invalid pointer|stack smashing)\b",
    r"\bterminate called\b|\bpanic:|\bkeyboardinterrupt\b|\^c|^(?:hangup|quit|alarm clock)$",
    r"\bno space left\b|\bdisk quota exceeded\b|\bfallen off the bus\b|\becc error\b",
)
_END: Final = re.compile("|".join(_ENDS), re.IGNORECASE)


class End(NamedTuple):
    """A line that says so, and the stream that it is in."""

    line: int
    stream: str
    text: str


def is_end(text: str) -> bool:
    """Whether a line says that something did not come to its end."""
    return _END.search(text) is not None
