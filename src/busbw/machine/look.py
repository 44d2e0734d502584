"""How a host is asked about a job that may hang: one shell script, sent over SSH, srun or kubectl, or run
here. Nothing of busbw needs to be there: bash and a distribution's basic tools are enough.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from busbw.errors import SiteError
from busbw.machine.counters import events, sent_received
from busbw.model.hang import HostSeen, LinkSeen, ProcessSeen

RAS_ADDRESS: Final = "localhost:28028"  # NCCL's own, where NCCL_RAS_ADDR is not set
_PART: Final = re.compile(r"^##busbw (\w+) ?(\S*)\n", re.MULTILINE)
_PROCESS: Final = b"##busbw process"
_SECONDS: Final = 90  # four questions of RAS, each of 12 s at most; or a few processes with py-spy


def ask_ras(
    shell: Sequence[str], address: str, times: int = 4, within_s: float = _SECONDS
) -> tuple[str, ...]:
    """What NCCL's RAS answers there, ``times`` or less often: of an address that several jobs share one may
    answer, then another. ``shell`` is the words that run bash with a script on its standard input; none of
    them: here. Raises SiteError where that does not work in time.
    """
    parts = _parts(_run(shell, within_s, "ras", address, str(times)))
    return tuple(body for kind, _, body in parts if kind == "ras")


def look(shell: Sequence[str], pids: Sequence[int], within_s: float = _SECONDS) -> HostSeen:
    """The host that ``shell`` comes to, and these of its processes, in a second or two. Raises SiteError."""
    return read_host(_run(shell, within_s, "host", *map(str, pids)))


def read_host(text: str) -> HostSeen:
    """What the script printed of a host."""
    parts = list(_parts(text))
    readings: dict[tuple[str, str], list[Mapping[str, int]]] = defaultdict(list)
    for link, counters in (each for kind, _, body in parts if kind == "counters" for each in _counters(body)):
        readings[link].append(counters)
    log = next((body for kind, _, body in parts if kind == "log"), "")
    return HostSeen(
        processes={int(name): _process(body) for kind, name, body in parts if kind == "process"},
        links=tuple(_link(*link, *both) for link, both in readings.items() if len(both) == 2),
        log=tuple(line.strip() for line in log.splitlines() if line.strip()),
    )


def _run(shell: Sequence[str], within_s: float, *question: str) -> str:
    script = Path(__file__).with_name("look.sh").read_bytes()
    words = (*shell, "bash", "-s", "--", *question)
    try:
        done = subprocess.run(words, input=script, capture_output=True, timeout=within_s, check=False)
    except FileNotFoundError as error:
        raise SiteError(f"{words[0]} was not found", hint=f"put {words[0]} on PATH") from error
    except subprocess.TimeoutExpired as error:
        if _PROCESS in (said := error.stdout or b""):
            return said.decode(errors="replace")  # what is there is worth having
        raise SiteError(f"{' '.join(shell) or 'this host'} has not answered within {within_s:g} s") from error
    text = done.stdout.decode(errors="replace")
    if "##busbw end" not in text:
        errors = done.stderr.decode(errors="replace").strip().splitlines()
        raise SiteError(
            f"{' '.join(shell)}: {errors[-1] if errors else f'exit code {done.returncode}'}",
            hint="try this command by itself: it must come in without a question",
        )
    return text


def _parts(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, name and body of each part that has one."""
    kinds = list(_PART.finditer(text))
    ends = [*(found.start() for found in kinds[1:]), len(text)]
    for found, end in zip(kinds, ends, strict=True):
        if body := text[found.end() : end].strip("\n"):
            yield found[1], found[2], body


# ---- links ---------------------------------------------------------------------------------------------

