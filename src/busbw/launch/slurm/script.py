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
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, UsageError
from busbw.launch import batch
from busbw.launch.batch import Shape, Text, shell
from busbw.launch.command import HOSTS, entered, path_apart, sourced
from busbw.launch.settle import refuse_mpi, refuse_too_few
from busbw.launch.slurm.commands import UNSEEN, own_words
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
_LINGER_SECONDS: Final = 20

# ---- the text of the script; words in braces are those of ``_values`` ----------------------------------

# What a site, a shell or sbatch --export=NONE sets for every srun: it would keep what this script exports
# from the ranks, send their output elsewhere, or cut its lines.
_UNSET: Final = """\
unset SLURM_EXPORT_ENV SRUN_EXPORT_ENV SLURM_STDOUTMODE SLURM_STDERRMODE SRUN_OUTPUT SRUN_ERROR
unset SLURM_UNBUFFEREDIO
"""
_TOP: Final = """\
run_folder={folder}
job={job}
"""
_STEP_LOG: Final = """\
log=$run_folder/log
"""
_JOB_LOG: Final = """\
# Where the nodes see the run folder, output goes there; else this node keeps it until it has been read.
out=/tmp/{name}-$job.out err=/tmp/{name}-$job.err log=
if {is_shared}; then
  log=$run_folder/log
  exec >"$log/slurm-$job.out" 2>"$log/slurm-$job.err"
  rm -f -- "$out" "$err"
fi
"""
# In the script's last act: signals are no longer heard, and the reader removes what it has read.
_NO_MORE: Final = "  trap '' TERM\n"
_LINGER: Final = f"""\
  # The reader removes what it has read.
  for ((i = 0; i < {_LINGER_SECONDS * 5}; i++)); do
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
"""
_LAUNCH_REMOVE: Final = """trap 'rm -f -- "$hosts"' EXIT
"""

# For a command of the user's (``command.py``): its nodes.
_NODES: Final = """\
nodes=$({listed}) || exit
{hosts}=$(printf '%s:{slots}\\n' $nodes | paste -sd, -)
"""

# NCCL writes a file for each process there, instead of between the ranks' output.
_NCCL_LOG: Final = """\
if [ -n {level} ] && [ -z {file} ] && [ -n "$log" ]; then
  case $log in *%*) ;; *) export NCCL_DEBUG_FILE="$log/nccl-$job-%h-%p.log" ;; esac
fi
"""

# The ranks of a node take turns, so that a script which installs something does it once.
SOURCE_SETUP: Final = sourced(
    '8<<<"$BUSBW_SETUP" 9<&-',
    "$SLURMD_NODENAME",
    before="exec 9</tmp && flock 9\n",
    after="exec 9<&-\nunset BUSBW_SETUP\n",
)

# --topology: the nodes that the job was given are put into the order that was known before. srun's
# distribution ``arbitrary`` takes a line a task from the file that SLURM_HOSTFILE names (srun(1)). Slurm's
# own order of a job's nodes is that of its configuration, whichever switches they have.
_ORDER: Final = """\
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
_REMOVE_HOSTS: Final = """\
  rm -f -- "$hosts"
"""
_HOSTFILE: Final = 'SLURM_HOSTFILE="$hosts"'
# The nodes that a command of the user's is told of, and on each node its number among them: Slurm's own
# numbers (SLURM_NODEID) are of another order.
_ORDERED_NODES: Final = 'printf "%s\\n" "${{ordered[@]:0:{nodes}}}"'
_LINES: Final = f'printf %s "${HOSTS}" | tr , "\\n" | sed "s/:.*//"'
_ORDERED_NUMBER: Final = f'$(($({_LINES} | grep -nxF "$SLURMD_NODENAME" | cut -d: -f1) - 1))'

# --bring: busbw and its packages are copied by sbcast from the run folder to /tmp of each node, and removed
# at the script's end.
BUNDLE: Final = "bundle.tar.gz"
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
_BRING: Final = """\
brought=/tmp/{name}-$job.d
on_every_node() {{
  srun {of_job}{beside}--nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --mpi=none "$@"
}}
if [ -z "$log" ]; then echo "{unseen}" >&2; exit 1; fi
sbcast {of_job}--force -- "$run_folder/request/{bundle}" "$brought.tar.gz" || exit 1
on_every_node sh -c {unpack} busbw-unpack "$brought" {python} || exit 1
export PATH="$brought/bin:$PATH"
"""
_REMOVE_BROUGHT: Final = """\
  on_every_node rm -rf -- "$brought" "$brought.tar.gz"
