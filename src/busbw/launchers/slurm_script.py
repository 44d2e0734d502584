"""The job script of a run on Slurm, and how its ranks find each other. Pure.

One script serves an allocation of its own (sbatch) and a step in one that is there (``--job-id``). Everything
a user may set is data: it is a word of sbatch's own command line, which wins over the shell's SBATCH_*
variables. What fits a #SBATCH line as it is (no spaces, quotes, line breaks) stands there as well, so that
the script can be read and submitted alone; those lines lose to the variables. In shell text every value is
quoted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, UsageError
from busbw.launchers import slurm_bring, topology_slurm
from busbw.launchers.command import HOSTS, entered, path_apart, prepending
from busbw.launchers.no_mpi import refuse_mpi
from busbw.launchers.rank_counts import refuse_too_few
from busbw.launchers.setup_script import sourced
from busbw.launchers.slurm_words import own_words
from busbw.launchers.variables import launched

if TYPE_CHECKING:
    from busbw.launchers.engine import Job
    from busbw.launchers.topology import RankOrder
    from busbw.settings.launch import LaunchSettings

# The last line of a job's output, behind no task's label, so that no rank can write it.
END_MARK: Final = "busbw: job script ended, exit code "
# What sbatch reads from a #SBATCH line as it was written.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]^-]+\Z")
# srun's plugins that can start ranks of an MPI family, best first (`srun --mpi=list`).
_PLUGINS: Final[Mapping[str, tuple[str, ...]]] = {
    "openmpi": ("pmix",),
    "mpich": ("pmi2", "cray_shasta"),
    # Of a Python or an image that cannot be looked into here: what installing busbw puts there is MPICH.
    "": ("pmi2", "cray_shasta", "pmix"),
}
_FAMILY_NAMES: Final = {"openmpi": "Open MPI", "mpich": "MPICH"}
# Where only the batch host sees the output, it waits this long for somebody to read it before the job ends.
LINGER_SECONDS: Final = 20
_STREAMS: Final[Mapping[str, str]] = {"output": "out", "error": "err"}

# What a site, a shell or sbatch --export=NONE sets for every srun: it would keep what this script exports
# from the ranks, send their output elsewhere, or cut its lines.
_UNSET: Final = """\
unset SLURM_EXPORT_ENV SRUN_EXPORT_ENV SLURM_STDOUTMODE SLURM_STDERRMODE SRUN_OUTPUT SRUN_ERROR
unset SLURM_UNBUFFEREDIO
"""

_TOP: Final = """\
run_folder={folder}
job=$SLURM_JOB_ID
# Where the nodes see the run folder, output goes there; else this node keeps it until it has been read.
out=/tmp/{name}-$job.out err=/tmp/{name}-$job.err log=
if [ "$(cat -- "$run_folder/request/ticket" 2>/dev/null)" = {run_id} ]; then
  log=$run_folder/log
  exec >"$log/slurm-$job.out" 2>"$log/slurm-$job.err"
  rm -f -- "$out" "$err"
fi
finish() {{
  code=$?
  trap '' TERM
{remove}  echo "{mark}$code"
  echo "{mark}$code" >&2
  # The reader removes what it has read.
  for ((i = 0; i < {looks}; i++)); do
    if [ -n "$log" ] || [ ! -e "$out" ]; then break; fi
    sleep 0.2
  done
  exit "$code"
}}
trap : TERM  # srun ends first, and this script tells how
trap finish EXIT
"""

_STEP_TOP: Final = """\
run_folder={folder}
job={job}
log=$run_folder/log
finish() {{
  code=$?
{remove}  echo "{mark}$code"
  echo "{mark}$code" >&2
  exit "$code"
}}
trap : TERM  # srun ends first, and this script tells how
trap finish EXIT
"""

# Only the ranks of this job know it: it makes the control channel's key.
TOKEN: Final = 'BUSBW_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d " \\n") && export BUSBW_TOKEN\n'

# For a command of the user's (``command.py``): its nodes, and a port that this job alone is likely to use.
_NODES: Final = """\
nodes=$({nodes}) || exit
{hosts}=$(printf '%s:{slots}\\n' $nodes | paste -sd, -)
MASTER_ADDR=${{{hosts}%%:*}} MASTER_PORT=$((20000 + RANDOM % 10000))
export {hosts} MASTER_ADDR MASTER_PORT
"""

# NCCL writes a file for each process there, instead of between the ranks' output.
_NCCL_LOG: Final = """\
if [ -n {level} ] && [ -z {file} ] && [ -n "$log" ]; then
  case $log in *%*) ;; *) export NCCL_DEBUG_FILE="$log/nccl-$job-%h-%p.log" ;; esac
