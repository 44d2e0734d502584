"""``--bring`` on Slurm: the job script copies busbw and its packages by sbcast from the run folder to /tmp of
each node, and removes them at its end.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, why

if TYPE_CHECKING:
    from busbw.launch.engine import Job

BUNDLE: Final = "bundle.tar.gz"
# What the job script says where it does not see the run folder.
UNSEEN: Final = "busbw: --bring: this node does not see the run folder"

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
if [ -z "$log" ]; then echo "{unseen}" >&2; exit 1; fi
sbcast {job_option}--force -- "$run_folder/request/{bundle}" "$brought.tar.gz" || exit 1
on_every_node sh -c {unpack} busbw-unpack "$brought" {python} || exit 1
export PATH="$brought/bin:$PATH"
"""
# In the script's last act.
REMOVE: Final = """\
  on_every_node rm -rf -- "$brought" "$brought.tar.gz"
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
        unseen=UNSEEN,
        unpack=shlex.quote(_UNPACK),
        python=shlex.quote(job.launch.python or f"python{sys.version_info.major}.{sys.version_info.minor}"),
    )


def put(folder: Path) -> None:
    """Lay the bundle beside the job script. Raises SiteError."""
    from busbw.launch.hosts.bring import make_bundle

    bundle, place = make_bundle(), folder / "request" / BUNDLE
    try:
        shutil.copyfile(bundle, place)
    except OSError as error:
        raise SiteError(f"cannot copy the bundle to {place}: {why(error)}", hint="make room there") from error


def remove(folder: Path) -> None:
    """The bundle goes with the job; the record stays."""
    (folder / "request" / BUNDLE).unlink(missing_ok=True)