"""
_BROUGHT_PYTHON: Final = '"$brought/bin/python"'


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


def render(job: Job, facts: Facts, rank_order: RankOrder | None = None, loop: Sequence[str] = ()) -> str:
    """The script; ranks follow ``rank_order``, where there is one. With ``loop`` it executes a Python with
    those words, which runs many launches. Raises UsageError for settings that do not fit.
    """
    size, launch, ordered = shape(job, facts), job.launch, rank_order is not None
    asked, _ = ([], []) if launch.job_id else sbatch_words(job, size, facts)
    first = ["#!/bin/bash", *(f"#SBATCH {word}" for word in asked if _PLAIN.match(word))]
    values = _values(job, size)
    remove = (_REMOVE_HOSTS if ordered else "") + (_REMOVE_BROUGHT if launch.bring else "")
    end = batch.finish(remove) if launch.job_id else batch.finish(_NO_MORE + remove, _LINGER)
    top = (_TOP + (_STEP_LOG if launch.job_id else _JOB_LOG)).format_map(values) + end
    bring = _BRING.format_map(values) if launch.bring else ""
    if loop:
        pythons = [_BROUGHT_PYTHON] if launch.bring else []
        pythons += [shlex.quote(_python(launch, facts))] if not launch.image else []
        parts = [bring, _setup(facts), batch.loop(pythons, loop)]
    else:
        own = batch.TOKEN if job.work.is_busbw else _nodes(job, size, facts, ordered=ordered)
        parts = [
            *(ordering(job, rank_order, size), own + _setup(facts), _nccl_log(job), _mounts(job)),
            *(bring, _srun(job, size, facts, ordered=ordered)),
        ]
    return _joined("\n".join((*first, "")), _UNSET, top, *parts)


def render_launch(job: Job, facts: Facts, rank_order: RankOrder | None) -> str:
    """What bash executes for one launch of a series, in the series' job."""
    size, ordered = shape(job, facts), rank_order is not None
    return _joined(
        _LAUNCH_TOP.format_map(_values(job, size)) + (_LAUNCH_REMOVE if ordered else ""),
        ordering(job, rank_order, size),
        batch.TOKEN,
        _nccl_log(job),
        _mounts(job),
        _srun(job, size, facts, ordered=ordered, is_step=True),
    )


def _joined(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def ordering(job: Job, rank_order: RankOrder | None, size: Shape) -> str:
    """The part of the script that orders its nodes; empty where they stay as they are."""
    if rank_order is None:
        return ""
    return _ORDER.format_map({**_values(job, size), "known": shlex.join(rank_order.hosts)})


def _values(job: Job, size: Shape) -> Mapping[str, object]:
    """What the words in the texts above stand for."""
    held = shlex.quote(job.launch.job_id) if job.launch.job_id else ""  # the script is not in that allocation
    python = job.launch.python or f"python{sys.version_info.major}.{sys.version_info.minor}"
    return {
        "folder": shlex.quote(job.folder),
        "is_shared": batch.is_shared(job),
        "job": held or "$SLURM_JOB_ID",
        "name": job.name,
        "nodes": size.nodes,
        "ranks": size.ranks,
        "allocated": "$(squeue --noheader --jobs=$job --format=%N)" if held else "$SLURM_JOB_NODELIST",
        "of_job": f"--jobid={held} " if held else "",
        "beside": "--overlap " if held else "",
        "bundle": BUNDLE,
        "unseen": UNSEEN,
        "unpack": shlex.quote(_UNPACK),
        "python": shlex.quote(python),
    }


def sbatch_words(job: Job, size: Shape, facts: Facts) -> tuple[list[str], list[str]]:
    """What sbatch is asked for, and the user's own words, which come behind: of two the last holds."""
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
    return [*options, "--no-requeue"], own_words("--sbatch-args", launch.sbatch_args)


def _wants_gpus(job: Job, facts: Facts) -> bool:
    return bool(int(facts.get("gpus", "") or 0)) and job.backend in ("auto", "nccl")


def _setup(facts: Facts) -> str:
    setup = facts.get("setup", "")
    return f"export BUSBW_SETUP={shlex.quote(setup)}\n" if setup else ""


def _nodes(job: Job, size: Shape, facts: Facts, *, ordered: bool) -> str:
    slots = int(facts.get("gpus", "") or 0) or size.per_node
    listed = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    if ordered:
        listed = _ORDERED_NODES.format(nodes=size.nodes)
    elif held := job.launch.job_id:
        given = f'"$(squeue --noheader {shlex.quote(f"--jobs={held}")} --format=%N)"'
        listed = f"scontrol show hostnames {given} | head -n {size.nodes}"
    return _NODES.format(listed=listed, hosts=HOSTS, slots=slots) + batch.MEET


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
    words += ["--distribution=arbitrary"] if ordered else []
    words += [Text('--nodelist="$first"')] if is_step and not ordered else []
    if launch.image:
        root = "--container-remap-root" if facts.get("user_id", "") == "0" else "--no-container-remap-root"
        mounts = Text('${mounts:+"--container-mounts=$mounts"}')
        words += [f"--container-image={launch.image}", mounts, "--no-container-mount-home", root]
    words += own_words("--srun-args", launch.srun_args)
    line = f"{shell(words)} \\\n  {shell(_command(job, facts, ordered=ordered))}"
    _, environ = path_apart(job.environ)
    if environ:
        return launched(line, environ, f"export {_HOSTFILE}\n" if ordered else "")
    return (f"{_HOSTFILE} " if ordered else "") + line + "\n"


def _command(job: Job, facts: Facts, *, ordered: bool) -> tuple[str, ...]:
    """What each task executes."""
    launch, (path, environ) = job.launch, path_apart(job.environ)
    if launch.bring and path:
        path = (path[0], Text('PATH="$brought/bin":' + shlex.quote(path[1].removeprefix("PATH="))))
    python = Text(_BROUGHT_PYTHON) if launch.bring else _python(launch, facts)
    words = (*path, *job.argv(python))
    if not job.work.is_busbw:
        words = entered(words, _ORDERED_NUMBER if ordered else "$SLURM_NODEID")
    if launch.image and environ:  # else the image's own values would win
        words = ("env", *(f"{name}={value}" for name, value in environ.items()), *words)
    return ("bash", "-c", SOURCE_SETUP, "busbw-rank", *words) if facts.get("setup", "") else words


def _python(launch: LaunchSettings, facts: Facts) -> str:
    """The Python that has busbw on the nodes: as said, the image's own, or this one by its path."""
    return launch.python or ("python3" if launch.image else facts.get("python", "python3"))