fi
"""

# The ranks of a node take turns, so that a script which installs something does it once.
_SOURCE_SETUP: Final = sourced(
    '8<<<"$BUSBW_SETUP" 9<&-',
    "$SLURMD_NODENAME",
    before="exec 9</tmp && flock 9\n",
    after="exec 9<&-\nunset BUSBW_SETUP\n",
)


@dataclass(frozen=True)
class Shape:
    """How many nodes and ranks a job has. ``per_node`` is None where the ranks do not divide evenly."""

    nodes: int
    ranks: int
    per_node: int | None


@dataclass(frozen=True)
class Script:
    """The text of a job script, and the words for sbatch before its path."""

    text: str
    options: tuple[str, ...]


def shape(job: Job, facts: Mapping[str, str]) -> Shape:
    """Nodes as -N or the allocation says; on each a rank per GPU, or one. Raises UsageError."""
    launch = job.launch
    nodes = int(launch.nodes or facts.get("job_nodes", "") or 0)
    if nodes < 1:
        raise UsageError("how many nodes is not said", hint="give --nodes, as in -N 2")
    segment_of(launch, nodes)
    held = int(facts.get("job_nodes", "") or nodes)
    if nodes > held:
        raise UsageError(
            f"--nodes {nodes}, but job {launch.job_id} has {held}", hint=f"give -N {held} or less"
        )
    if job.ranks is not None:
        refuse_too_few(job.ranks, nodes)
        return Shape(nodes, job.ranks, None if job.ranks % nodes else job.ranks // nodes)
    per_node = launch.ranks_per_node or int(facts.get("gpus", "") or 0) or 1
    return Shape(nodes, nodes * per_node, per_node)


def segment_of(launch: LaunchSettings, nodes: int) -> int | None:
    """Nodes of one block together. Slurm makes a job of whole segments only (sbatch(1), --segment): fewer
    nodes are one segment. None without, and in an allocation that is there. Raises UsageError.
    """
    if not launch.segment or launch.job_id:
        return None
    segment = min(launch.segment, nodes)
    if nodes % segment == 0:
        return segment
    below, fitting = nodes // segment * segment, max(n for n in range(1, segment) if nodes % n == 0)
    raise UsageError(
        f"{nodes} nodes are not made of whole segments of {segment}",
        hint=f"give -N {below} or {below + segment}, --segment {nodes} for one block with that many nodes, or"
        f" --segment {fitting}",
    )


def smaller_segment(launch: LaunchSettings, nodes: int) -> str:
    """What to tell where there are fewer nodes than a segment has; empty where there are not."""
    segment = segment_of(launch, nodes)
    if segment in (None, launch.segment):
        return ""
    return (
        f"--segment {launch.segment} has more than {nodes} nodes: they are one segment, --segment {segment}"
    )


def mpi_plugin(job: Job, facts: Mapping[str, str]) -> str | None:
    """The value of srun's --mpi; None leaves it to the cluster, for a command whose MPI is not known.

    Raises SiteError where Slurm has none for this MPI: with a wrong one, each rank is a world
    of its own.
    """
    launch = job.launch
    offered = facts.get("mpi", "pmix pmi2 none").split()
    family = facts.get("family", "") if launch.mpi == "auto" else launch.mpi
    if not job.work.is_busbw and launch.mpi == "auto":
        return next((plugin for plugin in _PLUGINS.get(family or "none", ()) if plugin in offered), None)
    if _needs_no_mpi(job, facts):
        return "none"
    for plugin in _PLUGINS.get(family, _PLUGINS[""]):
        if plugin in offered:
            return plugin
    name = _FAMILY_NAMES.get(family, "MPI")
    raise SiteError(
        f"this Slurm cannot start {name} ranks: `srun --mpi=list` names {', '.join(offered) or 'none'}",
        hint="give --mpi none (busbw's own channel), or --on hosts inside an allocation, with mpirun",
    )


def unknown_mpi(job: Job, size: Shape, facts: Mapping[str, str]) -> str:
    """What to tell of a command of several ranks whose MPI is not known; empty where there is nothing."""
    offered = [name for name in facts.get("mpi", "").split() if name in ("pmix", "pmi2", "cray_shasta")]
    if job.work.is_busbw and job.launch.python and not facts.get("family") and job.launch.mpi == "auto":
        plugin = mpi_plugin(job, facts)
        if size.ranks > 1 and plugin not in (None, "none"):
            return (
                f"which MPI {job.launch.python} has cannot be seen from here, so srun starts it with"
                f" {plugin}, for the MPICH that busbw brings; --mpi openmpi says otherwise"
            )
    is_known = job.work.is_busbw or job.launch.mpi != "auto" or facts.get("family") == "none"
    if is_known or size.ranks < 2 or not offered or mpi_plugin(job, facts) is not None:
        return ""
    return (
        f"which MPI {job.work.words[0]} uses is not known, so srun starts it with this cluster's default; an"
        " MPI program needs --mpi mpich or --mpi openmpi, or each rank may be alone"
        f" (srun has {', '.join(offered)})"
    )


def _needs_no_mpi(job: Job, facts: Mapping[str, str]) -> bool:
    """Whether the ranks meet over busbw's own channel: by wish, or because GPUs are measured."""
    needs_mpi = "mpi" in (job.world, job.backend)
    if job.launch.mpi == "none":
        refuse_mpi(job.world, job.backend)
        return True
    if needs_mpi or job.launch.mpi != "auto":
        return False
    return job.world != "auto" or job.backend in ("nccl", "null") or _wants_gpus(job, facts)


