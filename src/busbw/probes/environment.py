"""The environment of a measurement: variables by allow-list, modules, NCCL's configuration files.

Only names that matter to a collective are kept, and those that somebody gave for this measurement (``--env``,
a setup, a preset); secrets among them are replaced: a record is made to be shared, and tools that dump the
whole environment leak tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.probes.sysfs import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REDACTED: Final = "[redacted]"
# What tells ranks which of their variables were given though they are not on the list: names with commas.
GIVEN: Final = "BUSBW_GIVEN"

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

_SECRET_WORDS: Final = frozenset(
    (
        "KEY",
        "KEYS",
        "APIKEY",
        "AUTH",
        "AUTHORIZATION",
        "JWT",
        "CRED",
        "CREDS",
        "COOKIE",
        "PASS",
        "PWD",
        "PRIVATE",
    )
)
# Anywhere in the name, so that AUTHTOKEN or MYPASSWORD are caught too.
_SECRET_PARTS: Final = ("TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL")
_SECRET_VALUE: Final = re.compile(
    r"""(?ix)
    \b(bearer|basic)\s+\S{8,}                                 # an Authorization header
    | \b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@                # scheme://user:password@host
    | \b(password|passwd|token|secret|api_?key|access_?key)\s*[=:]\s*\S
    | \beyJ[a-z0-9_-]{8,}\.[a-z0-9_-]{8,}                      # JSON web token
    | \b(ghp_|gho_|ghs_|github_pat_|glpat-|hf_|xox[abp]-|sk-)[a-z0-9_-]{16,}
    | \bAKIA[0-9A-Z]{12,}                                     # an AWS access key id
    | -----BEGIN
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
    ``module_files`` that they are in (Environment Modules and Lmod list them alike).
    """

    variables: dict[str, str]
    redacted: tuple[str, ...]
    modules: tuple[str, ...]
    nccl_config: tuple[ConfigFile, ...]
    module_files: tuple[str, ...] = ()


def read_environment(environ: Mapping[str, str], *, root: Path = Path("/")) -> Environment:
    """What of the environment belongs into a record. ``root`` is where /etc is looked up."""
    given = environ.get(GIVEN, "").split(",")
    kept = {
        name: value
        for name, value in sorted(environ.items())
        if name != GIVEN and (is_recorded(name) or name in given)
    }
    modules, module_files = kept.pop("LOADEDMODULES", ""), kept.pop("_LMFILES_", "")
    variables = {name: redact(name, value) for name, value in kept.items()}
    return Environment(
        variables=variables,
        redacted=tuple(name for name, value in variables.items() if value == REDACTED),
        modules=tuple(module for module in modules.split(":") if module),
        nccl_config=read_nccl_config(environ, root=root),
        module_files=tuple(path for path in module_files.split(":") if path),
    )


def is_recorded(name: str) -> bool:
    """Whether the variable is on the allow-list."""
    return _RECORDED.fullmatch(name) is not None


def with_given(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables to give to ranks, and what tells the ranks which of them a record keeps all the same."""
    unlisted = [name for name in environ if not is_recorded(name)]
    return {**environ, GIVEN: ",".join(unlisted)} if unlisted else dict(environ)


def redact_words(words: Sequence[str]) -> tuple[str, ...]:
    """A command line with the secrets among its ``--env NAME=VALUE`` replaced."""
    return tuple(_redact_word(before, word) for before, word in zip(("", *words), words, strict=False))


def _redact_word(before: str, word: str) -> str:
    flag = "--env=" if word.startswith("--env=") else ""
    name, sign, value = word.removeprefix(flag).partition("=")
    if not sign or not (flag or before == "--env"):
        return word
    return f"{flag}{name}={redact(name, value)}"


def redact(name: str, value: str) -> str:
    """The value, or REDACTED where the name or the value itself says that it is a secret."""
    upper = name.upper()
    words = set(re.split(r"[^A-Z0-9]+", upper))
    secret = words & _SECRET_WORDS or any(part in upper for part in _SECRET_PARTS)
    if value and (secret or _SECRET_VALUE.search(value)):
        return REDACTED
    return value


def read_nccl_config(environ: Mapping[str, str], *, root: Path = Path("/")) -> tuple[ConfigFile, ...]:
    """The files that NCCL takes settings from, in the order in which they win (NCCL's misc/param.cc).

    NCCL_CONF_FILE (NCCL 2.23 on) replaces ~/.nccl.conf; /etc/nccl.conf is always read; variables that are set
    win over all files.
    """
    own = environ.get("NCCL_CONF_FILE", "")
    home = environ.get("HOME", "")
    paths = [Path(own)] if own else [Path(home) / ".nccl.conf"] if home else []
    paths.append(root / "etc" / "nccl.conf")
    return tuple(
        ConfigFile(str(path), _parse_nccl_config(read_text(path))) for path in paths if path.is_file()
    )


def _parse_nccl_config(text: str) -> tuple[tuple[str, str], ...]:
    """``#`` is a comment in the first column only, and nothing is trimmed or unquoted, as NCCL does."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return tuple((name, redact(name, value)) for name, sign, value in pairs if sign)
