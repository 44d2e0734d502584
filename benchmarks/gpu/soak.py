"""A check, and a soak with a copying program beside it for a while: is that found?

The program copies between two GPUs over their link, both ways; where there is one, within its memory. Without
GPUs (--cpu) it copies host memory.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

BYTES = 512 << 20
CHECK_S = 20.0


class Cuda:
    """The driver's calls for copies between devices 0 and 1; on one GPU between two parts of its memory."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.contexts, self.buffers, count = [], [], ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        for device in (0, min(1, count.value - 1)):
            handle, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
            self.call("cuDeviceGet", ctypes.byref(handle), device)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
            self.call("cuCtxSetCurrent", context)
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(BYTES))
            self.contexts.append(context)
            self.buffers.append(address)
        for own, other in (self.contexts, self.contexts[::-1]):
            self.call("cuCtxSetCurrent", own)
            self.library.cuCtxEnablePeerAccess(other, 0)  # refused where there is no link: copies are staged

    def call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401 (ctypes values)
        if code := getattr(self.library, name)(*arguments):
            raise SystemExit(f"{name} failed with {code}")

    def copy(self, source: int, until_s: float) -> None:
        """From one device to the other, again and again."""
        target = 1 - source
        self.call("cuCtxSetCurrent", self.contexts[source])
        while time.monotonic() < until_s:
            self.call(
                "cuMemcpyPeer",
                *(self.buffers[target], self.contexts[target]),
                *(self.buffers[source], self.contexts[source], ctypes.c_size_t(BYTES)),
            )
            self.call("cuCtxSynchronize")


def copy_program(seconds: float, *, cpu: bool) -> None:
    """Copy for so long."""
    until_s = time.monotonic() + seconds
    if cpu:
        data = bytearray(BYTES // 8)
        while time.monotonic() < until_s:
            bytes(data)
        return
    cuda = Cuda()
    threads = [threading.Thread(target=cuda.copy, args=(source, until_s)) for source in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def busbw(*words: str) -> list[str]:
    return [sys.executable, "-m", "busbw", *words]


def checked(words: list[str]) -> dict[str, Any]:
    began_s = time.monotonic()
    done = subprocess.run(busbw("check", *words), capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began_s
    print(f"check: {seconds:.1f} s (at most {CHECK_S:g}), exit code {done.returncode}: {done.stdout.strip()}")
    print(done.stderr, end="", flush=True)
    return {"seconds": seconds, "code": done.returncode, "line": done.stdout.strip()}


def soaked(words: list[str], asked: argparse.Namespace, home: Path) -> dict[str, Any]:
    """The soak's record; the copying program begins once a level is known."""
    soak = subprocess.Popen(busbw("soak", "all_reduce", *words, "--time", f"{asked.seconds:g}s"))
    while windows(home) < 50 and soak.poll() is None:
        time.sleep(0.2)
    began = datetime.now(UTC)
    copying = [sys.executable, __file__, "--copy", f"{asked.copying:g}"] + ["--cpu"] * asked.cpu
    beside = [subprocess.Popen(copying) for _ in range(2 if asked.cpu else 1)]
    for each in beside:
        each.wait()
    ended = datetime.now(UTC)
    code = soak.wait()
    found = record(home).get("soak", {})
    losses = [each for each in found.get("changes", ()) if each["share"] < 0]
    hits = [each for each in losses if overlaps(each, began, ended)]
    print(f"copying from {began:%T} to {ended:%T}; losses {losses}")
    print(f"soak: exit code {code}; the copying program was {'FOUND' if hits else 'NOT FOUND'}")
    return {"code": code, "copying": [str(began), str(ended)], "found": bool(hits), "soak": found}


def overlaps(change: dict[str, Any], began: datetime, ended: datetime) -> bool:
    last = datetime.fromisoformat(change["ended"]) if change["ended"] else datetime.now(UTC)
    return datetime.fromisoformat(change["began"]) < ended and last > began


def record(home: Path) -> dict[str, Any]:
    files = sorted(home.glob("*soak*/run.json"))
    return json.loads(files[-1].read_text()) if files else {}


def windows(home: Path) -> int:
    return int(record(home).get("soak", {}).get("windows", 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--size", default="256M")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the soak")
    parser.add_argument("--copying", type=float, default=15.0, help="seconds of the copying program")
    parser.add_argument("--cpu", action="store_true", help="try it without GPUs")
    parser.add_argument("--output", type=Path, help="file for the numbers")
    parser.add_argument("--copy", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.copy is not None:
        copy_program(asked.copy, cpu=asked.cpu)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BUSBW_HOME"] = folder
        words = ["--ranks", str(asked.ranks), "--backend", "mpi" if asked.cpu else "nccl"]
        result = {"check": checked(words), **soaked([*words, "-b", asked.size], asked, Path(folder))}
    if asked.output is not None:
        asked.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
