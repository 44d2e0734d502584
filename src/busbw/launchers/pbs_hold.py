"""One PBS job for many launches: its script runs those of launches, one after another, as it is told to.

It is told through files in a folder that its first node sees. They are there from the beginning, and are
opened anew for every look: NFS is late with new names, but not with what a file holds when it is opened.
Not run on a real PBS.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw.launchers.engine import Handle, JobRequest, JobState, Phase

# In the folder.
ORDERS: Final = "orders"  # start NUMBER SCRIPT, end NUMBER, now NUMBER, over; a line each
ENDED: Final = "ended"  # NUMBER CODE; a line each
TICKET: Final = "ticket"
# The detail of a launch in a held job: the folder.
SPOOL: Final = "spool"
# Without an order for so long, nobody holds it any more.
IDLE_SECONDS: Final = 600
# The exit code of a job whose node does not see the folder.
UNSEEN: Final = 66  # EX_NOINPUT

_HOLD: Final = f"""\
spool={{spool}}
if [ "$(cat -- "$spool/{TICKET}" 2>/dev/null)" != {{ticket}} ]; then
  echo "busbw: $(hostname) does not see $spool" >&2
  exit {UNSEEN}
fi
read_lines=0 launch='' current='' idle_s=$SECONDS
while [ $((SECONDS - idle_s)) -lt {IDLE_SECONDS} ]; do
  while read -r order number script; do
    read_lines=$((read_lines + 1)) idle_s=$SECONDS
    case $order in
      start)
        setsid bash "$script" </dev/null &
        launch=$! current=$number
        ;;
      end | now)
        signal=TERM
        if [ "$order" = now ]; then signal=KILL; fi
        if [ -n "$launch" ] && [ "$number" = "$current" ]; then kill -"$signal" -- "-$launch"; fi
        ;;
      over) exit 0 ;;
    esac
  done < <(tail -n "+$((read_lines + 1))" -- "$spool/{ORDERS}")
  if [ -n "$launch" ]; then
    idle_s=$SECONDS
    if ! kill -0 "$launch" 2>/dev/null; then
      wait "$launch"
      echo "$current $?" >>"$spool/{ENDED}"
      launch=''
    fi
  fi
  sleep 0.3
done
"""


def script(folder: str, ticket: str) -> str:
    """What the job runs, on its first node."""
    return _HOLD.format(spool=shlex.quote(folder), ticket=shlex.quote(ticket))


def make(folder: Path, ticket: str) -> None:
    """The folder, before the job is submitted."""
    (folder / "log").mkdir(parents=True)
    for name in (ORDERS, ENDED):
        (folder / name).touch()
    (folder / TICKET).write_text(ticket + "\n")


def in_held(request: JobRequest, held: Handle, folder: Path, number: int) -> JobRequest:
    """A launch in a held job, which ``request`` is a job of its own for. Pure."""
    own = {SPOOL: str(folder), "number": str(number), "job": held.id, "job_name": held.name}
    return replace(request, commands=(), details={**own, **held.details})


def start(request: JobRequest, path: Path) -> Handle:
    """Have the job run the launch's script."""
    details = request.details
    _order(details, f"start {details['number']} {path}")
    return Handle("pbs", details["job"], request.name, details)


def end(handle: Handle, *, now: bool) -> None:
    """End a launch, if it runs."""
    _order(handle.details, f"{'now' if now else 'end'} {handle.details['number']}")


def held_of(handle: Handle) -> Handle:
    """The job that a launch is in."""
    return Handle("pbs", handle.id, handle.details["job_name"], {"run": handle.details["run"]})


def state_of(handle: Handle) -> JobState | None:
    """The end of a launch; None where it has not ended."""
    for line in (Path(handle.details[SPOOL]) / ENDED).read_text().splitlines():
        number, code = line.split()
        if number == handle.details["number"]:
            exit_code = int(code)
            return JobState(Phase.ENDED, code=128 - exit_code if exit_code > 128 else exit_code)
    return None


def _order(details: Mapping[str, str], line: str) -> None:
    with (Path(details[SPOOL]) / ORDERS).open("a") as file:
        file.write(line + "\n")
