"""Runs the launches of a series one after another, inside one job; it is sent there as text.

    python3 -c TEXT TASK

TEXT is this file, which needs nothing but the standard library of Python 3.8; ``launch/series_job.py`` makes
the TASK: base64 of compressed JSON. What the loop prints is for whoever follows the job, a line each::

    @7 o TEXT    what launch 7 printed (e: on standard error)
    @7 = JSON    what became of launch 7: its exit code, or why there is nothing to say of it

Between two launches every process of the last one is ended on every host, by a command of the engine's that
runs ``SWEEP`` there. The same command finds out whether a host is still the one that it was.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import zlib
from typing import Any

# A launch's processes have it in their environment: the series' name.
MARK = "BUSBW_SERIES"
# Runs on every host: sh -c SWEEP busbw-sweep SERIES first|next|last. A host that was replaced lacks the file.
SWEEP = """\
there=/tmp/busbw-series-$1
if [ "$2" = first ]; then : >"$there" || exit 1; fi
if [ ! -e "$there" ]; then echo "busbw: $(uname -n) was replaced" >&2; exit 1; fi
tries=0
while found=$(grep -lzxF "BUSBW_SERIES=$1" /proc/[0-9]*/environ 2>/dev/null); [ -n "$found" ]; do
  if [ "$tries" -ge 50 ]; then echo "busbw: processes on $(uname -n) do not end" >&2; exit 1; fi
  for process in $found; do process=${process%/environ}; kill -9 "${process#/proc/}" 2>/dev/null; done
  tries=$((tries + 1))
  sleep 0.1
