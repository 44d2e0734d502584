"""--topology on Slurm: the job script puts the nodes that it was given into the order that was known before.

srun's distribution ``arbitrary`` takes a line a task from the file that SLURM_HOSTFILE names (srun(1)).
Slurm's own order of a job's nodes is that of its configuration, whichever switches they have.
"""

from __future__ import annotations

import shlex
from typing import Final

from busbw.launch.batch import Shape
from busbw.launch.command import HOSTS
from busbw.launch.engine import Job
from busbw.launch.topology.order import RankOrder

_SCRIPT: Final = """\
# --topology: nodes of one switch follow each other; those that it does not know come last.
hosts=/tmp/{name}-$job.hosts
allocated=$(scontrol show hostnames "{allocated}") || exit
declare -A waiting=()
for node in $allocated; do waiting[$node]=1; done
ordered=()
for node in {known}; do
  if [ -n "${{waiting[$node]:-}}" ]; then ordered+=("$node"); unset "waiting[$node]"; fi
done
for node in $allocated; do
  if [ -n "${{waiting[$node]:-}}" ]; then
    ordered+=("$node")
    echo "busbw: $node is not in the topology, so its ranks are last" >&2
  fi
done
for ((i = 0; i < {nodes}; i++)); do
  for ((n = {ranks} / {nodes} + (i < {ranks} % {nodes}); n > 0; n--)); do echo "${{ordered[i]}}"; done
done >"$hosts"
export BUSBW_ROOT=${{ordered[0]}}
"""
# In the script's last act.
REMOVE: Final = """\
  rm -f -- "$hosts"
"""
# The nodes that a command of the user's is told of, and on each node its number among them: Slurm's own
# numbers (SLURM_NODEID) are of another order.
NODES: Final = 'printf "%s\\n" "${{ordered[@]:0:{nodes}}}"'
_LINES: Final = f'printf %s "${HOSTS}" | tr , "\\n" | sed "s/:.*//"'
NUMBER: Final = f'$(($({_LINES} | grep -nxF "$SLURMD_NODENAME" | cut -d: -f1) - 1))'
# Before srun, and among its options.
VARIABLE: Final = 'SLURM_HOSTFILE="$hosts"'
OPTION: Final = "--distribution=arbitrary"


def script(job: Job, found: RankOrder, size: Shape) -> str:
    """The part of the job script that orders its nodes."""
    known, nodes = shlex.join(found.hosts), allocated(job.launch.job_id)
    return _SCRIPT.format(name=job.name, allocated=nodes, known=known, nodes=size.nodes, ranks=size.ranks)


def allocated(job_id: str) -> str:
    """Shell text for the nodes of the job that a script is in, or of the allocation whose number ``$job``
    has; ``job_id`` is that of an allocation which the script is not in, else empty.
    """
    return "$(squeue --noheader --jobs=$job --format=%N)" if job_id else "$SLURM_JOB_NODELIST"
