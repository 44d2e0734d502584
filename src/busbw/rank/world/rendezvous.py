"""Where ranks of a world without MPI meet: root address, ports, the key that keeps other jobs out. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from busbw.errors import LauncherMismatch
from busbw.rank.world.slurm_text import first_host

# Above the registered service ports, below Linux's default range for outgoing connections (32768 and up).
_FIRST_PORT, _LAST_PORT = 20000, 29999


def root_address(environ: Mapping[str, str], *, everybody_here: bool) -> tuple[str, int | None]:
    """Rank 0's host and, if one was given, the port; an empty host where nothing names one.

    BUSBW_ROOT (``host``, ``host:port`` or ``[v6]:port``), else MASTER_ADDR, else the first host of the Slurm
    step or job, else loopback when all ranks are on this host. MASTER_PORT is never used: torchrun's agent
    listens there.
    """
    if root := environ.get("BUSBW_ROOT"):
        return _split_root(root)
    if master := environ.get("MASTER_ADDR"):
        return master, None
    if everybody_here:
        return "127.0.0.1", None
    nodes = (
        environ.get("SLURM_STEP_NODELIST")
        or environ.get("SLURM_JOB_NODELIST")
        or environ.get("SLURM_NODELIST")
    )
    return first_host(nodes or ""), None


def _split_root(text: str) -> tuple[str, int | None]:
    match = re.fullmatch(
        r"\[([^\]]+)\](?::(\d+))?|([^:]+)(?::(\d+))?|([0-9a-fA-F]*(?::[0-9a-fA-F]*){2,})", text.strip()
    )
    port = int(match[2] or match[4] or 0) if match else 65536
    if match is None or port > 65535:
        raise LauncherMismatch(
            f"BUSBW_ROOT={text!r} is not an address", hint="write host:port, or [address]:port for IPv6"
        )
    return match[1] or match[3] or match[5], port or None


def job_token(environ: Mapping[str, str], launcher: str, size: int | None) -> str:
    """What only the ranks of one job know: BUSBW_TOKEN, else the launcher's name for the job.

    The second form keeps jobs that meet on one host apart. It is not a secret: whoever can list the job can
    guess it.
    """
    if token := environ.get("BUSBW_TOKEN"):
        return token
    parts = [launcher, str(size)]
    parts += [environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "BUSBW_ROOT", "SLURM_JOB_ID")]
    if launcher == "torchrun":
        parts += [environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")]
    if launcher == "slurm":
        parts.append(environ.get("SLURM_STEP_ID", environ.get("SLURM_STEPID", "")))
    return "\x1f".join(parts)


def candidate_ports(token: str, port: int | None) -> tuple[int, ...]:
    """The given port alone, or eight that all ranks of the job derive; rank 0 takes the first free one."""
    if port is not None:
        return (port,)
    digest = hashlib.sha256(b"busbw ports\0" + token.encode()).digest()
    span = _LAST_PORT - _FIRST_PORT + 1
    drawn = (int.from_bytes(digest[index : index + 4], "big") % span for index in range(0, 32, 4))
    return tuple(dict.fromkeys(_FIRST_PORT + offset for offset in drawn))


def server_secret(token: str) -> bytes:
    """32 bytes that serve as rank 0's CURVE secret key (Curve25519 clamps any 32 bytes to a valid scalar)."""
    return hashlib.sha256(b"busbw control channel\0" + token.encode()).digest()
