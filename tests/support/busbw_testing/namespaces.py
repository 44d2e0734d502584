"""A small cluster on this machine: hosts that are Linux namespaces, with a network between them and sshd.

Each host has a host name, network, process ids, /dev/shm and /run of its own, and shares the file system
where nothing else is asked for. It lives inside one process, its first; when that ends, by ``kill``, by
``close`` or because the test itself was killed, the kernel ends everything that runs on the host and its
network with it. Nothing has a name outside, so any number of clusters can live side by side.

    with Hosts(tmp_path, 4) as hosts:
        hosts.run("h1", "ssh", "h2", "hostname")
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import busbw
from busbw_testing.started import completed

_SSHD: Final = "/usr/sbin/sshd"
# Long enough for a loaded machine.
_START_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.02
# What the user's shell does first has no part in this. A lock in the home that a killed host leaves behind,
# as pyenv's, would make every later shell wait for a minute.
_SHELL_FILES: Final = (".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshenv")

# Runs as each host's first process. It prints its process id as this machine counts, which /proc still tells
# before the host gets a /proc of its own. Orphans are its children, and `wait` buries them.
_FIRST_PROCESS: Final = """
set -e
read -r pid rest < /proc/self/stat
hostname {name}
mkdir -p /run/busbw
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/lock /run/cgroup
if [ -d /sys/fs/cgroup ]; then mount --rbind /sys/fs/cgroup /run/cgroup; fi
mount -t sysfs sysfs /sys  # else /sys/class/net shows the machine's network
if [ -d /sys/fs/cgroup ]; then mount --move /run/cgroup /sys/fs/cgroup; fi
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind {etc_hosts} /etc/hosts
{mounts}
mount -t proc proc /proc
echo ready $pid
exec >/dev/null 2>&1
trap : TERM INT HUP
sleep 1000000 &
while :; do wait || :; done
"""


def why_not(*, sshd: bool = True) -> str:
    """Why no hosts can be made here; empty where they can."""
    tools = ["unshare", "nsenter", "ip", "setpriv", *(["ssh", "ssh-keygen", _SSHD] if sshd else [])]
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        packages = "iproute2 util-linux openssh-server openssh-client"
        return f"no {', '.join(missing)} here (apt-get install {packages})"
    spaces = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork")
    done = completed(["unshare", *spaces, "ip", "link", "set", "lo", "up"])
    return f"no namespaces here: {done.stderr.strip()}" if done.returncode else ""


def seen_of_tmp() -> list[Path]:
    """Folders that hosts with a /tmp of their own must see nevertheless: what is tested, and the Python
    environment that runs it, where they live below /tmp.
    """
    folders = sorted({Path(sys.prefix), Path(__file__).parents[3], Path(busbw.__path__[0]).parent})
    below = [folder for folder in folders if folder.is_relative_to("/tmp")]
    return [folder for folder in below if not any(other in folder.parents for other in below)]


@dataclass(frozen=True)
class Host:
    """One host. ``pid`` is its first process, as this machine counts; ``addresses`` one for each network."""

    name: str
    addresses: tuple[str, ...]
    pid: int = 0


class Hosts:
    """``count`` hosts h1, h2, ... on ``networks`` switched networks (eth0 in 10.77.0.0/24, eth1 in
    10.77.1.0/24, ...).

    ``folder``: an existing folder, seen by every host, for keys, configuration and logs. ``private``: folders
    of which each host has an empty one of its own (a scratch disk; or to hide what is there). ``shared``:
    folders that are seen nevertheless, though below a private one. ``sshd``: every host has a running sshd,
    and `ssh h2` works from each.

    Raises OSError with the words of the tool that failed; nothing is left then.
    """

    def __init__(
        self,
        folder: Path,
        count: int = 4,
        *,
        networks: int = 1,
        private: Sequence[Path | str] = (),
        shared: Sequence[Path | str] = (),
        sshd: bool = True,
    ) -> None:
        self.folder = folder.absolute()
        self.names = tuple(f"h{number}" for number in range(1, count + 1))
        self.ssh_config = self.folder / "ssh_config"
        self._private, self._shared, self._sshd = tuple(private), tuple(shared), sshd
        self._networks = networks
        self._holders: dict[str, subprocess.Popen[str]] = {}
        self._hosts = {
            name: Host(name, tuple(f"10.77.{network}.{number}" for network in range(networks)))
            for number, name in enumerate(self.names, 1)
        }

    def __enter__(self) -> Self:
        try:
            self._write_files()
            self._start_holders()
            self._connect()
            if self._sshd:
                self._start_sshd()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def address(self, name: str, network: int = 0) -> str:
        """A host's IPv4 address."""
        return self._hosts[name].addresses[network]

    def command(self, name: str, argv: Sequence[str | Path], *, cwd: str | Path = "/") -> list[str]:
        """The words that execute ``argv`` on a host, with this process's environment. ``cwd`` is a folder
        there. A signal for the command goes to its process group: nsenter does not pass it on.
        """
        return [*_enter(self._hosts[name].pid), f"--wdns={cwd}", "--", *map(str, argv)]

    def run(
        self,
        name: str,
        *argv: str | Path,
        cwd: str | Path = "/",
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Execute a command on a host, to its end."""
        words = self.command(name, argv, cwd=cwd)
        return _to_its_end(words, f"{shlex.join(map(str, argv))} on {name}", env, timeout, check)

    def run_on_switch(self, *argv: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Execute a command in the network of the switch, to its end: bridge br0 (br1, ...) with port h1p0
        (h1p1, ...) of every host.
        """
        words = [*_enter(self._holders["switch"].pid, "n"), "--", *map(str, argv)]
        return _to_its_end(words, f"{shlex.join(map(str, argv))} on the switch", None, 60.0, check)

    def processes(self, name: str) -> dict[int, str]:
        """What runs on a host, the host's own first processes and sshd's listener aside: process id, as this
        machine counts, and command line. Zombies are left out.
        """
        found = {}
        try:
            home = (Path("/proc") / str(self._hosts[name].pid) / "ns/pid").readlink()
        except OSError:  # the host is gone
            return {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if entry.name.isdecimal() and (entry / "ns/pid").readlink() == home:
                    line = (entry / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
                    found[int(entry.name)] = line
        return {pid: line for pid, line in found.items() if line and not self._is_furniture(pid, line, name)}

    def kill(self, name: str) -> None:
        """Power off: the network falls silent, nothing says goodbye, and every process is gone."""
        if name in self._holders:
            for network in range(self._networks):
                port = f"{name}p{network}"
                _call(*_enter(self._holders["switch"].pid, "n"), "--", "ip", "link", "set", port, "down")
            self._end(name)

    def close(self) -> None:
        """Power off everything. Does nothing the second time."""
        self._end(*self._holders)

    def _end(self, *names: str) -> None:
        holders = [self._holders.pop(name) for name in names if name in self._holders]
        firsts = [self._hosts[name].pid for name in names if name in self._hosts and self._hosts[name].pid]
        for pid in (*firsts, *(holder.pid for holder in holders)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for holder in holders:
            holder.wait(_START_SECONDS)
            if holder.stdout is not None:
                holder.stdout.close()
        # The kernel ends what runs on a host before the host's first process is gone.
        deadline = time.monotonic() + _START_SECONDS
        while any(Path(f"/proc/{pid}").exists() for pid in firsts) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def _is_furniture(self, pid: int, line: str, name: str) -> bool:
        first = pid == self._hosts[name].pid
        return first or line == "sleep 1000000" or "[listener]" in line

    def _write_files(self) -> None:
        lines = [f"{host.addresses[0]} {host.name}" for host in self._hosts.values()]
        (self.folder / "hosts").write_text("\n".join(("127.0.0.1 localhost", *lines, "")))
        if not self._sshd:
            return
        for name in ("host_key", "id"):
            if not (self.folder / name).exists():
                _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        (self.folder / "empty").write_text("")
        (self.folder / "authorized_keys").write_text((self.folder / "id.pub").read_text())
        host_key = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        known = (f"{name},{','.join(host.addresses)} {host_key}" for name, host in self._hosts.items())
        (self.folder / "known_hosts").write_text("\n".join((*known, "")))
        self.ssh_config.write_text(
            f'Host *\n  User root\n  IdentityFile "{self.folder}/id"\n  StrictHostKeyChecking yes\n'
            f'  UserKnownHostsFile "{self.folder}/known_hosts"\n  LogLevel ERROR\n'
        )

    def _start_holders(self) -> None:
        self._holders["switch"] = _hold(("--net",), "echo ready $$\nexec sleep 1000000\n")
        for name in self.names:
            script = _FIRST_PROCESS.format(
                name=shlex.quote(name),
                etc_hosts=shlex.quote(str(self.folder / "hosts")),
                mounts="\n".join(self._mounts()),
            )
            spaces = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=KILL")
            self._holders[name] = _hold((*spaces, "--propagation", "private"), script)
        for name in self.names:
            self._hosts[name] = replace(self._hosts[name], pid=_ready(self._holders[name]))
        _ready(self._holders["switch"])

    def _mounts(self) -> list[str]:
        """The host's own folders; what is shared is held aside meanwhile."""
        shared = [shlex.quote(str(folder)) for folder in self._shared]
        lines = []
        for number, folder in enumerate(shared):
            aside = f"/run/shared-{number}"
            lines += [f"mkdir -p {aside}", f"mount --rbind {folder} {aside}"]
        for private in self._private:
            lines.append(f"mount -t tmpfs -o mode=1777 tmpfs {shlex.quote(str(private))}")
        for number, folder in enumerate(shared):
            lines += [f"mkdir -p {folder}", f"mount --move /run/shared-{number} {folder}"]
        if self._sshd:
            lines.append(f"mount --bind {shlex.quote(str(self.ssh_config))} /etc/ssh/ssh_config")
            own = Path("~/.ssh").expanduser()
            if own.is_dir():  # the user's own settings and keys have no part in this
                lines.append(f"mount -t tmpfs -o mode=700 tmpfs {shlex.quote(str(own))}")
            for file in filter(Path.is_file, (Path("~").expanduser() / name for name in _SHELL_FILES)):
                lines.append(
                    f"mount --bind {shlex.quote(str(self.folder / 'empty'))} {shlex.quote(str(file))}"
                )
        return lines

    def _connect(self) -> None:
        switch = self._holders["switch"].pid
        inside = [*_enter(switch, "n"), "--", "ip"]
        _call(*inside, "link", "set", "lo", "up")
        for network in range(self._networks):
            _call(*inside, "link", "add", f"br{network}", "type", "bridge")
            _call(*inside, "link", "set", f"br{network}", "up")
        for host in self._hosts.values():
            ip = [*_enter(host.pid, "n"), "--", "ip"]
            _call(*ip, "link", "set", "lo", "up")
            for network, address in enumerate(host.addresses):
                nic, port = f"eth{network}", f"{host.name}p{network}"
                _call(*ip, "link", "add", nic, "type", "veth", "peer", "name", port, "netns", str(switch))
                _call(*inside, "link", "set", port, "master", f"br{network}", "up")
                _call(*ip, "addr", "add", f"{address}/24", "dev", nic)
                _call(*ip, "link", "set", nic, "up")

    def _start_sshd(self) -> None:
        settings = {
            "AuthorizedKeysFile": f'"{self.folder}/authorized_keys"',
            "StrictModes": "no",  # the test's folder may be writable by others
            "PermitRootLogin": "prohibit-password",
            "PasswordAuthentication": "no",
            "UsePAM": "no",
            "PidFile": "/run/sshd.pid",
            "Subsystem": "sftp internal-sftp",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        for name in self.names:
            log = self.folder / f"sshd-{name}.log"
            listen = ("-o", f"ListenAddress={self.address(name)}")
            key = str(self.folder / "host_key")
            _call(*self.command(name, [_SSHD, "-f", "/dev/null", "-h", key, *listen, *options, "-E", log]))


def _to_its_end(
    words: Sequence[str], what: str, env: Mapping[str, str] | None, timeout: float, check: bool
) -> subprocess.CompletedProcess[str]:
    done = completed(words, env, timeout)
    if check and done.returncode:
        raise OSError(f"{what}: {done.returncode}: {done.stderr}{done.stdout}")
    return done


def _enter(pid: int, kinds: str = "nmuip") -> list[str]:
    return ["nsenter", "-t", str(pid), *(f"-{kind}" for kind in kinds)]


def _hold(spaces: Sequence[str], script: str) -> subprocess.Popen[str]:
    """Start a process in namespaces of its own that ends with this one; its first line is still to come."""
    # setsid: a Ctrl-C for the test is not one for the hosts.
    words = ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, "sh", "-c", script]
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _ready(holder: subprocess.Popen[str]) -> int:
    """Wait for the holder's word; the process id that it gives."""
    assert holder.stdout is not None
    said = []
    for line in holder.stdout:
        said.append(line)
        if line.startswith("ready "):
            return int(line.split()[1])
    raise OSError(f"a host did not start: {''.join(said)}")


def _call(*argv: str) -> None:
    done = completed(argv)
    if done.returncode:
        raise OSError(f"{shlex.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
