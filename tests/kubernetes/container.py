"""A pod's network and a container in it, made of Linux namespaces: what a container runtime is to a kubelet.

A container has a process table, mounts, /etc, /root, /tmp, /run and /dev/shm of its own; its "image" is this
machine's system folders plus the folders that the image's entry names, all read-only. Its process is number 1
there, as in a real one: signals without a handler do not end it.

Run as a program (by ``Container``) this file is the container's first process until it executes the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_PR_SET_PDEATHSIG = 1
_SYSTEM = ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr", "opt")
_NAMESPACES = ("--net", "--uts", "--ipc")


@dataclass(frozen=True)
class Mount:
    """``source`` on this machine is seen as ``target`` in the container."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Spec:
    """What a container runs. ``folder`` is an empty one for its root; ``binds`` are the image's own."""

    folder: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    cwd: str = "/"


class Sandbox:
    """The network of a pod: an address on the bridge, and a host name."""

    def __init__(self, name: str, address: str, bridge: str) -> None:
        self.address = address
        script = f"hostname {name} && ip link set lo up && echo ready && exec sleep 1000000"
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *_NAMESPACES, "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline()
        if said != "ready\n":
            self.close()
            raise OSError(f"pod {name}: {said}")
        port, pid = f"p{self._holder.pid}", str(self._holder.pid)
        _call("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _call("ip", "link", "set", port, "master", bridge, "up")
        _call(*self.entered("n"), "ip", "addr", "add", f"{address}/16", "dev", "eth0")
        _call(*self.entered("n"), "ip", "link", "set", "eth0", "up")

    def entered(self, kinds: str = "nui") -> list[str]:
        """Words before a command that is to run in here."""
        return ["nsenter", "-t", str(self._holder.pid), *(f"-{kind}" for kind in kinds), "--"]

    def close(self) -> None:
        """The network is gone with its last process."""
        self._holder.kill()
        self._holder.wait()
        if self._holder.stdout is not None:
            self._holder.stdout.close()


class Container:
    """A running container; its output goes to the descriptor ``output``."""

    def __init__(self, sandbox: Sandbox, spec: Spec, output: int) -> None:
        Path(spec.folder).mkdir(parents=True, exist_ok=True)
        self.environ = spec.environ
        self._process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", *sandbox.entered()),
                *(sys.executable, "-I", __file__, json.dumps(asdict(spec))),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def poll(self) -> int | None:
        """The exit code (128 + signal for a killed one), None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self) -> int:
        """The exit code, when it has one."""
        while (code := self.poll()) is None:
            time.sleep(0.02)
        return code

    def stop(self, grace_seconds: float) -> int:
        """SIGTERM, then SIGKILL; the exit code."""
        if self.poll() is None:
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + grace_seconds
            while self.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
        if self.poll() is None:
            self._signal(signal.SIGKILL)
        return self.wait()

    def _children(self) -> list[str]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        try:
            return children.read_text().split()
        except OSError:
            return []  # it has just ended

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):  # it has just ended
            for child in self._children():
                os.kill(int(child), number)


def _call(*argv: str) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")


def _mount(*words: str) -> None:
    _call("mount", *words)


def _bind(source: str, target: Path, *, read_only: bool = True) -> None:
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount("--rbind", source, str(target))
    if read_only:
        _mount("-o", "remount,bind,ro", str(target))


def _make_root(root: Path, binds: Sequence[str]) -> None:
    """The image: what every container sees of this machine."""
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root))
    for name in _SYSTEM:
        source = Path("/") / name
        if source.is_symlink():
            (root / name).symlink_to(source.readlink())
        elif source.is_dir():
            _bind(str(source), root / name)
    shutil.copytree("/etc", root / "etc", symlinks=True, ignore_dangling_symlinks=True)
    for name, mode in (("root", 0o700), ("run", 0o755), ("var", 0o755), ("tmp", 0o1777), ("sys", 0o555)):
        (root / name).mkdir()
        (root / name).chmod(mode)
    (root / "proc").mkdir()
    _bind("/dev", root / "dev", read_only=False)
    _mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(root / "dev/shm"))
    _mount("-t", "proc", "proc", str(root / "proc"))
    _mount("-t", "sysfs", "sysfs", str(root / "sys"))
    for source in binds:
        _bind(source, root / source.lstrip("/"))


def main() -> int:
    """Makes the namespaces, and waits for the process in them; its exit code as Kubernetes has it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID):
        raise OSError(ctypes.get_errno(), "unshare")
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "mount")
    child = os.fork()
    if child == 0:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _become(json.loads(sys.argv[1]))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _become(spec: Mapping[str, Any]) -> NoReturn:
    """Makes the mounts, and executes the command."""
    root = Path(spec["folder"])
    _make_root(root, spec["binds"])
    for mount in spec["mounts"]:
        target = root / mount["target"].lstrip("/")
        _bind(mount["source"], target, read_only=mount["read_only"])
    os.chroot(root)
    os.chdir(spec["cwd"])
    os.environ.clear()
    os.environ.update(spec["environ"])
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execvpe(spec["argv"][0], spec["argv"], spec["environ"])
    except OSError as error:
        # In the words of runc, and with the code of a container that could not start.
        print(f'exec: "{spec["argv"][0]}": {error.strerror}', file=sys.stderr, flush=True)
        os._exit(128)


if __name__ == "__main__":
    sys.exit(main())
