"""Settings to what the ranks check first."""

from __future__ import annotations

from typing import Final

from busbw.errors import UsageError
from busbw.model.plan import Preflight
from busbw.plan.flags.ranks import Asked
from busbw.plan.flags.run import RunSettings

# What can be expected of NCCL, and of a node: word -> its values; empty where any name or number will do.
FEATURES: Final = {
    "net": (),
    "provider": (),
    "gdr": ("0", "1"),
    "collnet": ("0", "1"),
    "nvls": ("0", "1"),
    "mnnvl": ("0", "1"),
    "gdrcopy": ("0", "1"),
    "tuner": (),
    "gpus": ("0", "1"),
    "nics": (),
}
# Of a node, whatever is measured there.
_COUNTS: Final = ("nics",)
# Networks that NCCL is known to name so: its own, and those of plugins (aws-ofi-nccl, HPC-X, UCX, Google's).
NETWORKS: Final = ("ib", "socket", "ofi", "libfabric", "aws libfabric", "ucx", "fastsocket", "gib", "spcx")


def make_preflight(settings: RunSettings) -> Preflight:
    """What is checked. Raises UsageError for an expectation that means nothing."""
    if settings.stop_after and not settings.preflight:
        raise UsageError(
            "preflight with --no-preflight does nothing", hint="leave it out, or use `busbw run`"
        )
    asked = settings.asked or Asked()
    expects = _expects(settings.expect_use)
    if settings.backend == "mpi":
        # Who chooses MPI expects nothing of NCCL and GPUs; a preset may have said it. What nodes must have
        # holds whatever is measured there, but no fabric's ports where sockets are meant.
        words = () if "net=socket" in expects else expects
        expects = tuple(word for word in words if word.partition("=")[0] in _COUNTS)
    return Preflight(
        level=(settings.stop_after or "run") if settings.preflight else "off",
        strict=settings.strict,
        ranks=asked.ranks,
        nodes=asked.nodes,
        expects=expects,
        folder=settings.deliver if asked.shared else "",
    )


def _expects(words: tuple[str, ...]) -> tuple[str, ...]:
    """One for each feature, the last of them: flags stand behind a preset's."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in FEATURES or not equals or not value:
            known = ", ".join(FEATURES)
            raise UsageError(f"--expect-use {word!r} is not FEATURE=VALUE", hint=f"use one of: {known}")
        if FEATURES[name] and value not in FEATURES[name]:
            raise UsageError(f"--expect-use {word}: {value!r} is neither 0 nor 1", hint=f"give {name}=1")
        if name in _COUNTS and not value.isdecimal():
            raise UsageError(
                f"--expect-use {word}: {value!r} is not a number", hint=f"give {name}=8, or 0 for any number"
            )
        found[name] = value.lower() if name in ("net", "provider") else value
    return tuple(f"{name}={value}" for name, value in found.items())