done
if [ "$2" = last ]; then rm -f "$there"; fi
exit 0
"""
# Exit code where the job has lost a host (EX_TEMPFAIL).
LOST = 75
# A setup that failed so often in a row on so many nodes is not tried again.
MOST_FAILURES = 2
# What a launch may send beside its results: kubelets keep about 10 MiB of a pod's output.
MOST_BYTES = 100_000
LAST_WORDS_SECONDS = 10.0
# How long the others may go on after a rank has said that it failed.
WRONG_SECONDS = 30.0
# How long output may be read after the launcher's end, where something that it left holds the pipe.
_TRAIL_SECONDS = 1.0
_SWEEP_SECONDS = 60.0
_TICK_SECONDS = 0.2
_CHUNK_BYTES = 1 << 16

_LABEL = re.compile(rb" *\d+: ")
_EVENT = re.compile(rb'\{"busbw":\d+,"event":"(\w+)"')
# Events that nobody needs for the result.
_LEFT_OUT = (b"record", b"progress")
# srun passes a longer line on in messages of this size, each behind a label.
_CUT_BYTES = 1024


def say(number: int, kind: str, text: str) -> None:
    """Print a line. Where nobody listens any more the job goes on: its records may be in a shared folder."""
    with contextlib.suppress(OSError):
        line = f"@{number} {kind} {text}\n".encode("utf-8", "surrogateescape")
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


class Sender:
    """Sends what one launch prints: its results always, the rest within a bound."""

    def __init__(self, number: int) -> None:
        self.left_bytes = MOST_BYTES
        self.dropped_bytes = 0
        self._number = number
        # By stream: whether the rest passes of the line that srun has cut, if it has cut one.
        self._passes_rest: dict[bool, bool | None] = {False: None, True: None}

    def send(self, line: bytes, *, is_error: bool) -> None:
        """Pass a line on, or not."""
        label = _LABEL.match(line)
        text = line[label.end() :] if label else line
        event = _EVENT.match(text)
        is_result = event is not None and event[1] not in _LEFT_OUT
        cost = len(f"@{self._number} o ") + len(line) + 1
        passes = self._passes_rest[is_error]
        if passes is None:
            passes = self.left_bytes >= cost or is_result
        is_cut = label is not None and len(text) == _CUT_BYTES
        self._passes_rest[is_error] = passes if is_cut else None
        if passes:
            self.left_bytes -= cost
            say(self._number, "e" if is_error else "o", line.decode("utf-8", "surrogateescape"))
        else:
            self.dropped_bytes += len(line)

    def close(self) -> None:
        """Say what was dropped."""
        if self.dropped_bytes:
            dropped = f"busbw: {self.dropped_bytes} bytes of this launch's output were dropped"
            say(self._number, "e", dropped)


class Launch:
    """One launch: its processes, and how they are ended."""

    def __init__(self, spec: dict[str, Any], mark: str) -> None:
        self.sender = Sender(spec["number"])
        self.wrong_since_s: float | None = None
        self._began_s = time.monotonic()
        self._number, self._limit_s = spec["number"], spec["limit_s"]
        # A process group in the job's own session: engines end what is in that.
        self.process = subprocess.Popen(
            spec["argv"],
            env={**os.environ, **spec["environ"], MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=os.setpgrp,  # noqa: PLW1509 (no threads here; process_group= is of Python 3.11)
        )
        self._selector = selectors.DefaultSelector()
        self._rest = {False: b"", True: b""}
        for is_error, pipe in ((False, self.process.stdout), (True, self.process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, is_error)

    def run(self, stop: Stop) -> dict[str, Any]:
        """Pass its output on until it has ended: its exit code, and whether it was ended by its limit."""
        ended_s = told_s = None  # the launcher has ended; it was told to, with time for last words
        outcome: dict[str, Any] = {}
        while self._selector.get_map():
            self._read()
            now_s = time.monotonic()
            if ended_s is not None and now_s - ended_s > _TRAIL_SECONDS:
                break
            if ended_s is None and self.process.poll() is not None:
                ended_s = now_s
            if ended_s is not None:
                continue
            if told_s is None and self._is_to_end(stop, outcome):
                told_s = now_s
                self._signal(signal.SIGTERM)
            elif told_s is not None and now_s - told_s > LAST_WORDS_SECONDS:
                self._signal(signal.SIGKILL)
        self._signal(signal.SIGKILL)  # what it left behind
        outcome["code"] = self.process.wait()
        for is_error, rest in self._rest.items():
            if rest:
                self.sender.send(rest, is_error=is_error)
        self.sender.close()
        self._selector.close()
        return outcome

    def _is_to_end(self, stop: Stop, outcome: dict[str, Any]) -> bool:
        """Because somebody wants it, or it hangs, or its time is up, which is noted."""
        now_s = time.monotonic()
        if self._limit_s and now_s - self._began_s > self._limit_s:
            outcome["limit_s"] = self._limit_s
            say(self._number, "=", json.dumps(outcome))
        is_stuck = self.wrong_since_s is not None and now_s - self.wrong_since_s > WRONG_SECONDS
        return stop.is_wanted or bool(outcome) or is_stuck

    def _read(self) -> None:
        for key, _ in self._selector.select(_TICK_SECONDS):
            data = os.read(key.fd, _CHUNK_BYTES)
            if not data:
                self._selector.unregister(key.fileobj)
                continue
            *lines, self._rest[key.data] = (self._rest[key.data] + data).split(b"\n")
            for line in lines:
                if b'"event":"error"' in line and self.wrong_since_s is None:
                    self.wrong_since_s = time.monotonic()
                self.sender.send(line, is_error=key.data)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, number)


class Stop:
    """Whether somebody wants the series to end."""

    def __init__(self) -> None:
        self.is_wanted = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.is_wanted = True


def sweep(words: list[str], when: str) -> str:
    """End what the last launch left on any host. Why that cannot be done; empty where it was."""
    try:
        done = subprocess.run(
            [*words, when],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SWEEP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"some hosts did not answer within {_SWEEP_SECONDS:g} s"
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    lines = [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    own = [line.partition("busbw: ")[2] for line in lines if "busbw: " in line]
    said = "; ".join(own or lines[-1:]) or f"exit code {done.returncode}"
    return f"lost a host: {said}" if done.returncode else ""


def run(spec: dict[str, Any], mark: str, stop: Stop) -> dict[str, Any]:
    """What became of a launch."""
    try:
        launch = Launch(spec, mark)
    except OSError as error:
        say(spec["number"], "e", f"{spec['argv'][0]}: {error.strerror}")
        return {"code": 127}
    return launch.run(stop)


def main(word: str) -> int:
    """The loop. 0 where every launch had its turn."""
    task = json.loads(zlib.decompress(base64.b64decode(word)))
    stop = Stop()
    failures: dict[str, int] = {}
    why = sweep(task["sweep"], "first")
    for spec in task["launches"]:
        number, setup = spec["number"], spec["setup"]
        if why:
            say(number, "=", json.dumps({"lost": why}))
            return LOST
        if stop.is_wanted:
            break
        if failures.get(setup, 0) >= MOST_FAILURES:
            say(number, "=", json.dumps({"skipped": True}))
            continue
        began_s = time.monotonic()
        outcome = run(spec, task["mark"], stop)
        outcome["seconds"] = round(time.monotonic() - began_s, 3)
        why = sweep(task["sweep"], "next")
        if why and not stop.is_wanted:  # what a host's end does to a launch is not the setup's
            say(number, "=", json.dumps({"lost": why}))
            return LOST
        # hydra may end with 0 where it was told to end.
        has_failed = bool(outcome["code"]) or "limit_s" in outcome
        failures[setup] = failures.get(setup, 0) + 1 if has_failed else 0
        say(number, "=", json.dumps({**outcome, "ended": stop.is_wanted}))
    sweep(task["sweep"], "last")
    return 128 + signal.SIGTERM if stop.is_wanted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
