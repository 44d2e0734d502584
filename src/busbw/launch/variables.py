"""The variables of the measured processes: --env K=V and --env-file FILE. Pure, but for reading the file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from busbw.errors import UsageError
from busbw.files import read_input
from busbw.plan.flags.launch import VARIABLE, LaunchSettings

LIBRARIES: Final = "LD_LIBRARY_PATH"
# A line of a shell up to its comment; shlex takes a # within a word for one too. A # in a word is no comment.
_CODE: Final = re.compile(r"""(?:[^'"\\#]|\\.|'[^']*'|"(?:[^"\\]|\\.)*"|(?<=\S)\#)*(?=\#|$)""", re.VERBOSE)
_IN_FILE: Final = "write NCCL_DEBUG=INFO, and quotes around a value with blanks: NAME='two words'"


def read_variables(env: Iterable[str], env_file: Path | None) -> Mapping[str, str]:
    """The file's variables, and over them those of the command line, in order. Raises UsageError."""
    found: dict[str, str] = {}
    if env_file is not None:
        text = read_input(env_file, "name a file with one K=V a line", "--env-file")
        found.update(parse_lines(text, str(env_file)))
    found.update(_split(word, "--env") for word in env)
    return found


def library_folders(folders: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """``folders`` as what is to be put before LD_LIBRARY_PATH; nothing where ``environ`` says it whole."""
    return {LIBRARIES: ":".join(folders)} if folders and LIBRARIES not in environ else {}


def read_here(launch: LaunchSettings, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables for ranks on this host, which inherit the others. Raises UsageError."""
    found = dict(read_variables(launch.env, launch.env_file))
    for name, folders in library_folders(launch.library_path, found).items():
        found[name] = ":".join(filter(None, (folders, inherited.get(name, ""))))
    return found


def lacking(launch: LaunchSettings, here: Mapping[str, str]) -> dict[str, str]:
    """Those of ``read_here`` that a process with the variables ``here`` lacks. Raises UsageError."""
    wanted, has = read_here(launch, here), here.get(LIBRARIES, "")
    if folders := ":".join(launch.library_path):
        is_before = f"{has}:".startswith(f"{folders}:")
        if is_before and wanted[LIBRARIES] == f"{folders}:{has}":
            del wanted[LIBRARIES]
    return {name: value for name, value in wanted.items() if here.get(name) != value}


def launched(words: str, environ: Mapping[str, str], first: str = "") -> str:
    """Lines of a bash script that run a program with these variables. Neither the script nor what else it
    calls sees them: a variable may be called as one of the script's own. ``words`` is shell text of the
    program and its words, ``first`` a line before the variables. No value shows in a list of processes.
    """
    # What was an array, or bash's own (RANDOM), would not be exported as it is said.
    unset = f"unset -v {' '.join(environ)}\n"
    exports = [f"export {name}={shlex.quote(value)}\n" for name, value in environ.items()]
    return "".join((f"set -- {words}\n(\n", first, unset, *exports, 'exec "$@"\n)\n'))


def parse_lines(text: str, where: str) -> Mapping[str, str]:
    """K=V, one or several a line; ``export`` before them, quotes, backslashes, comments and empty lines are
    as in a shell, but nothing is expanded and a value ends with its line. Raises UsageError naming the line.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{where}, line {number}"
        words = _words(line, place)
        found.update(_split(word, place, _IN_FILE) for word in words[words[:1] == ["export"] :])
    return found


def _words(line: str, where: str) -> list[str]:
    code = _CODE.match(line)
    if code is None:
        raise UsageError(
            f"{where}: a quote is not closed, or a backslash ends the line",
            hint="write a value on one line; with --env it may have several",
        )
    return shlex.split(code[0])


def _split(word: str, where: str, hint: str = "write --env NCCL_DEBUG=INFO") -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not VARIABLE.fullmatch(name):
        said = repr(name.split()[0]) if name.split() else repr(word)  # what stands behind may be a secret
        raise UsageError(f"{where}: {said} is not K=V", hint=hint)
    return name, value
