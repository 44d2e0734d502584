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
from busbw.launch import batch
from busbw.launch.batch import Shape
from busbw.launch.command import HOSTS, entered, path_apart, prepending, sourced
from busbw.launch.settle import refuse_mpi, refuse_too_few
from busbw.launch.slurm import bring
from busbw.launch.slurm import order as slurm_order
from busbw.launch.slurm.words import own_words
from busbw.launch.variables import launched

if TYPE_CHECKING:
    from busbw.launch.engine import Facts, Job
    from busbw.launch.topology.order import RankOrder
    from busbw.plan.flags.launch import LaunchSettings

# Where a job's output and its errors are on its first node, if its nodes do not see the run folder.
NODE_FILES: Final = ("/tmp/{name}-{job}.out", "/tmp/{name}-{job}.err")
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
if {is_shared}; then
  log=$run_folder/log
  exec >"$log/slurm-$job.out" 2>"$log/slurm-$job.err"
  rm -f -- "$out" "$err"
fi
"""
_STEP_TOP: Final = """\
run_folder={folder}
job={job}
log=$run_folder/log
"""
_NO_MORE: Final = "  trap '' TERM\n"
_LINGER: Final = f"""\
  # The reader removes what it has read.
  for ((i = 0; i < {LINGER_SECONDS * 5}; i++)); do
    if [ -n "$log" ] || [ ! -e "$out" ]; then break; fi
    sleep 0.2
  done
"""

# A launch of a series, in the series' job: the outer script's variables, and its own folder.
_LAUNCH_TOP: Final = """\
run_folder={folder}
job={job} brought=/tmp/{name}-{job}.d log=
if {is_shared}; then log=$run_folder/log; fi
# Launches on fewer nodes than the job has are all on the same ones.
first=$(scontrol show hostnames "{allocated}" | head -n {nodes} | paste -sd, -) || exit
{remove}"""
_REMOVE_HOSTS: Final = """trap 'rm -f -- "$hosts"' EXIT
"""

# For a command of the user's (``command.py``): its nodes.
_NODES: Final = """\
nodes=$({nodes}) || exit
{hosts}=$(printf '%s:{slots}\\n' $nodes | paste -sd, -)
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
class Script:
    """The text of a job script, and the words for sbatch before its path."""

    text: str
    options: tuple[str, ...]


def shape(job: Job, facts: Facts) -> Shape:
    """Nodes as -N or the allocation says; on each a rank per GPU, or one. Raises UsageError."""
    launch = job.launch
    nodes = int(launch.nodes or facts.get("job_nodes", "") or 0)
    if nodes < 1:
        raise UsageError("no number of nodes given", hint="give --nodes, as in -N 2")
    segment_of(launch, nodes)
    held = int(facts.get("job_nodes", "") or nodes)
    if nodes > held:
        raise UsageError(
            f"--nodes {nodes}, but job {launch.job_id} has {held}", hint=f"give -N {held} or less"
        )
    if job.ranks is not None:
        refuse_too_few(job.ranks, nodes)
        return Shape(nodes, job.ranks)
    per_node = launch.ranks_per_node or int(facts.get("gpus", "") or 0) or 1
    return Shape(nodes, nodes * per_node)


def segment_of(launch: LaunchSettings, nodes: int) -> int | None:
    """Nodes of one block together. Slurm makes a job of whole segments only (sbatch(1), --segment): fewer
    nodes are one segment. None without, and in an allocation that is there. Raises UsageError.
    """
    if not launch.segment or launch.job_id:
        return None
    segment = min(launch.segment, nodes)
    if nodes % segment:
        below = nodes // segment * segment
        raise UsageError(
            f"{nodes} nodes cannot be split into segments of {segment}",
            hint=f"give -N {below} or {below + segment}, or another --segment",
        )
    return segment


def mpi_plugin(job: Job, facts: Facts) -> str | None:
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


def unknown_mpi(job: Job, size: Shape, facts: Facts) -> str:
    """A note for several ranks whose MPI is a guess; empty where it is known."""
    if size.ranks < 2 or job.launch.mpi != "auto":
        return ""
    plugin, family = mpi_plugin(job, facts), facts.get("family", "")
    if job.work.is_busbw:
        program, is_guess = job.launch.python, not family and plugin != "none"
    else:
        program, is_guess = job.work.words[0], family != "none" and plugin is None
    if not program or not is_guess:
        return ""
    started = f"with --mpi={plugin}" if plugin is not None else "with the cluster's default"
    return (
        f"busbw cannot see which MPI {program} uses, so srun starts it {started};"
        " give --mpi mpich or --mpi openmpi if each rank is alone"
    )


