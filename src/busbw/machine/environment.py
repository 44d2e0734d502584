"""The environment of a measurement: variables by allow-list, modules, NCCL's configuration files.

Only names that matter to a collective are kept, and those that somebody gave for this measurement (``--env``,
a setup, a preset); secrets among them are replaced: a record is made to be shared, and tools that dump the
whole environment leak tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.machine.sysfs import read_text
from busbw.redact import REDACTED, redact, redact_all

# What tells ranks which of their variables were given for this measurement: names with commas.
GIVEN: Final = "BUSBW_GIVEN"
# The variables that stand for --env and for this list: what they name is there itself.
_OF_OTHERS: Final = ("BUSBW_ENV", GIVEN)

# What NCCL, its network plugins, MPI, the transports, the launchers and the OpenMP runtimes read.
_RECORDED: Final = re.compile(
    r"""(?x)
    (?!NVIDIA_REQUIRE_)  # container images carry kilobytes of driver ranges
    ( BUSBW | NCCL | RCCL | OFI_NCCL | NVSHMEM | CUDA | NVIDIA | HIP | HSA | ROCR | NEURON | TORCH\w*
    | UCX | UCC | FI | RDMAV | IBV | MLX4 | MLX5 | SHARP | HCOLL | GLOO
    | OMPI | OPAL | PRTE | PMIX | PMI | MPICH | MPIR | MPI | MPI4PY | MV2 | HYDRA | I_MPI
    | SLURM | PALS | ALPS | PBS | LSB | FLUX | MASTER | JOB_COMPLETION | OMP | KMP | GOMP
    )_\w+
    | ((LOCAL|NODE|GROUP|ROLE)_)?RANK | ((LOCAL|GROUP|ROLE)_)?WORLD_SIZE
    | LD_(LIBRARY_PATH|PRELOAD|AUDIT) | MKL_NUM_THREADS | CONDA_PREFIX | VIRTUAL_ENV
    | LOADEDMODULES | _LMFILES_
    """
)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of NCCL settings that was there: KEY=VALUE pairs in its order, secrets replaced."""

    path: str
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Environment:
    """``variables`` by name, secrets replaced; ``redacted`` names those; ``modules`` as loaded, and the
    ``module_files`` that they are in (Environment Modules and Lmod list them alike); ``given`` names
    variables that were given for this measurement.
    """

    variables: dict[str, str]
    redacted: tuple[str, ...]
    modules: tuple[str, ...]
    nccl_config: tuple[ConfigFile, ...]
    module_files: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


def read_environment(environ: Mapping[str, str], *, root: Path = Path("/")) -> Environment:
    """What of the environment belongs into a record. ``root`` is where /etc is looked up."""
    given = given_here(environ)
    kept = {
        name: value
        for name, value in sorted(environ.items())
        if name not in _OF_OTHERS and (is_recorded(name) or name in given)
    }
    modules, module_files = kept.pop("LOADEDMODULES", ""), kept.pop("_LMFILES_", "")
    variables = redact_all(kept)
    return Environment(
        variables=variables,
        redacted=tuple(name for name, value in variables.items() if REDACTED in value),
        modules=tuple(module for module in modules.split(":") if module),
        nccl_config=read_nccl_config(environ, root=root),
        module_files=tuple(path for path in module_files.split(":") if path),
        given=given,
    )


def is_recorded(name: str) -> bool:
    """Whether the variable is on the allow-list."""
    return _RECORDED.fullmatch(name) is not None


def with_given(environ: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """Variables to give to ranks, and what tells the ranks that these, and ``also``, were given. What was
    given to who starts them (``busbw exec``) is among ``also``: see ``given_here``.
    """
    names = dict.fromkeys((*environ, *also))
    return {**environ, GIVEN: ",".join(names)} if names else dict(environ)


def given_here(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of what was given to this process."""
    return tuple(filter(None, environ.get(GIVEN, "").split(",")))


def read_nccl_config(environ: Mapping[str, str], *, root: Path = Path("/")) -> tuple[ConfigFile, ...]:
    """The files that NCCL takes settings from, in the order in which they win (NCCL's misc/param.cc).

    NCCL_CONF_FILE (NCCL 2.23 on) replaces ~/.nccl.conf; /etc/nccl.conf is always read; variables that are set
    win over all files.
    """
    own = environ.get("NCCL_CONF_FILE", "")
    home = environ.get("HOME", "")
    paths = [Path(own)] if own else [Path(home) / ".nccl.conf"] if home else []
    paths.append(root / "etc" / "nccl.conf")
    found = []
    for path in filter(Path.is_file, paths):
        # # is a comment in the first column only, and nothing is trimmed or unquoted, as NCCL does.
        lines = (line.partition("=") for line in read_text(path).splitlines() if not line.startswith("#"))
        settings = ((name, redact(name, value)) for name, sign, value in lines if sign)
        found.append(ConfigFile(str(path), tuple(settings)))
    return tuple(found)
