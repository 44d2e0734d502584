"""The variables of the measured processes: --env K=V and --env-file FILE. Pure, but for reading the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import UsageError
from busbw.settings.launch import VARIABLE

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings

LIBRARIES: Final = "LD_LIBRARY_PATH"
_QUOTES: Final = ("'", '"')
# What busbw tells the processes that it starts: which job they are of, which rank each is, what to do.
_OURS: Final = frozenset(
    f"BUSBW_{name}"
    for name in (
        *("JOB", "REQUEST", "FRONT", "LAST", "SETUP", "PROCESSES", "EXEC_HOSTS", "EXEC_NAMES", "EXEC_NODE"),
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK"),
        *("POD", "POD_NAMESPACE", "POD_NODE"),
    )
)


def read_variables(env: Iterable[str], env_file: Path | None) -> Mapping[str, str]:
    """The file's variables, and over them those of the command line, in order. Raises UsageError."""
    found: dict[str, str] = {}
    if env_file is not None:
        try:
            text = env_file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"cannot read --env-file {env_file}: {error}", hint="name a file with one K=V a line"
            ) from error
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


def parse_lines(text: str, where: str) -> Mapping[str, str]:
    """One K=V a line; ``export`` before it, quotes around the whole value, comments and empty lines are as in
    a shell, but nothing is expanded. Raises UsageError naming the line.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip().removeprefix("export ").strip()
        if not words or words.startswith("#"):
            continue
        name, value = _split(words, f"{where}, line {number}")
        found[name] = (
            value[1:-1] if len(value) > 1 and value[0] in _QUOTES and value[0] == value[-1] else value
        )
    return found


def _split(word: str, where: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not VARIABLE.fullmatch(name):
        raise UsageError(f"{where}: {word!r} is not K=V", hint="write --env NCCL_DEBUG=INFO")
    if name in _OURS:
        raise UsageError(f"{where}: {name} is for busbw to say", hint=f"leave {name} out")
    if "\0" in value:
        raise UsageError(f"{where}: the value of {name} holds a zero byte", hint="leave it out")
    return name, value
