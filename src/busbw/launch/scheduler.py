"""A scheduler's own commands (Slurm's, PBS's), called as from a shell; no library of it is needed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from busbw.errors import SiteError

# A busy controller answers late; one that has not answered by then is down.
_PATIENCE_SECONDS: Final = 60.0
_MOST_WORDS: Final = 300  # characters that are shown of what a command said
_ASK: Final = "try `scontrol ping` here: busbw needs a host that reaches Slurm (SLURM_CONF, slurmctld, munge)"
_SHOWN: Final = "--dry-run shows all that is submitted"
# Command -> what to try where its own words are not known to us.
_HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sinfo", "squeue", "scontrol", "scancel"), _ASK),
    **dict.fromkeys(("sbatch", "qsub"), _SHOWN),
    "qstat": "ask whether the PBS server is up",
    "qdel": "ask whether the PBS server is up, then cancel again",
}
_REFUSALS: Final = (
    ("invalid partition", "`sinfo` lists the partitions"),
    ("invalid account", "give --account one of yours; `sacctmgr show associations` lists them"),
    ("invalid qos", "give another --qos in --sbatch-args"),
    ("node count specification invalid", "ask for nodes that exist: `sinfo` shows them"),
    ("requested node configuration is not available", "ask for nodes that exist: `sinfo` shows them"),
    ("requested partition configuration not available", "`sinfo` shows nodes and limits of the partitions"),
    ("time limit specification", "write --time-limit as minutes or hours:minutes:seconds"),
    ("invalid --time specification", "write --time-limit as minutes or hours:minutes:seconds"),
    ("requested time limit is invalid", "give --time-limit what the partition allows"),
    ("unable to contact slurm controller", "ask whether slurmctld is up: `scontrol ping`"),
    ("unrecognized option", "leave out what this version of Slurm does not know"),
    ("invalid job id", "`squeue --me` lists your jobs"),
)
# Of a command whose question was sent, and whose answer did not come: what it asked for may be done
# (slurm_errno.c; qsub). "Unable to contact ... (connect failure)" is none: nothing was sent.
_UNANSWERED: Final = re.compile(
    r"socket timed out|(send|receive|shutdown) failure|zero bytes were|unexpected message|read timeout"
    r"|communication failure|premature end|end of file|closed before we received",
    re.IGNORECASE,
)
# What says where Slurm is, not which job a shell belongs to.
_KEPT: Final = frozenset({"SLURM_CONF", "SLURM_CLUSTERS"})


class NoAnswer(SiteError):
    """The server may have done what it was asked for, and has not said so."""


def environ_outside_jobs() -> Mapping[str, str]:
    """This process's variables, without those of a job that it may be part of: they would give the new one
    its sizes.
    """
    if "SLURM_JOB_ID" not in os.environ:
        return os.environ
    foreign = ("SLURM_", "SLURMD_", "PMI_", "PMI2_", "PMIX_", "OMPI_")
    return {
        name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(foreign)
    }


def call(*words: str, engine: str = "Slurm", over: re.Pattern[str] | None = None) -> str:
    """A command's standard output; empty where it fails in words that are ``over`` and no other error: what
    it was asked about has ended, or is forgotten. Raises SiteError with the command's own words, NoAnswer
    where they do not say what became of the question.
    """
    done = ask(words, engine)
    if done.returncode == 0:
        return done.stdout
    if over is not None and over.search(done.stderr + done.stdout):
        others = [line for line in done.stderr.splitlines() if not over.search(line)]
        if not any("error" in line for line in others):
            return ""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    words_said = own_words(said)[:_MOST_WORDS] or f"exit code {done.returncode}"
    is_open = done.returncode < 0 or _UNANSWERED.search(words_said)  # killed, by whoever
    kind = NoAnswer if is_open else SiteError
    raise kind(f"{words[0]}: {words_said}", hint=hint_of(words_said, words[0]))


def ask(words: Sequence[str], engine: str = "Slurm", text: str = "") -> subprocess.CompletedProcess[str]:
    """A command's end, whatever it is; ``text`` is its standard input. Raises SiteError where it cannot be
    started, NoAnswer where it does not end.
    """
    try:
        return subprocess.run(
            words,
            env=environ_outside_jobs(),
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            check=False,
            start_new_session=True,  # Ctrl-C at the terminal must not leave a submission half done
        )
    except FileNotFoundError as error:
        raise SiteError(
            f"no {engine} here: {words[0]} was not found",
            hint=f"start busbw where {engine}'s commands are, with their folder on PATH",
        ) from error
    except OSError as error:
        raise SiteError(f"cannot start {words[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(
            f"{words[0]} has not answered within {_PATIENCE_SECONDS:g} s",
            hint=f"ask whether {engine}'s server is up",
        ) from error


def hint_of(words: str, command: str = "") -> str:
    """What to try where a command refused something."""
    lowered = words.lower()
    known = (hint for known, hint in _REFUSALS if known in lowered)
    return next(known, _HINTS.get(command, ""))


def own_words(lines: Sequence[str]) -> str:
    """The line that says most: Slurm's first, without the program's name."""
    for line in lines:
        for mark in ("error: ", "fatal: "):
            if mark in line:
                return line.split(mark, maxsplit=1)[1]
    return lines[-1] if lines else ""