def render(job: Job, facts: Mapping[str, str], rank_order: RankOrder | None = None) -> Script:
    """The script; ranks follow ``rank_order``, where there is one. Raises UsageError for settings that do not
    fit.
    """
    if job.launch.bring and job.launch.image:
        raise UsageError("--bring and --image exclude each other", hint="put busbw into the image")
    size = shape(job, facts)
    lines, options = ([], []) if job.launch.job_id else _directives(job, size, facts)
    words = {
        "folder": shlex.quote(job.folder),
        "run_id": shlex.quote(job.run_id),
        "job": shlex.quote(job.launch.job_id),
        "name": job.name,
        "mark": END_MARK,
        "looks": LINGER_SECONDS * 5,
        "remove": (topology_slurm.REMOVE if rank_order is not None else "")
        + (slurm_bring.REMOVE if job.launch.bring else ""),
    }
    parts = [
        "\n".join(("#!/bin/bash", *lines)) + "\n",
        _UNSET,
        (_STEP_TOP if job.launch.job_id else _TOP).format(**words),
        _order(job, size, rank_order),
        _exports(job, size, facts, ordered=rank_order is not None),
        _nccl_log(job),
        _mounts(job),
        slurm_bring.script(job, size.nodes) if job.launch.bring else "",
        _srun(job, size, facts, ordered=rank_order is not None),
    ]
    return Script("\n".join(part for part in parts if part), tuple(options))


