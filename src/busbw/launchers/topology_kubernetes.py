"""--topology on Kubernetes: an MPIJob's launcher pod puts the workers into the order that was known before.

The scheduler chooses the nodes, so each worker is asked for its own over ssh; MPI then takes the workers as
they stand in its host file. Pods of a Job or JobSet have their numbers before they have nodes.
"""

from __future__ import annotations

import shlex
from typing import Final

from busbw.errors import UsageError
from busbw.launchers.topology import RankOrder

# Linux takes no longer argument (MAX_ARG_STRLEN), and the script is one.
_MOST_CHARACTERS: Final = 100_000
HOSTFILE: Final = "/tmp/busbw-hostfile"

_SCRIPT: Final = """\
# --topology: workers at one switch follow each other; those on nodes that it does not know come last.
busbw_nodes=$(mktemp -d)
ask() {{
  busbw_node=$(ssh {options} "${{1%%[: ]*}}" 'printf %s "${node_variable}"' </dev/null)
  printf '%s\\n' "$1" >>"$busbw_nodes/${{busbw_node:-of no known name}}"
}}
busbw_asked=0
while read -r busbw_worker; do
  ask "$busbw_worker" &
  busbw_asked=$((busbw_asked + 1))
  if [ $((busbw_asked % 32)) -eq 0 ]; then wait; fi
done <{hostfile}
wait
for busbw_node in {known}; do
  if [ -e "$busbw_nodes/$busbw_node" ]; then cat "$busbw_nodes/$busbw_node"; rm "$busbw_nodes/$busbw_node"; fi
done >{ordered}
for busbw_node in "$busbw_nodes"/*; do
  if [ -e "$busbw_node" ]; then
    echo "busbw: node ${{busbw_node##*/}} is not in the topology, so its ranks are last" >&2
    cat "$busbw_node" >>{ordered}
  fi
done
"""


def script(found: RankOrder, *, hostfile: str, ssh_options: str, node_variable: str) -> list[str]:
    """Lines of the launcher's script that write HOSTFILE. Raises UsageError for too many nodes."""
    known = " ".join(shlex.quote(host) for host in found.hosts)
    if len(known) > _MOST_CHARACTERS:
        raise UsageError(
            f"--topology names {len(found.hosts)} nodes, more than a manifest holds",
            hint="give a file with the nodes that the job may run on",
        )
    text = _SCRIPT.format(
        options=ssh_options,
        node_variable=node_variable,
        hostfile=hostfile,
        known=known,
        ordered=HOSTFILE,
    )
    return text.splitlines()
