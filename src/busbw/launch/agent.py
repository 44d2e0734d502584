"""What runs on each host of a job: starts its commands, and lets nothing of the job outlive the connection to
the busbw that sent it.

This file is sent to the hosts as text and executed by a Python of theirs (3.8 or newer), so it uses the
standard library alone. What a host and this one do alike (``processes``, ``witness``) is in it, too.

Standard input: this text, the task in JSON, a bundle if the task has one, each after its length in ten
digits; then the words ``go``, ``end`` (with time for last words) or ``now``, a line each. Its end means
``now``.
Standard output: a line of JSON for each thing that happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import platform
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 16
_LOOK_SECONDS = 0.1
_BURY_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1
_RANK_BYTES = 4
_SAY_SECONDS = 1.0  # a rank says its number as it connects


def say(**what: object) -> None:
    """Report to busbw. Where that has ended, so has standard input, which is read."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def own_address(name: str) -> str:
    """The address that ssh came to, where this host does not know the name that ssh has for it (an alias of
    ssh's configuration): the other hosts hardly will.
    """
    connection = os.environ.get("SSH_CONNECTION", "").split()
    with contextlib.suppress(OSError):
        socket.getaddrinfo(name, 0)
        return ""
    return connection[2] if len(connection) == 4 else ""  # client, its port, server, its port: sshd(8)


def probe(name: str) -> dict[str, Any]:
    """What must be known of a host before ranks are started on it; ``name`` is ssh's for it."""
    facts: dict[str, Any] = {
        "hostname": socket.gethostname(),
        "python": list(sys.version_info[:2]),
        "executable": sys.executable,
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": len(list(Path("/dev").glob("nvidia[0-9]*"))),
        "address": own_address(name),
    }
    with contextlib.suppress(OSError):  # the id of a cloud's instance, where the firmware has it (EC2)
        facts["instance"] = Path("/sys/class/dmi/id/board_asset_tag").read_text().strip()
    try:
        from busbw._version import __version__
        from busbw.machine.mpi import find_mpi

        library = find_mpi(os.environ).library
        facts["busbw"] = __version__
        if library is not None:
            facts.update(mpi=library.family, mpiexec=library.mpiexec)
    except Exception as error:  # noqa: BLE001  # whatever it is, the user must see it
        facts["error"] = f"{type(error).__name__}: {error}"
    return facts


def unpack(folder: str, data: bytes) -> None:
    """Make a Python environment of the bundle: this Python, with the bundle's packages."""
    place = Path(folder)
    place.mkdir(mode=0o700)  # fails where it is there already
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder)
    base = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    (place / "bin").mkdir(exist_ok=True)
    (place / "bin/python").symlink_to(base)
    (place / "pyvenv.cfg").write_text(f"home = {base.parent}\n")


class Watch:
    """Reports how the ranks of this host end: launchers do not always name the one that died (MPICH's hydra
    5.0 may name one that it then killed itself).

    A rank connects to the job's address as it starts, says its number, and a goodbye before it leaves by
    itself or because it was told to. Of the connections that close without a goodbye the first is the cause
    of the others; epoll keeps their order.
    """

    def __init__(self, address: str, selector: selectors.BaseSelector, report: Callable[..., None]) -> None:
        self.selector = selector
        self.report = report
        self.ranks: dict[int, int] = {}  # file descriptor -> rank
        self.came: set[int] = set()
        self.is_swept = False  # we end them
        self.listener = socket.socket(socket.AF_UNIX)
        # In the abstract name space (unix(7)): nothing to clean up after a kill. Taken: another agent of this
        # job is on this very machine, and hears its ranks.
        with contextlib.suppress(OSError):
            self.listener.bind("\0" + address)
            self.listener.listen(socket.SOMAXCONN)
            self.listener.setblocking(False)
            selector.register(self.listener, selectors.EVENT_READ, self)

    def read(self, key: selectors.SelectorKey) -> None:
        """A rank connects or ends."""
        if key.fileobj is self.listener:
            with contextlib.suppress(OSError):
                self._accept()
            return
        connection = key.fileobj
        assert isinstance(connection, socket.socket)
        said = b""
        with contextlib.suppress(OSError):
            said = connection.recv(1)
        self.selector.unregister(connection)
        connection.close()
        self.report(gone=self.ranks.pop(key.fd), died=not said and not self.is_swept)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.settimeout(_SAY_SECONDS)
        number = connection.recv(_RANK_BYTES, socket.MSG_WAITALL)
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if len(number) < _RANK_BYTES or user != os.getuid():
            connection.close()
            return
        rank = int.from_bytes(number, "little")
        self.ranks[connection.fileno()] = rank
        self.came.add(rank)
        self.selector.register(connection, selectors.EVENT_READ, self)

    def drain(self, *, are_gone: bool = False) -> None:
        """Take what has happened until now: a rank that has just connected may have ended already. Ranks that
        ``are_gone`` are waited for: a process that ends loses its environment, by which ``sweep`` knows it,
        before its connections, which take a moment where cores are busy.
        """
        deadline = time.monotonic() + _SAY_SECONDS
        while True:
            while ready := [key for key, _ in self.selector.select(0) if key.data is self]:
                for key in ready:
                    self.read(key)
            if not (are_gone and self.ranks) or time.monotonic() >= deadline:
                return
            time.sleep(0.01)


