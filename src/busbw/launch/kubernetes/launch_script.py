"""The shell text of an MPIJob's launcher: it starts the ranks with the image's mpirun. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from busbw.errors import UsageError
from busbw.launch import command
from busbw.launch.engine import Job
from busbw.launch.kubernetes.form import Form
from busbw.launch.topology.order import RankOrder
from busbw.machine.place import POD_VARIABLES

# The keys of pods are new every time, and the cluster's network is what one trusts already.
_SSH_OPTIONS: Final = (
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    " -o ConnectTimeout=10 -o ConnectionAttempts=10"
)
# The operator writes it: a line a worker, with its slots.
_HOSTFILE: Final = "/etc/mpi/hostfile"
_EVEN_HOSTFILE: Final = "/tmp/busbw-even-hostfile"
_FIRST_HOSTFILE: Final = "/tmp/busbw-first-hostfile"
# Open MPI and hydra fill one worker's slots after the other: the last workers would have no rank.
_SPREAD: Final = """\
busbw_number=0
while read -r busbw_worker; do
  busbw_count={least}
  if [ "$busbw_number" -lt {more} ]; then busbw_count=$((busbw_count + 1)); fi
  echo "${{busbw_worker%%[: ]*}}{slots}$busbw_count"
  busbw_number=$((busbw_number + 1))
done <{hostfile} >{even}
"""
# What the ranks of an Open MPI job need of their image's environment; hydra passes all of it.
_PASSED: Final = ("PATH", "LD_LIBRARY_PATH")

# --topology: the launcher puts the workers into the order that was known before. The scheduler chooses the
# nodes, so each worker is asked for its own over ssh; MPI then takes the workers as they stand in its host
# file. Pods of a Job or JobSet have their numbers before they have nodes.
# Linux takes no longer argument (MAX_ARG_STRLEN), and the script is one.
_MOST_CHARACTERS: Final = 100_000
_ORDERED_HOSTFILE: Final = "/tmp/busbw-hostfile"

_ORDER: Final = """\
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


def launch_script(job: Job, form: Form, rank_order: RankOrder | None) -> str:
    """The launcher pod's shell text. Programs get absolute paths: a worker's sshd knows none of the image's
    PATH, and Open MPI finds its own files on the workers by the path that it was started with. Its variables
    are called busbw_*: the container has the user's too, and what the ranks get of those must be as it was.
    """
    lines = [
        'find() { command -v "$1" || { echo "busbw: no $1 in the image" >&2; exit 127; }; }',
        "busbw_mpirun=$(find mpirun) || exit",
    ]
    rank = [*map(shlex.quote, command.prepending(job.prepend)), '"$@"']
    if job.work.is_busbw:
        lines.append(f"busbw_python=$(find {shlex.quote(form.python)}) || exit")
        rank.insert(-1, '"$busbw_python"')
    hostfile = _HOSTFILE
    if rank_order is not None:
        hostfile = _ORDERED_HOSTFILE
        lines += _order(rank_order)
    if not job.work.is_busbw:
        hosts = f"sed 's/ slots=/:/' {hostfile} | paste -sd, -"
        lines.append(f"{command.HOSTS}=$({hosts}) && export {command.HOSTS}")
    if form.ranks < form.workers * form.slots:
        lines += _spreading(form, hostfile)
        hostfile = _EVEN_HOSTFILE
    exports, words = _mpirun(job, form, hostfile)
    return "\n".join((*lines, *exports, f'exec "$busbw_mpirun" {" ".join((*words, *rank))}', ""))


def _mpirun(job: Job, form: Form, hostfile: str) -> tuple[list[str], list[str]]:
    """Lines that export what the image's mpirun reads, and its own words."""
    if form.mpi == "openmpi":
        names = ("OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args")  # of Open MPI 4 and 5
        words = [f"--hostfile {hostfile}", "--bind-to none", *_exports(job)]
    else:
        # The operator sets the first; hydra (4.0, 5.0) reads the second.
        names = ("HYDRA_LAUNCH_EXTRA_ARGS", "HYDRA_LAUNCHER_EXTRA_ARGS")
        # The proxies call back: to the address, as the name may be known later than the pod runs.
        words = [f"-f {hostfile}", "-launcher ssh", '-localhost "$POD_IP"']
    exports = [f"export {name}={shlex.quote(_SSH_OPTIONS)}" for name in names]
    return exports, [f"-n {form.ranks}", *words, *map(shlex.quote, form.mpirun_words)]


def _spreading(form: Form, hostfile: str) -> list[str]:
    """Lines that write a host file with as many slots as there are ranks, evenly, the first getting more."""
    least, more = divmod(form.ranks, form.workers)
    slots = " slots=" if form.mpi == "openmpi" else ":"
    text = _SPREAD.format(least=least, more=more, slots=slots, hostfile=hostfile, even=_EVEN_HOSTFILE)
    return text.splitlines()


def _exports(job: Job) -> list[str]:
    image = [f"${{{name}+-x {name}}}" for name in _PASSED]
    names = [*([] if job.work.is_busbw else [command.HOSTS]), *rank_environ(job)]
    return image + [f"-x {shlex.quote(name)}" for name in names]


def rank_environ(job: Job) -> Mapping[str, str]:
    """The variables that each rank gets."""
    environ = dict(job.environ)
    if job.launch.bring:
        own = environ.get("PYTHONPATH", "")
        environ["PYTHONPATH"] = f"/busbw:{own}" if own else "/busbw"
    return environ


def launcher_environ(job: Job, form: Form) -> Mapping[str, str]:
    """The variables that the launcher's pod gets; its ranks get theirs from it."""
    if form.mpi != "openmpi":
        return rank_environ(job)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # Open MPI 5 has other names than 4 for what the operator sets: workers are known by their full names.
    return {**root, "PRTE_MCA_prte_keep_fqdn_hostnames": "true", **rank_environ(job)}


def launcher_words(job: Job) -> tuple[str, ...]:
    """The words behind the launch script: what the Python of a rank, or a rank itself, executes."""
    return ("-m", "busbw", *job.work.words) if job.work.is_busbw else command.entered(job.work.words)


def on_first_workers(script: str, count: int) -> str:
    """An MPIJob's launch script that starts ranks on its first ``count`` workers only."""
    return f"head -n {count} {_HOSTFILE} >{_FIRST_HOSTFILE}\n{script.replace(_HOSTFILE, _FIRST_HOSTFILE)}"


def _order(found: RankOrder) -> list[str]:
    """Lines of the launcher's script that write the host file. Raises UsageError for too many nodes."""
    known = shlex.join(found.hosts)
    if len(known) > _MOST_CHARACTERS:
        raise UsageError(
            f"--topology names {len(found.hosts)} hosts, more than a manifest holds",
            hint="give a file with the part of the cluster that the job runs on",
        )
    text = _ORDER.format(
        options=_SSH_OPTIONS,
        node_variable=POD_VARIABLES["kubernetes_node"],
        hostfile=_HOSTFILE,
        known=known,
        ordered=_ORDERED_HOSTFILE,
    )
    return text.splitlines()