def _needs_no_mpi(job: Job, facts: Facts) -> bool:
    """Whether the ranks meet over busbw's own channel: by wish, or because GPUs are measured."""
    needs_mpi = "mpi" in (job.world, job.backend)
    if job.launch.mpi == "none":
        refuse_mpi(job.world, job.backend)
        return True
    if needs_mpi or job.launch.mpi != "auto":
        return False
    return job.world != "auto" or job.backend in ("nccl", "null") or _wants_gpus(job, facts)


def render(job: Job, facts: Facts, rank_order: RankOrder | None = None) -> Script:
    """The script; ranks follow ``rank_order``, where there is one. Raises UsageError for settings that do not
    fit.
    """
    size = shape(job, facts)
    top, options = _top(job, size, facts, slurm_order.REMOVE if rank_order is not None else "")
    parts = [
        *top,
        slurm_order.script(job, rank_order, size) if rank_order is not None else "",
        _exports(job, size, facts, ordered=rank_order is not None),
        _nccl_log(job),
        _mounts(job),
        bring.script(job, size.nodes) if job.launch.bring else "",
        _srun(job, size, facts, ordered=rank_order is not None),
    ]
    return Script("\n".join(part for part in parts if part), tuple(options))


def render_series(job: Job, facts: Facts, loop: tuple[str, ...]) -> Script:
    """The script of a job that runs many launches: it executes a Python with the words ``loop``."""
    size = shape(job, facts)
    top, options = _top(job, size, facts)
    own = [bring.PYTHON_WORD] if job.launch.bring else []
    own += [shlex.quote(python(job.launch, facts))] if not job.launch.image else []
    parts = [
        *top,
        bring.script(job, size.nodes) if job.launch.bring else "",
        _setup(facts),
        batch.loop(own, loop),
    ]
    return Script("\n".join(part for part in parts if part), tuple(options))


def render_launch(job: Job, facts: Facts, rank_order: RankOrder | None) -> str:
    """What bash executes for one launch of a series, in the series' job."""
    size, ordered = shape(job, facts), rank_order is not None
    words = {
        "folder": shlex.quote(job.folder),
        "is_shared": batch.is_shared(job),
        "job": shlex.quote(job.launch.job_id) if job.launch.job_id else "$SLURM_JOB_ID",
        "allocated": slurm_order.allocated(job.launch.job_id),
        "nodes": size.nodes,
        "name": job.name,
        "remove": _REMOVE_HOSTS if ordered else "",
    }
    parts = [
        _LAUNCH_TOP.format(**words),
        slurm_order.script(job, rank_order, size) if rank_order is not None else "",
        batch.TOKEN,
        _nccl_log(job),
        _mounts(job),
        _srun(job, size, facts, ordered=ordered, is_step=True),
    ]
    return "\n".join(part for part in parts if part)


def _top(job: Job, size: Shape, facts: Facts, remove: str = "") -> tuple[list[str], list[str]]:
    """The beginning of a script, and the words for sbatch; ``remove`` is part of the script's last act."""
    lines, options = ([], []) if job.launch.job_id else _directives(job, size, facts)
    held = job.launch.job_id
    words = {
        "folder": shlex.quote(job.folder),
        "is_shared": batch.is_shared(job),
        "job": shlex.quote(held),
        "name": job.name,
    }
    remove += bring.REMOVE if job.launch.bring else ""
    top = (_STEP_TOP if held else _TOP).format(**words)
    top += batch.finish(remove) if held else batch.finish(_NO_MORE + remove, _LINGER)
    return ["\n".join(("#!/bin/bash", *lines)) + "\n", _UNSET, top], options


def _directives(job: Job, size: Shape, facts: Facts) -> tuple[list[str], list[str]]:
    """#SBATCH lines, and sbatch's words: the same, and the user's own. Of two the last holds."""
    options = _asked(job, size, facts)
    lines = [f"#SBATCH {option}" for option in options if _PLAIN.match(option)]
    return lines, [*options, *own_words("--sbatch-args", job.launch.sbatch_args)]


