"""Commands as values, and their execution: what ``--dry-run`` prints is what is run."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from busbw.errors import SiteError

_KEPT_LINES: Final = 60
_PATIENCE_SECONDS: Final = 120.0  # for questions; builds take what they take
# What tools say -> what can be done about it; {tool} and {host} are filled in.
_HINTS: Final[Mapping[str, str]] = {
    r"(?i)no matching distribution found for busbw": "give --busbw a wheel (`make wheels` makes one)",
    r"(?i)certificate.verify.failed": "give --base an image that has the certificates of your network",
    r"(?i)exec format error": "build on a machine of that processor, or register qemu for it (binfmt_misc)",
    r"(?i)policy\.json": "install containers-common, or give --tool-args '--signature-policy FILE'",
    r"(?i)cannot connect to the docker daemon|docker daemon running": "start Docker, or give --tool buildah",
    r"(?i)newuidmap|operation not permitted": "give --tool-args '--isolation chroot' (buildah), or be root",
    r"(?i)no space left": "free space where the tool keeps its images",
    r"(?i)image not known|pull access denied|manifest unknown|no such image|not found in local": (
        "check the image's name: {tool} images lists those that are here"
    ),
    r"(?i)unauthorized|authentication required|access.*denied|denied:": "log in first: {tool} login REGISTRY",
    r"(?i)no such host|dial tcp|could not resolve|pinging container registry": (
        "check the network and the name; an image that is here is taken with --tool-args '--pull=never'"
    ),
    r"(?i)unable to locate credentials|expiredtoken|security token|could not connect to the endpoint": (
        "check the AWS credentials and region: aws sts get-caller-identity"
    ),
}


@dataclass(frozen=True)
class Step:
    """One command. ``source`` is a command whose output it reads (a password, which nothing else sees);
    ``unless`` one that makes it needless where it succeeds, and ``absent`` is what that one says otherwise.
    """

    words: tuple[str, ...]
    source: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    absent: str = ""
    may_fail: bool = False


def shell(step: Step) -> str:
    """The step as a shell's line."""
    line = shlex.join(step.words)
    if step.source:
        line = f"{shlex.join(step.source)} | {line}"
    if step.unless:
        line = f"{shlex.join(step.unless)} || {line}"
    return f"{line} || true" if step.may_fail else line


def run_steps(steps: Sequence[Step], errors: TextIO) -> None:
    """Run them in order; what they say goes to ``errors``. Raises SiteError at the first that fails."""
    for step in steps:
        if step.unless and _succeeds(step):
            continue
        password = _output(step.source) if step.source else None
        errors.write(f"+ {shell(step)}\n")
        code, said = follow(step.words, errors, password)
        if code and not step.may_fail:
            raise failed(step.words, code, said)


def follow(words: Sequence[str], errors: TextIO, given: str | None = None) -> tuple[int, tuple[str, ...]]:
    """Run a command and show what it says as it says it; its exit code and last lines. Raises SiteError where
    it cannot be started.
    """
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE if given is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise _not_started(words[0], error) from error
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    with process:
        try:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
                    process.stdin.write(given or "")
                    process.stdin.close()
            for line in process.stdout or ():
                last.append(line.rstrip())
                errors.write(line)
                errors.flush()
            return process.wait(), tuple(last)
        finally:
            if process.poll() is None:  # Ctrl-C: the tool ends its own children, and we wait for it
                process.terminate()


def failed(words: Sequence[str], code: int, said: Sequence[str]) -> SiteError:
    """The error of a command that ended with ``code``, in its own words."""
    tool = words[0]
    lines = [line.strip() for line in said if line.strip()]
    telling = [line for line in lines if re.search(r"(?i)\berror\b", line)]
    # A tool's last line only says which step it was: the reason stands above it.
    reasons = [line for line in telling if not re.search(r"(?i)building at step|while running", line)]
    text = (reasons or telling or lines or [f"exit code {code}"])[-1]
    everything = "\n".join(lines)
    hint = next((hint for pattern, hint in _HINTS.items() if re.search(pattern, everything)), "")
    return SiteError(f"{tool} {words[1]} failed: {text}", hint=hint.format(tool=tool))


def _succeeds(step: Step) -> bool:
    done = _ask(step.unless)
    if done.returncode and step.absent not in done.stderr:
        raise failed(step.unless, done.returncode, done.stderr.splitlines())
    return done.returncode == 0


def _output(words: Sequence[str]) -> str:
    done = _ask(words)
    if done.returncode:
        raise failed(words, done.returncode, done.stderr.splitlines())
    return done.stdout


def _ask(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _not_started(words[0], error) from error
    except subprocess.TimeoutExpired as error:
        raise SiteError(
            f"{words[0]} has not answered within {_PATIENCE_SECONDS:g} s", hint="check the network"
        ) from error


_INSTALL: Final[Mapping[str, str]] = {
    "aws": "install the AWS command line interface, or create the repository and log in by hand (--no-login)",
    "enroot": "install enroot (github.com/NVIDIA/enroot), or run this where it is: on a node",
}


def _not_started(tool: str, error: OSError) -> SiteError:
    if isinstance(error, FileNotFoundError):
        return SiteError(
            f"no {tool} here", hint=_INSTALL.get(tool, f"install {tool}, or give another --tool")
        )
    return SiteError(f"cannot start {tool}: {error.strerror}")