_SYSFS: Final = re.compile(r"/sys/class/(\w+)/([^/]+)/(?:ports/(\d+)/)?.*?(\w+):(\d+)(?:@.*)?")
_GPU: Final = re.compile(r"GPU (\d+):")
_NVLINK: Final = re.compile(r"\s+Link (\d+): (.+): (\d+)(?: KiB)?")
_KINDS: Final = {"net": "ethernet", "cxi": "slingshot"}
_NVLINK_BYTES: Final = {"Data Tx": "tx_bytes", "Data Rx": "rx_bytes"}
_BYTES: Final = frozenset(_NVLINK_BYTES.values())
_ERRORS_ONLY: Final = ("nvlink", "tcp")  # what else these count is of what went wrong


def _counters(body: str) -> Iterable[tuple[tuple[str, str], Mapping[str, int]]]:
    """By kind and name of each link: of sysfs, of the host's TCP (proc_pid_net_snmp(5)), and of `nvidia-smi
    nvlink`, which counts KiB.
    """
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    gpu, tcp_names = "", list[str]()
    for line in body.splitlines():
        if of_sysfs := _SYSFS.fullmatch(line):
            room, device, port, name, value = of_sysfs.groups()
            link = f"{device} port {port}" if port else device
            found[_KINDS.get(room, "infiniband"), link][name] = int(value)
        elif line.startswith("Tcp: "):
            words = line.split()[1:]
            if "RetransSegs" in tcp_names:
                found["tcp", "TCP"]["segments sent again"] = int(words[tcp_names.index("RetransSegs")])
            tcp_names = words
        elif of_gpu := _GPU.match(line):
            gpu = of_gpu[1]
        elif of_link := _NVLINK.fullmatch(line):
            name = _NVLINK_BYTES.get(of_link[2])
            unit = 1024 if name else 1
            found["nvlink", f"GPU {gpu} NVLink {of_link[1]}"][name or of_link[2]] = int(of_link[3]) * unit
    return found.items()


def _link(kind: str, name: str, before: Mapping[str, int], after: Mapping[str, int]) -> LinkSeen:
    moved = {each: value - before[each] for each, value in after.items() if each in before}
    carried = sent_received("efa" if "tx_bytes" in moved else kind, moved)
    if kind in _ERRORS_ONLY:
        counted = {word: count for word, count in moved.items() if count > 0 and word not in _BYTES}
    else:
        counted = events(moved)
    return LinkSeen(name, carried, counted)


# ---- processes -----------------------------------------------------------------------------------------

_PY_SPY_FRAME: Final = re.compile(r"^py-spy +(\S.*\(.*\))$", re.MULTILINE)
_FRAME: Final = re.compile(r'^python   File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_KERNEL: Final = re.compile(r"^kernel (\w+)", re.MULTILINE)
# "0: 0100007F:D4B5 0200000A:9FDD 01 00000012:00000000 01:0000001F 00000003 ..." of proc_pid_net(5): number,
# addresses, state, bytes not acknowledged, timer (1: to send again), times that the oldest was sent again.
_SOCKET: Final = re.compile(r"^tcp +\d+: \w+:\w+ (\w+):(\w+) \w\w \w+:\w+ 01:\w+ (\w+)", re.MULTILINE)
_AGAIN: Final = 2  # once is a lost packet


def _process(body: str) -> ProcessSeen:
    lines = body.splitlines()
    told = dict(line.split(" ", maxsplit=1) for line in lines if line.startswith(("command ", "waits_in ")))
    waits = told.get("waits_in", "").strip()
    stack = _PY_SPY_FRAME.findall(body)
    last = body[body.rfind("\npython Stack") + 1 :] if "\npython Stack" in body else ""
    stack = [f"{name} ({Path(file).name}:{line})" for file, line, name in _FRAME.findall(last)] or stack
    unanswered = [each for each, _, again in _SOCKET.findall(body) if int(again, 16) >= _AGAIN]
    return ProcessSeen(
        state=lines[0][:1],
        command=told.get("command", "").strip(),
        waits_in="" if waits == "0" else waits,
        stack=tuple(stack),
        kernel=tuple(_KERNEL.findall(body)),
        unanswered=tuple(dict.fromkeys(map(_address, unanswered))),
    )


def _address(text: str) -> str:
    """Words of four bytes each, in the host's order."""
    data = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    family = socket.AF_INET if len(data) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, data).removeprefix("::ffff:")