def _directives(job: Job, size: Shape, facts: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """#SBATCH lines, and sbatch's words: the same, and the user's own. Of two the last holds."""
    output = {f"--{name}": f"/tmp/{job.name}-%j.{suffix}" for name, suffix in _STREAMS.items()}
    options = asked(job, size, facts, output)
    lines = [f"#SBATCH {option}" for option in options if _PLAIN.match(option)]
    return lines, [*options, *own_words("--sbatch-args", job.launch.sbatch_args)]


def asked(job: Job, size: Shape, facts: Mapping[str, str], output: Mapping[str, str]) -> list[str]:
    """What sbatch is asked for, but for the user's own words; ``output`` is where what the job prints goes,
    by option.
    """
    launch = job.launch
    values = {
        "--job-name": job.name,
        "--nodes": str(size.nodes),
        "--ntasks": None if size.per_node else str(size.ranks),
        "--ntasks-per-node": str(size.per_node) if size.per_node else None,
        "--gpus-per-node": facts.get("gpus") if _wants_gpus(job, facts) else None,
        "--partition": launch.partition,
        "--account": launch.account,
        "--time": launch.time_limit,
        "--segment": str(segment) if (segment := segment_of(launch, size.nodes)) else None,
        **output,
    }
    options = [f"{name}={value}" for name, value in values.items() if value]
    options += ["--exclusive"] if launch.exclusive else []
    return [*options, "--no-requeue"]


def _wants_gpus(job: Job, facts: Mapping[str, str]) -> bool:
    return bool(int(facts.get("gpus", "") or 0)) and job.backend in ("auto", "nccl")


def _exports(job: Job, size: Shape, facts: Mapping[str, str], *, ordered: bool) -> str:
    lines = [TOKEN if job.work.is_busbw else _nodes(job, size, facts, ordered=ordered)]
    if setup := facts.get("setup", ""):
        lines.append(f"export BUSBW_SETUP={shlex.quote(setup)}\n")
    return "".join(lines)


def _nodes(job: Job, size: Shape, facts: Mapping[str, str], *, ordered: bool) -> str:
    slots = int(facts.get("gpus", "") or 0) or size.per_node or -(-size.ranks // size.nodes)
    nodes = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    if ordered:
        nodes = topology_slurm.NODES.format(nodes=size.nodes)
    elif held := job.launch.job_id:
        given = f'"$(squeue --noheader {shlex.quote(f"--jobs={held}")} --format=%N)"'
        nodes = f"scontrol show hostnames {given} | head -n {size.nodes}"
    return _NODES.format(nodes=nodes, hosts=HOSTS, slots=slots)


def _nccl_log(job: Job) -> str:
    """What the user says of NCCL's log is known here, and what the shell that submits says in the job."""
    level, file = (
        shlex.quote(job.environ[name]) if name in job.environ else f'"${{{name}:-}}"'
        for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE")
    )
    return _NCCL_LOG.format(level=level, file=file)


def _mounts(job: Job) -> str:
    """A container sees the run folder where the node sees it, so that rank 0 can write there."""
    if not job.launch.image:
        return ""
    given = shlex.quote(job.launch.mounts)
    lines = f"mounts={given}\n"
    if not re.search(r"[,:+]", job.folder):  # the separators of pyxis's own notation
        lines += 'if [ -n "$log" ]; then mounts=${mounts:+$mounts,}$run_folder:$run_folder; fi\n'
    return lines


def _order(job: Job, size: Shape, rank_order: RankOrder | None) -> str:
    if rank_order is None:
        return ""
    sizes = {"nodes": size.nodes, "ranks": size.ranks}
    return topology_slurm.script(job.name, job.launch.job_id, rank_order, **sizes)


def _srun(job: Job, size: Shape, facts: Mapping[str, str], *, ordered: bool) -> str:
    launch = job.launch
    plugin = mpi_plugin(job, facts)
    words = ["srun", "--label", "--kill-on-bad-exit=1", "--export=ALL", f"--job-name={job.name}"]
    if launch.job_id:
        words += [f"--jobid={launch.job_id}", "--overlap", f"--nodes={size.nodes}", f"--ntasks={size.ranks}"]
        words += [f"--ntasks-per-node={size.per_node}"] if size.per_node else []
    words += [f"--mpi={plugin}"] if plugin is not None else []
    words += [topology_slurm.OPTION] if ordered else []
    quoted = [shlex.quote(word) for word in words]
    if launch.image:
        root = facts.get("user_id", "") == "0"
        quoted += [
            shlex.quote(f"--container-image={launch.image}"),
            '${mounts:+"--container-mounts=$mounts"}',
            "--no-container-mount-home",
            "--container-remap-root" if root else "--no-container-remap-root",
        ]
    quoted += [shlex.quote(word) for word in own_words("--srun-args", launch.srun_args)]
    line = " ".join(quoted) + " \\\n  " + _command(job, facts, ordered=ordered)
    _, environ = path_apart(job.environ)
    if environ:
        return launched(line, environ, f"export {topology_slurm.VARIABLE}\n" if ordered else "")
    return (f"{topology_slurm.VARIABLE} " if ordered else "") + line + "\n"


def _command(job: Job, facts: Mapping[str, str], *, ordered: bool) -> str:
    """What each task executes, as shell text."""
    launch = job.launch
    number = topology_slurm.NUMBER if ordered else "$SLURM_NODEID"
    rank = shlex.join(job.argv(python(launch, facts)))
    if launch.bring and job.work.is_busbw:
        words = [shlex.join(part) for part in (prepending(job.prepend), job.work.argv("")[1:])]
        rank = " ".join(filter(None, (words[0], slurm_bring.PYTHON_WORD, words[1])))
    path, environ = path_apart(job.environ)
    own = [*map(shlex.quote, path)]
    if path and launch.bring:
        own = [path[0], slurm_bring.PATH_WORD + shlex.quote(path[1].removeprefix("PATH="))]
    entering = () if job.work.is_busbw else entered((), number)
    command = " ".join((*map(shlex.quote, entering), *own, rank))
    if launch.image and environ:  # else the image's own values would win
        command = " ".join(
            ("env", *(shlex.quote(f"{name}={value}") for name, value in environ.items()), command)
        )
    if facts.get("setup", ""):
        command = f"bash -c {shlex.quote(_SOURCE_SETUP)} busbw-rank {command}"
    return command


def python(launch: LaunchSettings, facts: Mapping[str, str]) -> str:
    """The Python that has busbw on the nodes: as said, the image's own, or this one by its path."""
    return launch.python or ("python3" if launch.image else facts.get("python", "python3"))
