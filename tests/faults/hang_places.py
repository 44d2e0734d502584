"""Where planted hangs are run: this machine, namespace hosts, a real Slurm and a real Kubernetes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from busbw_testing.environ import clean_environ
from busbw_testing.host_cluster import ENVIRON
from busbw_testing.kubernetes_cluster import Cluster
from busbw_testing.kubernetes_tools import NO_GO, find_tools
from busbw_testing.mpi_ranks import YIELDING_WORDS
from busbw_testing.namespaces import Hosts, seen_of_tmp
from busbw_testing.slurm_cluster import slurm_of

import busbw

SOURCES: Final = Path(busbw.__path__[0]).parent
NULL: Final = ("--backend", "null", "--world", "nccl")
MPI: Final = ("--backend", "mpi")


@dataclass(frozen=True)
class Place:
    """``command`` makes the words of a front process out of busbw's own; ``worlds`` are the words of each
    kind of ranks; ``cut`` takes the network from between two hosts of ranks.
    """

    name: str
    worlds: Mapping[str, tuple[str, ...]]
    where: tuple[str, ...]
    home: Path
    environ: Mapping[str, str]
    pythons: Mapping[str, str] = field(default_factory=dict)
    command: Callable[[Sequence[str]], list[str]] = list
    cut: Callable[[], contextlib.AbstractContextManager[None]] | None = None

    def start(self, world: str, words: Sequence[str], out: Path) -> subprocess.Popen[bytes]:
        """``busbw run`` with the words; what it prints goes into two files beside each other."""
        argv = [self.pythons.get(world, sys.executable), "-m", "busbw", "run", *words]
        argv += [*self.worlds[world], *self.where]
        with out.open("wb") as stdout, out.with_suffix(".err").open("wb") as stderr:
            return subprocess.Popen(
                self.command(argv),
                env=clean_environ(BUSBW_HOME=str(self.home), **self.environ),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )


@contextlib.contextmanager
def one_host(folder: Path, open_mpi: Path) -> Iterator[Place]:
    """Three ranks on this machine, over both MPI libraries and over none."""
    worlds = {"mpich": MPI, "openmpi": MPI, "null": NULL}
    home = folder / "one-host"
    yield Place("one host", worlds, ("--ranks", "3"), home, {}, {"openmpi": str(open_mpi / "bin/python")})


@contextlib.contextmanager
def hosts(folder: Path, open_mpi: Path) -> Iterator[Place]:
    """A rank on each of three hosts, started over SSH from a fourth."""
    shared, keys = folder / "hosts", folder / "keys"
    shared.mkdir()
    keys.mkdir()
    open_mpi.mkdir(exist_ok=True)
    with Hosts(keys, 4, private=["/tmp"], shared=[folder, open_mpi, *seen_of_tmp()]) as net:

        @contextlib.contextmanager
        def cut() -> Iterator[None]:
            other = net.address("h3")
            chains = (
                f"chain {hook} {{ type filter hook {hook} priority 0; ip {end} {other} drop; }};"
                for hook, end in (("input", "saddr"), ("output", "daddr"))
            )
            net.run("h2", "nft", f"table inet cut {{ {' '.join(chains)} }}")
            try:
                yield
            finally:
                net.run("h2", "nft", "delete table inet cut")

        yield Place(
            "hosts",
            {"mpich": (*MPI, *YIELDING_WORDS), "openmpi": MPI, "null": NULL},
            ("--on", "hosts", "--hosts", "h2,h3,h4"),
            shared / "runs",
            ENVIRON,
            {"openmpi": str(open_mpi / "bin/python")},
            lambda argv: net.command("h1", argv),
            cut,
        )


@contextlib.contextmanager
def slurm(folder: Path, open_mpi: Path) -> Iterator[Place]:
    """A rank on each of three nodes."""
    with slurm_of(folder, 3) as cluster:
        yield Place(
            "slurm",
            {"mpich": (*MPI, *YIELDING_WORDS), "null": NULL},
            ("--on", "slurm", "-N", "3"),
            folder / "home",
            {"SLURM_CONF": str(cluster.conf)},
            command=lambda argv: cluster.command(*argv),
        )


@contextlib.contextmanager
def kubernetes(folder: Path, open_mpi: Path) -> Iterator[Place]:
    """A pod on each of three nodes."""
    tools = find_tools()
    if tools is None:
        raise SystemExit(f"no control plane was built: run `make test-kubernetes`; {NO_GO}")
    environment, base = Path(sys.prefix), Path(sys.base_prefix)
    usual = ("/usr", "/usr/local")
    binds = [
        str(environment),
        str(SOURCES),
        str(folder / "shim"),
        *([] if str(base) in usual else [str(base)]),
    ]
    path = f"{environment / 'bin'}:{base / 'bin'}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    place = folder / "kubernetes"
    place.mkdir()
    with Cluster(tools, place, {"lab/busbw": {"path": path, "binds": binds}}) as cluster:
        yield Place(
            "kubernetes",
            {"mpich": (*MPI, *YIELDING_WORDS), "null": NULL},
            ("--on", "kubernetes", "--namespace", "default", "--image", "lab/busbw", "-N", "3"),
            folder / "kubernetes-home",
            {"KUBECONFIG": str(cluster.kubeconfig())},
        )


PLACES: Final = {"one-host": one_host, "hosts": hosts, "slurm": slurm, "kubernetes": kubernetes}
