"""The shell text of an MPIJob's launcher pod, which starts the ranks in the workers over ssh. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from busbw.launchers import command, topology_kubernetes
from busbw.launchers.engine import Job
from busbw.launchers.kubernetes_form import Form
from busbw.launchers.topology import RankOrder
from busbw.probes.place import POD_VARIABLES

# The keys of pods are new every time, and the cluster's network is what one trusts already.
_NEW_KEYS: Final = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
_SSH_OPTIONS: Final = f"{_NEW_KEYS} -o ConnectTimeout=10 -o ConnectionAttempts=10"
# For a busbw in the launcher that measures on the workers; its name may be known later than the pod runs.
_HOSTS_FORM: Final = f"""\
{command.FORM}="ssh=ssh {_NEW_KEYS}
address=$POD_IP"
export {command.FORM}"""
# The operator writes it: a line a worker, with its slots.
_HOSTFILE: Final = "/etc/mpi/hostfile"
_EVEN_HOSTFILE: Final = "/tmp/busbw-even-hostfile"
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
_FIND: Final = (
    'find() { command -v "$1" || { echo "busbw: no $1 in the image" >&2; exit 127; }; }',
    "busbw_mpirun=$(find mpirun) || exit",
)
# What the ranks of an Open MPI job need of their image's environment; hydra passes all of it.
_PASSED: Final = ("PATH", "LD_LIBRARY_PATH")


def script(job: Job, form: Form, rank_order: RankOrder | None) -> str:
    """The launcher pod's shell text. Programs get absolute paths: a worker's sshd knows none of the image's
    PATH, and Open MPI finds its own files on the workers by the path that it was started with. Its variables
    are called busbw_*: the container has the user's too, and what the ranks get of those must be as it was.
    """
    lines = [] if job.work.once else list(_FIND)
    rank = [*map(shlex.quote, command.prepending(job.prepend)), '"$@"']
    if job.work.is_busbw:
        lines.append(f"busbw_python=$(find {shlex.quote(form.python)}) || exit")
        rank.insert(-1, '"$busbw_python"')
    hostfile = _HOSTFILE
    if rank_order is not None:
        hostfile = topology_kubernetes.HOSTFILE
        asked = {"hostfile": _HOSTFILE, "ssh_options": _SSH_OPTIONS}
        variable = POD_VARIABLES["kubernetes_node"]
        lines += topology_kubernetes.script(rank_order, node_variable=variable, **asked)
    if not job.work.is_busbw:
        hosts = f"sed 's/ slots=/:/' {hostfile} | paste -sd, -"
        lines.append(f"{command.HOSTS}=$({hosts}) && export {command.HOSTS}")
    if job.work.once:
        return "\n".join((*lines, _HOSTS_FORM, f"exec {' '.join(rank)}", ""))
    if form.ranks < form.workers * form.slots:
        lines += _spreading(form, hostfile)
        hostfile = _EVEN_HOSTFILE
    return "\n".join((*lines, *_mpirun(job, form, hostfile, rank), ""))


def _mpirun(job: Job, form: Form, hostfile: str, rank: list[str]) -> list[str]:
    """Lines that start the ranks, each by the words ``rank``."""
    lines, words = [], [f"-n {form.ranks}"]
    if form.mpi == "openmpi":
        names = ("OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args")  # of Open MPI 4 and 5
        lines += [f"export {name}={shlex.quote(_SSH_OPTIONS)}" for name in names]
        words += [f"--hostfile {hostfile}", "--bind-to none", *_exports(job)]
    else:
        # The operator sets the first; hydra (4.0, 5.0) reads the second.
        names = ("HYDRA_LAUNCH_EXTRA_ARGS", "HYDRA_LAUNCHER_EXTRA_ARGS")
        lines += [f"export {name}={shlex.quote(_SSH_OPTIONS)}" for name in names]
        # The proxies call back: to the address, as the name may be known later than the pod runs.
        words += [f"-f {hostfile}", "-launcher ssh", '-localhost "$POD_IP"']
    words += [shlex.quote(word) for word in form.mpirun_words]
    return [*lines, f'exec "$busbw_mpirun" {" ".join((*words, *rank))}']


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


def environ_of(job: Job, form: Form) -> Mapping[str, str]:
    """The variables of the launcher itself."""
    if form.mpi != "openmpi":
        return rank_environ(job)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # Open MPI 5 has other names than 4 for what the operator sets: workers are known by their full names.
    return {**root, "PRTE_MCA_prte_keep_fqdn_hostnames": "true", **rank_environ(job)}
