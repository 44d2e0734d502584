"""``--bring`` on Slurm: busbw and its packages, copied to every node by sbcast and removed at the job's end.

The job script copies the bundle where it sees the run folder. Where it does not, it asks for it by a line of
its output, and the front process sends it to the job's nodes.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError
from busbw.launchers import slurm_commands as commands

if TYPE_CHECKING:
    from busbw.launchers.engine import Handle, Job

# The job script's line that asks for the bundle.
ASKS: Final = "busbw: this job waits for its bundle"
BUNDLE: Final = "bundle.tar.gz"
# How long the job waits for a bundle that the front process has to send.
_PATIENCE_SECONDS: Final = 120

# What it says where none came.
UNSENT: Final = f"busbw: --bring: nobody sent busbw to this job within {_PATIENCE_SECONDS} s"

# Makes a Python environment of the bundle: the node's own Python of the same version, with our packages.
_UNPACK: Final = """\
umask 077
mkdir -- "$1" && tar -xzf "$1.tar.gz" -C "$1" && rm -f -- "$1.tar.gz" || exit 1
base=$("$2" -c 'import os, sys
print(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))')
if [ -z "$base" ]; then
  echo "busbw: --bring needs $2 on $(hostname)" >&2
  exit 127
fi
mkdir -p "$1/bin"
ln -s -- "$base" "$1/bin/python"
printf 'home = %s\\n' "${base%/*}" >"$1/pyvenv.cfg"
"""

_SCRIPT: Final = """\
brought=/tmp/{name}-$job.d
on_every_node() {{
  srun {options}--nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --mpi=none "$@"
}}
if [ -n "$log" ]; then
  sbcast {job_option}--force -- "$run_folder/request/{bundle}" "$brought.tar.gz" || exit 1
else
  echo "{asks}"
  for ((i = 0; i < {looks}; i++)); do
    if [ -e "$brought.sent" ]; then break; fi
    sleep 0.2
  done
  [ -e "$brought.sent" ] || {{ echo "{unsent}" >&2; exit 1; }}
fi
on_every_node sh -c {unpack} busbw-unpack "$brought" {python} || exit 1
export PATH="$brought/bin:$PATH"
"""
# In the script's last act.
REMOVE: Final = """\
  on_every_node rm -rf -- "$brought" "$brought.tar.gz" "$brought.sent"
"""
PYTHON_WORD: Final = '"$brought/bin/python"'
# Before a PATH that the user gave.
PATH_WORD: Final = 'PATH="$brought/bin":'


def script(job: Job, nodes: int) -> str:
    """The part of the job script that unpacks the bundle."""
    held = shlex.quote(job.launch.job_id)
    return _SCRIPT.format(
        name=job.name,
        nodes=nodes,
        options=f"--jobid={held} --overlap " if held != "''" else "",
        job_option=f"--jobid={held} " if held != "''" else "",
        bundle=BUNDLE,
        asks=ASKS,
        unsent=UNSENT,
        looks=_PATIENCE_SECONDS * 5,
        unpack=shlex.quote(_UNPACK),
        python=shlex.quote(job.launch.python or f"python{sys.version_info.major}.{sys.version_info.minor}"),
    )


def put(folder: Path) -> str:
    """Lay the bundle beside the job script; its path. Raises SiteError."""
    from busbw.launchers.hosts_bring import make_bundle

    bundle, place = make_bundle(), folder / "request" / BUNDLE
    try:
        shutil.copyfile(bundle, place)
    except OSError as error:
        raise SiteError(f"cannot copy the bundle to {place}: {error}", hint="make room there") from error
    return str(place)


def remove(folder: Path) -> None:
    """The bundle goes with the job; the record stays."""
    (folder / "request" / BUNDLE).unlink(missing_ok=True)


def send(handle: Handle, folder: Path, first_node: str) -> None:
    """From this host to the nodes of a running job that do not see the run folder. Raises SiteError."""
    brought = f"/tmp/{handle.name}-{handle.id}.d"
    bundle = str(folder / "request" / BUNDLE)
    commands.call("sbcast", f"--jobid={handle.id}", "--force", "--", bundle, f"{brought}.tar.gz")
    step = ("srun", f"--jobid={handle.id}", "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none")
    commands.call(*step, f"--nodelist={first_node}", "touch", f"{brought}.sent")


def is_wanted(details: Mapping[str, str]) -> bool:
    """Whether a job was submitted with --bring."""
    return details.get("bring") == "yes"