def start(
    argv: Sequence[str], environ: Mapping[str, str], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """A process with a session and pipes of its own, ended by the kernel with the one that starts it."""
    return subprocess.Popen(
        argv,
        env=dict(os.environ, **environ),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # No thread of ours holds a lock here.
        preexec_fn=lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),  # noqa: PLW1509
    )


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """To all processes of its group; a stopped one would not hear it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
        os.killpg(process.pid, signal.SIGCONT)


class Children:
    """Processes that run, and what they write as whole lines. ``selector`` has their pipes with (index, is
    error) as data.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.selector = selector
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.rest: dict[int, bytes] = {}  # by descriptor: half a line

    def add(self, index: int, process: subprocess.Popen[bytes]) -> None:
        """Read from a process from now on."""
        self.running[index] = process
        for pipe, is_error in ((process.stdout, False), (process.stderr, True)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self.rest[pipe.fileno()] = b""
            self.selector.register(pipe, selectors.EVENT_READ, (index, is_error))

    def read(self, key: selectors.SelectorKey) -> Iterator[str]:
        """The lines that are there now."""
        while key.fd in self.selector.get_map():
            try:
                data = os.read(key.fd, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not data:
                self.selector.unregister(key.fileobj)
                data = b"\n" if self.rest[key.fd] else b""
            *lines, self.rest[key.fd] = (self.rest[key.fd] + data).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")

    def ended(self) -> Iterator[tuple[int, subprocess.Popen[bytes], list[selectors.SelectorKey]]]:
        """Those that have ended since, each with its pipes that are open; its orphans may hold them so."""
        for index, process in sorted(self.running.items()):
            if process.poll() is not None:
                del self.running[index]
                keys = self.selector.get_map().values()
                of_it = [key for key in keys if isinstance(key.data, tuple) and key.data[0] == index]
                yield index, process, of_it


class Commands:
    """The commands of a task, and all processes that carry the job's mark in their environment."""

    def __init__(self, task: dict[str, Any], selector: selectors.BaseSelector) -> None:
        self.mark = b"BUSBW_JOB=" + task["job"].encode()  # in the environment of every process of the job
        self.children = Children(selector)
        self.commands = task["commands"]

    def start(self) -> None:
        """Start all of them."""
        for index, command in enumerate(self.commands):
            try:
                self.children.add(index, start(command["argv"], command["environ"]))
            except OSError as error:
                say(exit=127, index=index, error=f"{error.filename}: {error.strerror}")

    def read(self, key: selectors.SelectorKey) -> None:
        """Pass on what a command wrote."""
        index, is_error = key.data
        for line in self.children.read(key):
            say(line=line, index=index, error=is_error)

    def bury(self) -> None:
        """Report commands that ended."""
        for index, process, keys in self.children.ended():
            for key in keys:
                self.read(key)
            say(exit=process.returncode, index=index)

    def signal(self, number: int) -> None:
        """To the commands' groups."""
        for process in self.children.running.values():
            signal_group(process, number)

    def sweep(self) -> None:
        """Kill every process of the job on this host, until there is none."""
        deadline = time.monotonic() + _BURY_SECONDS
        while time.monotonic() < deadline:
            found = marked(self.mark)
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            for process in self.children.running.values():
                process.poll()
            if not found:
                return
            time.sleep(0.02)


def marked(mark: bytes) -> list[int]:
    """Other processes with this mark in their environment. One that has ended has no environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # ended meanwhile, or somebody else's
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def read_bytes(count: int) -> bytes:
    """So many bytes of standard input, and not one more: a buffer would swallow what follows."""
    data = b""
    while len(data) < count:
        chunk = os.read(0, count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def read_part() -> bytes:
    """The next part of standard input."""
    return read_bytes(int(read_bytes(10)))


def serve(task: dict[str, Any]) -> None:
    """Do the task until its commands have ended or busbw has had enough, and sweep up."""
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    watch = Watch(task["watch"], selector, say) if task["watch"] else None
    commands = Commands(task, selector)
    end, deadline = "", 0.0  # the word that ends it, and until when
    say(ready=os.getpid())  # ranks that connect from now on are heard
    while not end or (commands.children.running and time.monotonic() < deadline):
        for key, _ in selector.select(_LOOK_SECONDS):
            if isinstance(key.data, Watch):
                key.data.read(key)
            elif key.data is not None:
                commands.read(key)
            else:
                for word in os.read(0, _CHUNK_BYTES).decode().split() or ["now"]:
                    if word == "go":
                        commands.start()
                    elif word in ("end", "now") and end != "now":
                        end, deadline = word, time.monotonic() + (task["grace"] if word == "end" else 0)
                    if word == "end":
                        commands.signal(signal.SIGTERM)
        commands.bury()
    finish(commands, watch)


def finish(commands: Commands, watch: Watch | None) -> None:
    """End what is left of the job on this host."""
    if watch is not None:
        watch.drain()  # of ranks that ended before
        watch.is_swept = True
    commands.signal(signal.SIGKILL)
    commands.sweep()
    commands.bury()
    if watch is not None:
        watch.drain(are_gone=True)


def main() -> None:
    """Read the task and do it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # busbw decides, by its words or its end. Not SIG_IGN, which commands would inherit.
        signal.signal(number, lambda *_: None)
    task = json.loads(read_part())
    if task["do"] == "probe":
        say(probe=probe(task["name"]))
        return
    folder = task.get("bundle", "")
    try:
        if folder:
            unpack(folder, read_part())
        serve(task)
        say(done=True)
    except (OSError, EOFError, tarfile.TarError) as error:
        say(failed=str(error) or "the connection ended")
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
