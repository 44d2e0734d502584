"""One PBS job for many launches: its script runs those of launches, one after another, as it is told to.

It is told through files in a folder that its first node sees. They are there from the beginning, and are
opened anew for every look: NFS is late with new names, but not with what a file holds when it is opened.
Not run on a real PBS.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw.errors import SiteError
from busbw.launchers.engine import Handle, JobRequest, JobState, Phase

# In the folder.
ORDERS: Final = "orders"  # start NUMBER SECONDS SCRIPT, end NUMBER, now NUMBER, over; a line each
ENDED: Final = "ended"  # NUMBER CODE, a line each; first that the folder was seen
TICKET: Final = "ticket"
# The detail of a launch in a held job: the folder.
SPOOL: Final = "spool"
# Without an order for so long, nobody holds it any more.
IDLE_SECONDS: Final = 600
# Exit codes of the job: its node does not see the folder; nobody came any more (sysexits.h, for scripts).
UNSEEN: Final = 66
IDLE: Final = 75
_SEEN: Final = "0 0"
# What a launch gets for its last words after its limit, or after PBS ends the job.
_LAST_SECONDS: Final = 30

# With a process group for each launch, in the job's own session: PBS ends what is in that.
_HOLD: Final = f"""\
spool={{spool}}
if [ "$(cat -- "$spool/{TICKET}" 2>/dev/null)" != {{ticket}} ]; then
  echo "busbw: $(hostname) does not see $spool" >&2
  exit {UNSEEN}
fi
echo "{_SEEN}" >>"$spool/{ENDED}"
read_lines=0 launch='' current='' idle_s=$SECONDS ends='' limit_s=0
trap 'ends=${{{{ends:-$SECONDS}}}}' TERM
told=''
# Once: mpirun takes a second signal for more.
ask() {{{{ if [ -z "$told" ]; then told=1; group TERM; fi; }}}}
group() {{{{ if [ -n "$launch" ]; then kill -"$1" -- "-$launch" 2>/dev/null; fi; }}}}
set -m
while [ $((SECONDS - idle_s)) -lt {IDLE_SECONDS} ]; do
  while read -r order number seconds script; do
    read_lines=$((read_lines + 1)) idle_s=$SECONDS
    case $order in
      start)
        bash "$script" </dev/null &
        launch=$! current=$number limit_s=0 told=''
        if [ "$seconds" -gt 0 ]; then limit_s=$((SECONDS + seconds)); fi
        ;;
      end) if [ "$number" = "$current" ]; then ask; fi ;;
      now) if [ "$number" = "$current" ]; then group KILL; fi ;;
      over)
        group KILL
        exit 0
        ;;
    esac
  done < <(tail -n "+$((read_lines + 1))" -- "$spool/{ORDERS}" 2>/dev/null)
  pause_s=0.3
  if [ -n "$launch" ]; then
    idle_s=$SECONDS pause_s=1
    if [ "$limit_s" -gt 0 ] && [ "$SECONDS" -gt "$limit_s" ]; then
      ask
      if [ "$SECONDS" -gt $((limit_s + {_LAST_SECONDS})) ]; then group KILL; fi
    fi
    if ! kill -0 "$launch" 2>/dev/null; then
      wait "$launch"
      code=$?
      group KILL # what it left behind
      echo "$current $code" >>"$spool/{ENDED}"
      launch=''
    fi
  fi
  if [ -n "$ends" ]; then
    ask
    if [ -z "$launch" ] || [ $((SECONDS - ends)) -gt {_LAST_SECONDS} ]; then
      group KILL
      exit 143
    fi
  fi
  sleep "$pause_s"
done
exit {IDLE}
"""


def script(folder: str, ticket: str) -> str:
    """What the job runs, on its first node."""
    return _HOLD.format(spool=shlex.quote(folder), ticket=shlex.quote(ticket))


def make(folder: Path, ticket: str) -> None:
    """The folder, before the job is submitted. Raises SiteError."""
    try:
        (folder / "log").mkdir(parents=True)
        for name in (ORDERS, ENDED):
            (folder / name).touch()
        (folder / TICKET).write_text(ticket + "\n")
    except OSError as error:
        raise SiteError(
            f"cannot make {folder}: {error.strerror}", hint="set BUSBW_HOME to a folder that you can write"
        ) from error


def was_seen(folder: Path) -> bool:
    """Whether the job's node sees the folder, as far as that shows here."""
    return bool(_ended(folder))


def in_held(request: JobRequest, held: Handle, folder: Path, number: int, limit_seconds: float) -> JobRequest:
    """A launch in a held job, which ``request`` is a job of its own for; the job ends it after
    ``limit_seconds`` (0: never). Pure.
    """
    own = {SPOOL: str(folder), "number": str(number), "limit": f"{limit_seconds:.0f}"}
    own |= {"job": held.id, "job_name": held.name}
    return replace(request, commands=(), details={**own, **held.details})


def start(request: JobRequest, path: Path) -> Handle:
    """Have the job run the launch's script. Raises SiteError."""
    details = request.details
    _order(Path(details[SPOOL]), f"start {details['number']} {details['limit']} {path}")
    return Handle("pbs", details["job"], request.name, details)


def over(folder: Path) -> None:
    """Have the job end, whatever PBS's server does. Raises SiteError."""
    _order(folder, "over")


def end(handle: Handle, *, now: bool) -> None:
    """End a launch, if it runs. Raises SiteError."""
    _order(Path(handle.details[SPOOL]), f"{'now' if now else 'end'} {handle.details['number']}")


def held_of(handle: Handle) -> Handle:
    """The job that a launch is in."""
    return Handle("pbs", handle.id, handle.details["job_name"], {"run": handle.details["run"]})


def state_of(handle: Handle) -> JobState | None:
    """The end of a launch; None where it has not ended, or nobody knows any more."""
    code = _ended(Path(handle.details[SPOOL])).get(handle.details["number"])
    if code is None:
        return None
    return JobState(Phase.ENDED, code=128 - code if code > 128 else code)


def _ended(folder: Path) -> dict[str, int]:
    """The exit codes that are there, by number."""
    try:
        lines = (folder / ENDED).read_text().splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines]
    return {each[0]: int(each[1]) for each in words if len(each) == 2}


def _order(folder: Path, line: str) -> None:
    try:
        with (folder / ORDERS).open("a") as file:
            file.write(line + "\n")
    except OSError as error:
        raise SiteError(
            f"cannot write {folder / ORDERS}: {error.strerror}",
            hint="it is how the job is told what to run; cancel the job with qdel",
        ) from error
