"""What a command of the user's (``busbw exec``) finds on every node: a host file, and where ranks can meet.

============================  =========================================================================
BUSBW_HOSTFILE                a file of lines ``host slots=N`` (DeepSpeed, Open MPI), in rank order
BUSBW_NODES, BUSBW_NODE_RANK  how many nodes there are, and this one's number, from 0
MASTER_ADDR, MASTER_PORT      the first host, and a port (torchrun and PyTorch's ``env://``)
============================  =========================================================================

An engine exports ``HOSTS`` (``a:8,b:8``) and starts ``entered(argv)``, which makes the rest of it. RANK and
WORLD_SIZE are not set here: torchrun and MPI give them to the processes that they start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

HOSTS: Final = "BUSBW_EXEC_HOSTS"
# The nodes' own names (``uname -n``), where they are not those of HOSTS: ``n1,n2``; or this one's number.
NAMES: Final = "BUSBW_EXEC_NAMES"
NUMBER: Final = "BUSBW_EXEC_NODE"
PORT: Final = 29500  # torchrun's default
_PATH: Final = "PATH"

# The host file has no name of its own, so that nothing is left behind however the command ends: the command
# holds it open, and all processes of the user on the node can open it by the command's process.
# Its own variables are called busbw_*: an assignment to one of the command's would change it for the command.
_ENTER: Final = """\
set -f
busbw_file=
trap 'rm -f -- "$busbw_file"' EXIT
trap 'exit 143' HUP INT TERM
busbw_file=$(mktemp) || exit
printf '%s\\n' "$BUSBW_EXEC_HOSTS" | tr , '\\n' | sed 's/:\\([0-9]*\\)$/ slots=\\1/' >"$busbw_file"
busbw_free=9
while [ -e "/proc/$$/fd/$busbw_free" ]; do busbw_free=$((busbw_free - 1)); done
eval "exec $busbw_free<\\"\\$busbw_file\\"" && rm -f -- "$busbw_file"
trap - EXIT HUP INT TERM
BUSBW_NODES=0 busbw_here=$(uname -n) busbw_found=
for busbw_name in $(printf %s "${BUSBW_EXEC_NAMES:-$BUSBW_EXEC_HOSTS}" | tr , ' '); do
  busbw_name=${busbw_name%%[.:]*}
  if [ "$busbw_name" = "${busbw_here%%.*}" ]; then busbw_found=$BUSBW_NODES; fi
  BUSBW_NODES=$((BUSBW_NODES + 1))
done
MASTER_ADDR=${MASTER_ADDR:-${BUSBW_EXEC_HOSTS%%:*}} MASTER_PORT=${MASTER_PORT:-@PORT@}
BUSBW_HOSTFILE=/proc/$$/fd/$busbw_free BUSBW_NODE_RANK=@NUMBER@
export BUSBW_HOSTFILE BUSBW_NODES BUSBW_NODE_RANK MASTER_ADDR MASTER_PORT
unset BUSBW_EXEC_HOSTS BUSBW_EXEC_NAMES BUSBW_EXEC_NODE
exec "$@"
"""
_BY_NAME: Final = "${BUSBW_EXEC_NODE:-$busbw_found}"


def entered(argv: tuple[str, ...], number: str = _BY_NAME) -> tuple[str, ...]:
    """``argv`` with the variables above. ``number`` is shell text for the node's number; without it NUMBER
    says it, or else the node looks for its own name among the hosts'.
    """
    text = _ENTER.replace("@NUMBER@", number).replace("@PORT@", str(PORT))
    return ("/bin/sh", "-c", text, "busbw-command", *argv)


def prepending(folders: Mapping[str, str]) -> tuple[str, ...]:
    """Words before those of a rank that put ``folders`` (by variable, separated by colons) before what each
    variable has there: on the rank's side, since a node, a pod and the host that submits differ in that.
    """
    if not folders:
        return ()
    sets = [f'export {name}="${number}${{{name}:+:${name}}}"' for number, name in enumerate(folders, start=1)]
    text = "; ".join((*sets, f"shift {len(folders)}", 'exec "$@"'))
    return ("/bin/sh", "-c", text, "busbw-rank", *folders.values())


def path_apart(environ: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Words before those of a rank that give it the PATH of ``environ``, and the other variables. What starts
    the ranks (srun, ssh under mpiexec, the shell text above) finds its own programs by the PATH of its place.
    """
    others = {name: value for name, value in environ.items() if name != _PATH}
    return (("/usr/bin/env", f"{_PATH}={environ[_PATH]}") if _PATH in environ else ()), others


def host_list(slots: Mapping[str, int]) -> str:
    """The value of HOSTS."""
    return ",".join(f"{host}:{count}" for host, count in slots.items())


# ---- setup scripts: sourced by bash before the words that start the ranks of a batch job ---------------

# How a script that failed is reported, before its exit code and its node; the ranks there never start.
_FAILED: Final = "busbw: the setup script ended with exit code "
_SOURCE: Final = """\
busbw_words=("$@"); set --
busbw_failed() {{
  code=$?
  echo "{failed}$code on {node}" >&2
  sleep 1 || :
  exit "$((code ? code : 1))"
}}
trap busbw_failed EXIT
{before}. /dev/fd/8 {script}
busbw_code=$?
if [ "$busbw_code" != 0 ]; then exit "$busbw_code"; fi
trap - EXIT
{after}exec "${{busbw_words[@]}}"
"""


def sourced(script: str, node: str, *, before: str = "", after: str = "") -> str:
    """The program of ``bash -c PROGRAM NAME WORD...`` that sources a script, and then becomes the words.

    It is sourced, so it may return; where it ends the shell (exit 0, set -e), or fails, that is no end of the
    ranks. Its failure is reported a second before the shell ends: srun (22.05) may lose the last words of a
    task.

    ``script`` redirects the script to descriptor 8, ``node`` is how the shell knows its node's name;
    ``before`` and ``after`` are whole lines around the script.
    """
    return _SOURCE.format(failed=_FAILED, script=script, node=node, before=before, after=after)


def setup_failure(lines: Sequence[str]) -> str:
    """What a job printed of a setup script that failed; empty where none did."""
    found = next((line for line in lines if line.startswith(_FAILED)), "")
    return found.removeprefix("busbw: ")
