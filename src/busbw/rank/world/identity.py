"""Which rank is this process? One table, a row per launcher, read from the environment alone.

Several launchers can be nested (torchrun inside srun, mpirun inside sbatch, hydra's daemons started by srun),
and the outer ones leave their variables behind. The innermost launcher is the one that started this process,
so the table is ordered from the inside out and the first row that proves itself wins; what cannot both be
true is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from busbw.errors import LauncherMismatch
from busbw.rank.world.rendezvous import job_token, root_address
from busbw.rank.world.slurm_text import local_size_of

if TYPE_CHECKING:
    from busbw.rank.world.base import WorldKind

MpiFamily = Literal["openmpi", "mpich"]
Environ = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """The variables by which one launcher numbers its processes. Of several names in a text the first that is
    set counts.

    ``rank`` and ``proof`` are set by this launcher. ``mpi_family`` is there where it starts MPI's ranks.
    ``from_srun``: srun's MPI plugins set these variables too, and then they belong to the Slurm step.
    ``advice`` is the hint for a missing size.
    """

    name: str
    rank: str
    size: str
    local_rank: str = ""
    local_size: str = ""
    proof: str = ""
    mpi_family: MpiFamily | None = None
    from_srun: bool = False
    advice: str = ""

    @property
    def world(self) -> WorldKind:
        return "nccl" if self.mpi_family is None else "mpi"


def _below(prefix: str) -> tuple[str, str, str, str]:
    """OMPI_COMM_WORLD_RANK, and likewise."""
    return f"{prefix}_RANK", f"{prefix}_SIZE", f"{prefix}_LOCAL_RANK", f"{prefix}_LOCAL_SIZE"


_PLAIN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_PMI_LOCAL = ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")
_PALS_LOCAL = ("PALS_LOCAL_RANKID PMI_LOCAL_RANK", "PALS_LOCAL_SIZE PMI_LOCAL_SIZE")
_MPICH_LOCAL = ("MPI_LOCALRANKID PMI_LOCAL_RANK", "MPI_LOCALNRANKS PMI_LOCAL_SIZE")
# Ordered from the inside out; MPI launchers are told apart by numbers, not by order (see _mpi_claims).
TABLE: tuple[Row, ...] = (
    Row("busbw", "BUSBW_RANK", "BUSBW_WORLD_SIZE", "BUSBW_LOCAL_RANK", "BUSBW_LOCAL_SIZE"),
    Row("torchrun", *_PLAIN, proof="TORCHELASTIC_RUN_ID"),
    Row("openmpi", *_below("OMPI_COMM_WORLD"), mpi_family="openmpi"),
    Row("pals", "PALS_RANKID", "PMI_SIZE PALS_SIZE", *_PALS_LOCAL, mpi_family="mpich"),
    Row("alps", "ALPS_APP_PE", "PMI_SIZE", *_PMI_LOCAL, mpi_family="mpich"),
    Row("mvapich", *_below("MV2_COMM_WORLD"), mpi_family="mpich"),
    Row("mpich", "PMI_RANK", "PMI_SIZE", *_MPICH_LOCAL, mpi_family="mpich", from_srun=True),
    # A PMIx server other than mpirun's (srun --mpi=pmix, prun) exports the rank; only the library knows the
    # size.
    Row("pmix", "PMIX_RANK", "", mpi_family="openmpi", from_srun=True),
    Row("environment", *_PLAIN),
    Row("slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS SLURM_NTASKS", "SLURM_LOCALID"),
    Row(
        "kubernetes",
        "JOB_COMPLETION_INDEX",
        "BUSBW_WORLD_SIZE WORLD_SIZE",
        advice="in the pods, set BUSBW_WORLD_SIZE to the completions and BUSBW_ROOT to pod 0's address",
    ),
)
ROWS: Mapping[str, Row] = {row.name: row for row in TABLE}

# A batch script (..291) and salloc's interactive shell (..290) have SLURM_PROCID=0 as well, but are no task
# of a parallel step; Slurm numbers such special steps from here up.
_FIRST_SPECIAL_STEP = 0xFFFFFFFA


@dataclass(frozen=True, slots=True)
class Identity:
    """What the launcher says about this process. None stands for "the launcher does not say".

    ``world`` is the default kind; ``mpi_family`` the library that the launcher implies.
    ``root_host``/``root_port`` say where rank 0 can be reached; ``token`` separates this job's control
    channel from others, and is a secret only if it came in BUSBW_TOKEN.
    """

    launcher: str
    rank: int
    size: int | None
    local_rank: int | None
    local_size: int | None
    world: WorldKind
    mpi_family: MpiFamily | None
    root_host: str
    root_port: int | None
    token: str


@dataclass(frozen=True, slots=True)
class _Claim:
    """A row with the rank and size that its variables give."""

    row: Row
    rank: int
    size: int | None

    def agrees(self, other: _Claim) -> bool:
        unknown = self.size is None or other.size is None
        return self.rank == other.rank and (unknown or self.size == other.size)

    def __str__(self) -> str:
        size = "unknown" if self.size is None else self.size
        return f"{self.row.name} ({self.row.rank}={self.rank}, size {size})"


def identify(environ: Environ) -> Identity | None:
    """The calling process's identity, or None when no launcher started it.

    BUSBW_LAUNCHER names the row to believe, or ``none``. Raises ``LauncherMismatch`` for
    variables that contradict each other. Pure: looks at ``environ`` only.
    """
    name = environ.get("BUSBW_LAUNCHER", "")
    if name == "none":
        return None
    if name:
        return _identity(_forced_claim(name, environ), environ)
    if _proved(ROWS["busbw"], environ):
        return _identity(_claim(ROWS["busbw"], environ), environ)
    step = _claim(ROWS["slurm"], environ) if _proved(ROWS["slurm"], environ) else None
    own, handed = _mpi_claims(environ, step)
    if _proved(ROWS["torchrun"], environ):
        torchrun = _claim(ROWS["torchrun"], environ)
        _refuse_ranks_below_torchrun(torchrun, own, environ)
        return _identity(torchrun, environ)
    if own:
        _refuse_second_opinion(own[0], own[1:])
        _refuse_plain_variables(own[0], environ)
        return _identity(own[0], environ)
    if step:
        return _slurm_identity(step, handed, environ)
    for row in (ROWS["environment"], ROWS["kubernetes"]):
        if _proved(row, environ):
            return _identity(_claim(row, environ), environ)
    return None


def _proved(row: Row, environ: Environ) -> bool:
    if row.name == "slurm":
        step = environ.get("SLURM_STEP_ID", environ.get("SLURM_STEPID", ""))
        real_step = step.isdecimal() and int(step) < _FIRST_SPECIAL_STEP
        return real_step and bool(environ.get("SLURM_PROCID"))
    return bool(environ.get(row.rank)) and (not row.proof or bool(environ.get(row.proof)))


def _forced_claim(name: str, environ: Environ) -> _Claim:
    if name not in ROWS:
        raise LauncherMismatch(f"no launcher is called {name!r}", hint=f"use one of: {', '.join(ROWS)}, none")
    row = ROWS[name]
    if not environ.get(row.rank):
        raise LauncherMismatch(
            f"BUSBW_LAUNCHER says {name}, but {row.rank} is not set",
            hint="unset BUSBW_LAUNCHER, or start through that launcher",
        )
    return _claim(row, environ)


def _claim(row: Row, environ: Environ) -> _Claim:
    """Read and check one row's rank and size; only an MPI library can supply a size that is not there."""
    rank = _number(environ, row.rank)
    size = _first_number(environ, row.size)
    if size is None and row.world != "mpi":
        raise LauncherMismatch(
            f"{row.rank}={rank} is set but {row.size.replace(' ', ' or ')} is not",
            hint=row.advice
            or f"set {row.size.split()[0]} as well, unset {row.rank}, or set BUSBW_LAUNCHER=name",
        )
    if size is not None and rank >= size:
        raise LauncherMismatch(
            f"{row.name} says rank {rank} of {size} ranks: ranks run from 0 to {size - 1}",
            hint=f"unset {row.rank} if it is a leftover, or name another launcher with BUSBW_LAUNCHER",
        )
    return _Claim(row, rank, size)


