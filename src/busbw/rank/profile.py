"""Ranks under Nsight Systems (``--profile nsys``): however it was started, a rank becomes ``nsys profile`` of
itself.

The recipe: no sampling of the CPU, traces of CUDA and NVTX (NCCL's ranges and our own), one report a rank,
exported as SQLite. EFA is sampled once a host, by its first rank, since ranks share the devices.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError
from busbw.model.event import error_event
from busbw.rank.process import emit

if TYPE_CHECKING:
    from busbw.rank.world.identity import Identity

TOOL: Final = "nsys"
SETTINGS: Final = "--settings="  # before the settings of a job, as JSON (``plan.request``)
# Set by a front process for the ranks that it starts itself: the profiler, and more words for it. Not the
# variables of the flags, which a user's shell may have, and which --profile none overrides.
VARIABLE: Final = "BUSBW_RANK_PROFILER"
WORDS_VARIABLE: Final = "BUSBW_RANK_PROFILER_ARGS"
_INSIDE: Final = "BUSBW_IN_PROFILER"
_BASE: Final = ("--sample", "none", "--cpuctxsw", "none", "--trace", "cuda,nvtx", "--export", "sqlite")
_INFINIBAND: Final = Path("/sys/class/infiniband")


def profile_words(
    program: str, output: str, argv: Sequence[str], more: str = "", *, samples_efa: bool = False
) -> tuple[str, ...]:
    """The command line of a rank under nsys, whose report is ``output`` without its ending; ``more`` are the
    user's own words.
    """
    efa = ("--enable", "efa_metrics") if samples_efa else ()
    where = ("--force-overwrite", "true", "--output", output)
    return (program, "profile", *_BASE, *efa, *shlex.split(more), *where, *argv)


def report_name(rank: int, host: str) -> str:
    """What a rank's report is called: sorted by rank, and readable as one."""
    return f"rank-{rank:05d}-{host}"


def profiler_environ(profile: str, more: str) -> dict[str, str]:
    """For ranks that a front process starts itself."""
    return {VARIABLE: profile, **({WORDS_VARIABLE: more} if more else {})} if profile == TOOL else {}


def option(arguments: Iterable[str], name: str) -> str:
    """The value of a flag among words that are not parsed yet, or in the settings of a job; or empty."""
    words = list(arguments)
    found = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            found = following
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
        elif word.startswith(SETTINGS):
            key = name.removeprefix("--").replace("-", "_")
            found = str(json.loads(word.removeprefix(SETTINGS)).get(key, ""))
    return found


def is_asked(profile: str, environ: Mapping[str, str]) -> bool:
    """Whether this process still has to become one under the profiler."""
    return profile == TOOL and not environ.get(_INSIDE)


def enter(folder: Path, identity: Identity | None, words: Sequence[str], more: str) -> int:
    """Become nsys, which starts ``python -m`` with these words. Where that cannot be: the exit code."""
    rank, local_rank = (identity.rank, identity.local_rank) if identity is not None else (0, 0)
    from busbw.record.folder import NSYS_FOLDER

    host, program, reports = socket.gethostname(), shutil.which(TOOL), folder / NSYS_FOLDER
    argv, output = (sys.executable, "-m", *words), str(reports / report_name(rank, host))
    devices = _INFINIBAND.iterdir() if local_rank == 0 and _INFINIBAND.is_dir() else ()
    has_efa = any((device / "device" / "driver").resolve().name == "efa" for device in devices)
    try:
        if program is None:
            raise SiteError(
                f"--profile nsys, and there is no nsys on PATH ({os.environ.get('PATH', '')})",
                hint="load Nsight Systems' module on the ranks' hosts, or put its folder into PATH there",
            )
        _make(reports)
        become = profile_words(program, output, argv, more, samples_efa=has_efa)
        os.execve(program, become, {**os.environ, _INSIDE: "1"})
    except SiteError as error:
        error.rank, error.host = rank, host
        emit(error_event(error))
        return int(error.exit_code)


def _make(reports: Path) -> None:
    try:
        reports.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SiteError(
            f"cannot make {reports} for reports of nsys: {error.strerror}",
            hint="set BUSBW_HOME to a folder that the ranks' hosts share",
        ) from error
