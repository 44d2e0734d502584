"""The ``busbw`` command.

A rank that a launcher started, other than rank 0, goes straight to the worker: it gets its plan from rank 0,
so it needs neither arguments nor the libraries of the command line.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.model.event import Event
    from busbw.rank.world.identity import Identity

_FOR_READERS = {"-h", "--help", "--help-all", "--dry-run", "--version"}
_INTERRUPTED = 130
_NCCL_TESTS = "nccl-tests"
_OF_RANKS = {
    "run",
    "check",
    "soak",
    "preflight",
    "isolate",
    "pairs",
    "rails",
    _NCCL_TESTS,
}  # commands that a launcher may start
_PROGRAM_ENDS = ("_perf", "_perf_mpi")


def main() -> int:
    """Entry point of the console script."""
    end_on_signals()
    open_streams()
    arguments = _arguments(sys.argv)
    try:
        from busbw.rank.process import collect_garbage_seldom, keep_libraries_from_threads

        collect_garbage_seldom()
        keep_libraries_from_threads(os.environ)
        if arguments[:1] and arguments[0] in _OF_RANKS:
            code = _begin(arguments)
            if code is not None:
                return code
        from busbw.cli.main import main as cli

        return cli(arguments)
    except KeyboardInterrupt:  # while importing: later it is handled where it is known what to end
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED


def end_on_signals() -> None:
    """SIGTERM and SIGHUP end busbw as Ctrl-C does, from its first moment on."""
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # ignored on purpose: nohup
            signal.signal(number, signal.default_int_handler)


def open_streams() -> None:
    """Streams that a shell has closed (``>&-``) lead nowhere: the next file to be opened would take their
    place. Python has no object for them.
    """
    modes = {"stdin": "r", "stdout": "w", "stderr": "w"}
    for fd, (name, mode) in enumerate(modes.items()):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


def _arguments(argv: list[str]) -> list[str]:
    """The words after ``busbw``. Under the name of a test of nccl-tests, which a link in that program's place
    gives it, they are that test's: old job files run unchanged.
    """
    program = argv[0].rpartition("/")[2]
    return [_NCCL_TESTS, program, *argv[1:]] if program.endswith(_PROGRAM_ENDS) else argv[1:]


def _begin(arguments: list[str]) -> int | None:
    """What need not wait for the command line; the exit code where that is all, of a rank other than 0."""
    from busbw.errors import BusbwError
    from busbw.rank.world.identity import identify

    try:
        identity = identify(os.environ)
    except BusbwError:
        return None  # the command line tells it, with a hint
    code = None if identity is None else _join_as_follower(arguments, identity)
    if code is None:
        _begin_with_gpus(arguments, starts_ranks=identity is None and arguments[0] != _NCCL_TESTS)
    return code


def _join_as_follower(arguments: list[str], identity: Identity) -> int | None:
    """Live as a rank other than 0; None where this process is rank 0 of a launcher."""
    is_nccl_tests = arguments[0] == _NCCL_TESTS and len(arguments) > 1
    if _FOR_READERS.intersection(arguments) and not is_nccl_tests:
        return None if identity.rank == 0 else 0  # rank 0 says it for all
    if arguments[0] == "run" and any(word.startswith("--deliver=") for word in arguments):
        _enter_profiler(arguments, identity)
    from busbw.rank.process import block, offer_stack

    offer_stack()
    block()  # rank 0 too: the command line's libraries may start threads
    if identity.rank == 0:
        return None
    if is_nccl_tests:
        from busbw.foreign.nccl_tests.command import follow as follow_nccl_tests

        return follow_nccl_tests(identity, arguments[1:], _report)
    from busbw.rank.entry import follow

    return follow(identity, arguments, _report)


def _report(item: Event) -> None:
    """In the watcher's process, which loads what it needs only then."""
    from busbw.launch.joined import report

    report(item)


def _begin_with_gpus(arguments: list[str], *, starts_ranks: bool) -> None:
    """Where there may be ranks of GPUs, start them, and begin to ask the driver for the GPUs, which takes up
    to half a second, while the command line is read.
    """
    from busbw.rank.profile import option

    may_be_gpu_ranks = option(arguments, "--backend") in ("", "auto", "nccl")
    if not may_be_gpu_ranks or option(arguments, "--on") or _FOR_READERS.intersection(arguments):
        return
    if starts_ranks:
        from busbw.launch import ahead

        gpus = ahead.likely_gpus(os.environ)
        asked = option(arguments, "--ranks") or os.environ.get("BUSBW_RANKS", "")
        ahead.begin(min(gpus, int(asked)) if asked.isdecimal() else gpus)
    from busbw.machine.gpus import ask_ahead

    ask_ahead()


def _enter_profiler(arguments: list[str], identity: Identity) -> None:
    """Come back under nsys where it was asked for, as a rank of a run whose front process waits for its
    record. Where there is none, those who start the ranks start the profiler too: the command line says so.
    """
    from busbw.rank import profile

    folder = profile.option(arguments, "--deliver")
    if not folder or not profile.is_asked(profile.option(arguments, "--profile"), os.environ):
        return
    more = profile.option(arguments, "--profile-args")
    raise SystemExit(profile.enter(Path(folder), identity, ("busbw", *arguments), more))


if __name__ == "__main__":
    raise SystemExit(main())