def _number(environ: Environ, name: str) -> int:
    text = environ[name].strip()
    # str.isdigit also accepts digits such as superscripts, which int() refuses.
    if not (text.isascii() and text.isdigit()):
        raise LauncherMismatch(f"{name}={text!r} is not a whole number", hint=f"unset {name} or correct it")
    return int(text)


def _first_number(environ: Environ, names: str) -> int | None:
    return next((_number(environ, name) for name in names.split() if environ.get(name)), None)


def _mpi_claims(environ: Environ, step: _Claim | None) -> tuple[list[_Claim], list[_Claim]]:
    """MPI launchers' claims: those of a launcher of its own, and those that srun's MPI plugin handed out.

    A launcher started inside a step replaces its processes' variables, so numbers equal to the step's are the
    step's. Hydra started with one process a node gives the same numbers as its own daemons have:
    HYDI_CONTROL_FD shows it.
    """
    claims = [_claim(row, environ) for row in TABLE if row.world == "mpi" and _proved(row, environ)]
    if step is None:
        return claims, []
    hydra = "HYDI_CONTROL_FD" in environ
    handed = [
        claim
        for claim in claims
        if claim.row.from_srun and claim.agrees(step) and not (hydra and claim.row.name == "mpich")
    ]
    return [claim for claim in claims if claim not in handed], handed


