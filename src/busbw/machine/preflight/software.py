"""Rules about software: who is there, with which versions, variables and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final
from zlib import crc32

from busbw.machine.preflight.environment import weight
from busbw.machine.preflight.facts import IMAGE, NET_PLUGIN, Gathered
from busbw.machine.preflight.outlier_ranks import few, odd_ranks, only, where
from busbw.model.finding import Finding, Severity

# A difference changes numbers, not whether ranks understand each other.
_SURVIVABLE: Final = ("NVIDIA driver", "libfabric", IMAGE)
# Expectations that say nothing of NCCL.
_OF_NODES: Final = ("gpus", "nics")
_MOST_VALUE: Final = 80  # characters of a variable's value in a claim


def counts(gathered: Gathered) -> Iterator[Finding]:
    """As many ranks and nodes take part as were asked for."""
    per_host = Counter(gathered.hosts)
    evidence = "ranks on each host: " + few([f"{host} {count}" for host, count in per_host.items()])
    asked = gathered.asked
    for what, wanted, found, hint in (
        ("ranks", asked.ranks, len(gathered.ranks), "check the host list and its slots for the missing one"),
        ("nodes", asked.nodes, len(per_host), "check how many ranks the launcher puts on a node"),
    ):
        if wanted and wanted != found:
            who = f"{found} {what} take part" if found != 1 else f"1 {what[:-1]} takes part"
            claim = f"{who}, but {wanted} were requested"
            yield Finding(Severity.ERROR, claim, evidence, hint)


def versions(gathered: Gathered) -> Iterator[Finding]:
    """Every component has one version on all ranks, and where that is one, one build."""
    names = dict.fromkeys(name for rank in gathered.ranks for name in (*rank.versions, *rank.builds))
    for name in names:
        versions = {at: rank.versions.get(name, "") for at, rank in enumerate(gathered.ranks)}
        builds = {at: rank.builds.get(name, "") for at, rank in enumerate(gathered.ranks)}
        is_other_version = len(set(filter(None, versions.values()))) > 1
        what, values = (name, versions) if is_other_version else (f"build of {name}", builds)
        # A plugin has no version to go by, and its two ends speak a protocol of its own.
        severe = name not in _SURVIVABLE if is_other_version else name == NET_PLUGIN
        severity = Severity.ERROR if severe else Severity.WARNING
        hint = f"install the same {name} on all hosts, or leave the different ones out"
        yield from odd_ranks(severity, what, values, gathered.hosts, hint=hint)


def environment(gathered: Gathered) -> Iterator[Finding]:
    """Variables that bear on a collective have one value on all ranks."""
    names = sorted({name for rank in gathered.ranks for name in rank.environ})
    for name in names:
        values = {
            at: _shown(rank.environ[name]) if name in rank.environ else "unset"
            for at, rank in enumerate(gathered.ranks)
        }
        hint = "export it to all ranks (--env, mpirun -x, srun --export), or to none"
        yield from odd_ranks(weight(name, gathered.backend), name, values, gathered.hosts, hint=hint)


def _shown(value: str) -> str:
    if len(value) <= _MOST_VALUE:
        return repr(value)
    return f"{value[:_MOST_VALUE]!r}... ({crc32(value.encode()):08x})"  # two that begin alike stay two


def files(gathered: Gathered) -> Iterator[Finding]:
    """Files, folders and plugins that variables name are there."""
    lacking: dict[tuple[str, str, str], list[int]] = {}
    for at, rank in enumerate(gathered.ranks):
        for each in rank.missing:
            lacking.setdefault((each.variable, each.path, each.kind), []).append(at)
    for (variable, path, kind), places in lacking.items():
        there, first, host = where(places, gathered.hosts, "any rank")
        severity = Severity.ERROR
        if kind == "folder":  # module systems leave old ones behind
            severity = Severity.INFO if first is None else Severity.WARNING
        elif variable.startswith("NCCL_") and not gathered.uses_nccl:
            severity = Severity.INFO
        claim = f"{variable}={path} names a {_FILE_WORDS[kind]} {there}"
        hint = _FILE_HINTS.get(kind, f"correct {variable}, or unset it")
        yield Finding(severity, claim, hint=hint, rank=first, host=host)


_FILE_WORDS: Final[Mapping[str, str]] = {
    "file": "file that does not exist on",
    "folder": "folder that does not exist on",
    "plugin": "plugin that the loader does not find on",
}
_FILE_HINTS: Final[Mapping[str, str]] = {
    "plugin": "give its path, or put its folder on LD_LIBRARY_PATH: otherwise NCCL uses its own",
    "folder": "correct the path, or mount the folder there",
}


def backend(gathered: Gathered) -> Iterator[Finding]:
    """Where GPUs or something of NCCL are expected, they are measured, not CPU memory in their place."""
    of_nccl = [word for word in gathered.asked.expects if word.partition("=")[0] not in _OF_NODES]
    if not gathered.uses_nccl and (of_nccl or gathered.wants("gpus") == "1"):
        expected = f"{few(of_nccl)} is expected of NCCL" if of_nccl else "GPUs are expected (gpus=1)"
        hint = "see `busbw devices` for why NCCL cannot be used; --backend mpi measures CPU memory"
        claim = f"{expected}, but this run would measure CPU memory over MPI"
        yield Finding(Severity.ERROR, claim, hint=hint)


def net_plugin(gathered: Gathered) -> Iterator[Finding]:
    """Where a network is asked for that only a plugin has, the plugin is found."""
    lacking = []
    for at, rank in enumerate(gathered.ranks):
        net = rank.environ.get("NCCL_NET", "").lower()
        needs = net not in ("ib", "socket") if net else gathered.wants("net") == "ofi"
        # One that NCCL_NET_PLUGIN names is a file of its own, which ``files`` looks for.
        if needs and not rank.net_plugin and not rank.environ.get("NCCL_NET_PLUGIN"):
            lacking.append(at)
    if not lacking:
        return
    first = gathered.ranks[lacking[0]]
    asks = f"NCCL_NET={first.environ['NCCL_NET']}" if "NCCL_NET" in first.environ else "net=ofi"
    gone = [each.path for each in first.missing if each.variable == "LD_LIBRARY_PATH"]
    there, which, host = where(lacking, gathered.hosts, "any rank")
    severity = Severity.ERROR if gathered.uses_nccl else Severity.INFO
    claim = f"{asks} needs a network plugin, but the loader finds none on {there}"
    evidence = f"folders of LD_LIBRARY_PATH that do not exist there: {few(gone)}" if gone else ""
    hint = "put the plugin's folder on LD_LIBRARY_PATH, or name it by NCCL_NET_PLUGIN"
    yield Finding(severity, claim, evidence, hint, rank=which, host=host)


def shared_folder(gathered: Gathered) -> Iterator[Finding]:
    """The nodes see the run folder of the front process."""
    blind = [rank.host for rank, node in gathered.nodes if node.sees_folder is False]
    if not blind:
        return
    some_see = len(blind) < len(gathered.nodes)
    who = few(blind) if some_see else "no node"
    verb = "sees" if not some_see else "does not see" if len(blind) == 1 else "do not see"
    # A record comes home without it, so only who asks has to know.
    severity = Severity.WARNING if gathered.asked.stops or some_see else Severity.INFO
    claim = f"{who} {verb} the run folder {gathered.asked.folder}"
    evidence = "the launcher's channel brings the record home, without samples beyond a few MB"
    hint = "set BUSBW_HOME to a folder that the nodes share"
    yield Finding(severity, claim, evidence, hint, host=only(blind))
