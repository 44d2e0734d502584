"""Command lines in a log: what the next table is called, and on how many ranks it ran.

A command holds for the table below it, and for that one only. Two commands that contradict each other before
a table (a script that was printed first) tell nothing: what is not known is found out or asked for.
"""

from __future__ import annotations

import re
from typing import Any, Final

_PROGRAM: Final = re.compile(r"(?:^|[\s/'\"])(\w{1,64}?)_perf(?:_\w{1,16})?(?=[\s'\";]|$)")
_NCCOM: Final = re.compile(r"\bnccom-test\s+(\S.*)")
_OTHER_TESTS: Final = re.compile(r"\bosu_\w|\bIMB-")
_LAUNCHER: Final = re.compile(r"\b(?:mpirun|mpiexec|srun|orterun|prterun|aprun)\b")
_RANKS: Final = re.compile(r"\s(?:--np|-np|-n|--ntasks)[ =](\d{1,9})(?=\s|$)")


def may_be_command(line: str) -> bool:
    """Whether a line names a test as command lines do."""
    return "_perf" in line or "nccom-test" in line or "osu_" in line or "IMB-" in line


def job_facts(line: str) -> dict[str, Any]:
    """Words of a command line that started a test, where a log shows one.

    Ranks are the launcher's, which stand before the test: -n behind it is the test's own.
    """
    found: dict[str, Any] = {}
    nccom, program = _NCCOM.search(line), _PROGRAM.search(line)
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
    """The words of the command lines since the last table."""

    def __init__(self) -> None:
        self.words: dict[str, Any] = {}
        self._spent = False  # the last command's output has begun
        self._doubtful: set[str] = set()

    def read(self, line: str) -> None:
        """Take what a line says."""
        found = job_facts(line)
        if not found:
            return
        if self._spent:
            self.words, self._doubtful, self._spent = {}, set(), False
        for name, value in found.items():
            if self.words.get(name, value) != value:
                self._doubtful.add(name)
            self.words[name] = value

    def begin_output(self) -> None:
        """The test has said its first words: the next command is another one's."""
        self._spent = True

    def take(self) -> dict[str, Any]:
        """The words for the table that begins; the next one needs a command of its own."""
        taken = self.plain()
        self.words, self._doubtful, self._spent = {}, set(), False
        return taken

    def plain(self) -> dict[str, Any]:
        """The words on which all commands agree."""
        return {name: value for name, value in self.words.items() if name not in self._doubtful}