def _refuse_second_opinion(winner: _Claim, others: list[_Claim]) -> None:
    for other in others:
        if not winner.agrees(other):
            raise LauncherMismatch(
                f"two MPI launchers claim this process: {winner} and {other}",
                hint=f"unset {other.row.rank}, or set BUSBW_LAUNCHER={winner.row.name} or {other.row.name}",
            )


def _refuse_ranks_below_torchrun(torchrun: _Claim, others: list[_Claim], environ: Environ) -> None:
    """An mpirun that started torchrun is no contradiction; one started by a rank of torchrun is: each of its
    processes would take itself for that one rank.
    """
    for other in others:
        if other.size != 1 and not any(other.agrees(view) for view in _views(torchrun, environ)):
            raise LauncherMismatch(
                f"torchrun and an MPI launcher claim this process: {torchrun} and {other}",
                hint=f"set BUSBW_LAUNCHER={other.row.name} or torchrun to name the one that started it",
            )


def _views(torchrun: _Claim, environ: Environ) -> list[_Claim]:
    """The numbers that an MPI launcher around torchrun may give: its ranks', or those of its agents (one a
    node), which torchrun calls groups.
    """
    group = _first_number(environ, "GROUP_RANK"), _first_number(environ, "GROUP_WORLD_SIZE")
    if group[0] is not None and group[1] is not None:
        return [torchrun, _Claim(torchrun.row, group[0], group[1])]
    local_size = _first_number(environ, "LOCAL_WORLD_SIZE")
    if not local_size or torchrun.size is None or torchrun.size % local_size:
        return [torchrun]
    return [torchrun, _Claim(torchrun.row, torchrun.rank // local_size, torchrun.size // local_size)]


def _plain_variables(environ: Environ) -> _Claim | None:
    """What RANK and WORLD_SIZE say, whoever has set them."""
    rank = _first_number(environ, "RANK")  # without it WORLD_SIZE is somebody else's, and may be any word
    return None if rank is None else _Claim(ROWS["environment"], rank, _first_number(environ, "WORLD_SIZE"))


def _refuse_plain_variables(winner: _Claim, environ: Environ) -> None:
    """RANK without torchrun is set by hand; where it repeats the launcher's numbers it does no harm."""
    plain = _plain_variables(environ)
    if plain is not None and not winner.agrees(plain):
        raise LauncherMismatch(
            f"RANK and WORLD_SIZE disagree with the launcher: {plain}, but {winner}",
            hint=f"unset RANK WORLD_SIZE, or set BUSBW_LAUNCHER={winner.row.name} or environment",
        )


def _slurm_identity(step: _Claim, handed: list[_Claim], environ: Environ) -> Identity:
    """A task of a Slurm step: an MPI world if srun's plugin set one up, unless it started ranks by hand."""
    plain = _plain_variables(environ)
    # A task that starts several ranks itself has more of them than the step has tasks.
    if not handed and plain is not None and (plain.size or 0) > (step.size or 0):
        return _identity(_claim(ROWS["environment"], environ), environ)
    _refuse_plain_variables(step, environ)
    # Cray's plugin sets up MPI without exporting a rank.
    cray: MpiFamily | None = "mpich" if "PMI_CONTROL_PORT" in environ else None
    return _identity(step, environ, handed[0].row.mpi_family if handed else cray)


def _identity(claim: _Claim, environ: Environ, of_step: MpiFamily | None = None) -> Identity:
    """``of_step``: the MPI that srun's plugin has set up."""
    row = claim.row
    local_rank, local_size = _local_numbers(row, environ)
    everybody_here = local_size is not None and local_size == claim.size
    host, port = root_address(environ, everybody_here=everybody_here)
    return Identity(
        *(row.name, claim.rank, claim.size, local_rank, local_size),
        world="mpi" if of_step else row.world,
        mpi_family=of_step or row.mpi_family,
        root_host=host,
        root_port=port,
        token=job_token(environ, row.name, claim.size),
    )


def _local_numbers(row: Row, environ: Environ) -> tuple[int | None, int | None]:
    local_rank = _first_number(environ, row.local_rank)
    local_size = _first_number(environ, row.local_size)
    if row.name == "slurm":
        local_size = local_size_of(
            environ.get("SLURM_STEP_TASKS_PER_NODE", environ.get("SLURM_TASKS_PER_NODE", "")),
            environ.get("SLURM_NODEID", ""),
        )
    if local_rank is not None and local_size is not None and local_rank >= local_size:
        raise LauncherMismatch(
            f"{row.name} says local rank {local_rank} of {local_size} on this host",
            hint=f"unset {row.local_rank} {row.local_size}, which do not belong together",
        )
    return local_rank, local_size