def _asked(job: Job, size: Shape, facts: Facts) -> list[str]:
    """What sbatch is asked for, but for the user's own words."""
    launch = job.launch
    out, err = (name.format(name=job.name, job="%j") for name in NODE_FILES)
    values = {
        "--job-name": job.name,
        "--nodes": str(size.nodes),
        "--ntasks": None if size.is_even else str(size.ranks),
        "--ntasks-per-node": str(size.per_node) if size.is_even else None,
        "--gpus-per-node": facts.get("gpus") if _wants_gpus(job, facts) else None,
        "--partition": launch.partition,
        "--account": launch.account,
        "--time": launch.time_limit,
        "--segment": str(segment) if (segment := segment_of(launch, size.nodes)) else None,
        "--output": out,
        "--error": err,
    }
    options = [f"{name}={value}" for name, value in values.items() if value]
    options += ["--exclusive"] if launch.exclusive else []
    return [*options, "--no-requeue"]


def _wants_gpus(job: Job, facts: Facts) -> bool:
    return bool(int(facts.get("gpus", "") or 0)) and job.backend in ("auto", "nccl")


def _exports(job: Job, size: Shape, facts: Facts, *, ordered: bool) -> str:
    return (batch.TOKEN if job.work.is_busbw else _nodes(job, size, facts, ordered=ordered)) + _setup(facts)


def _setup(facts: Facts) -> str:
    setup = facts.get("setup", "")
    return f"export BUSBW_SETUP={shlex.quote(setup)}\n" if setup else ""


def _nodes(job: Job, size: Shape, facts: Facts, *, ordered: bool) -> str:
    slots = int(facts.get("gpus", "") or 0) or size.per_node
    nodes = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    if ordered:
        nodes = slurm_order.NODES.format(nodes=size.nodes)
    elif held := job.launch.job_id:
        given = f'"$(squeue --noheader {shlex.quote(f"--jobs={held}")} --format=%N)"'
        nodes = f"scontrol show hostnames {given} | head -n {size.nodes}"
    return _NODES.format(nodes=nodes, hosts=HOSTS, slots=slots) + batch.MEET


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


def _srun(job: Job, size: Shape, facts: Facts, *, ordered: bool, is_step: bool = False) -> str:
    launch = job.launch
    plugin = mpi_plugin(job, facts)
    words = ["srun", "--label", "--kill-on-bad-exit=1", "--export=ALL", f"--job-name={job.name}"]
    words += [f"--jobid={launch.job_id}"] if launch.job_id else []
    if launch.job_id or is_step:
        words += ["--overlap", f"--nodes={size.nodes}", f"--ntasks={size.ranks}"]
        words += [f"--ntasks-per-node={size.per_node}"] if size.is_even else []
    words += [f"--mpi={plugin}"] if plugin is not None else []
    words += [slurm_order.OPTION] if ordered else []
    quoted = [shlex.quote(word) for word in words]
    quoted += ['--nodelist="$first"'] if is_step and not ordered else []
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
        return launched(line, environ, f"export {slurm_order.VARIABLE}\n" if ordered else "")
    return (f"{slurm_order.VARIABLE} " if ordered else "") + line + "\n"


def _command(job: Job, facts: Facts, *, ordered: bool) -> str:
    """What each task executes, as shell text."""
    launch = job.launch
    number = slurm_order.NUMBER if ordered else "$SLURM_NODEID"
    rank = shlex.join(job.argv(python(launch, facts)))
    if launch.bring and job.work.is_busbw:
        words = [shlex.join(part) for part in (prepending(job.prepend), job.work.argv("")[1:])]
        rank = " ".join(filter(None, (words[0], bring.PYTHON_WORD, words[1])))
    path, environ = path_apart(job.environ)
    own = [*map(shlex.quote, path)]
    if path and launch.bring:
        own = [path[0], bring.PATH_WORD + shlex.quote(path[1].removeprefix("PATH="))]
    entering = () if job.work.is_busbw else entered((), number)
    command = " ".join((*map(shlex.quote, entering), *own, rank))
    if launch.image and environ:  # else the image's own values would win
        command = " ".join(
            ("env", *(shlex.quote(f"{name}={value}") for name, value in environ.items()), command)
        )
    if facts.get("setup", ""):
        command = f"bash -c {shlex.quote(_SOURCE_SETUP)} busbw-rank {command}"
    return command


def python(launch: LaunchSettings, facts: Facts) -> str:
    """The Python that has busbw on the nodes: as said, the image's own, or this one by its path."""
    return launch.python or ("python3" if launch.image else facts.get("python", "python3"))
