"""What variables say of the network that is meant: sockets, or a fabric. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from busbw.preflight.environment import CONFIG, setting

# libfabric's providers that copy through the kernel's sockets, or that reach no other host.
SLOW_PROVIDERS: Final = ("tcp", "sockets", "udp", "net", "shm")
# Settings of networks that are faster than sockets. Some images and modules set them everywhere.
_OF_VERBS: Final = re.compile(r"NCCL_IB_\w+")
_OF_LIBFABRIC: Final = re.compile(r"(OFI_NCCL|FI_EFA|FI_CXI|FI_OPX|FI_PSM[23]|FI_VERBS)_\w+")


def cores(providers: str) -> set[str]:
    """``tcp;ofi_rxm`` is the utility provider ofi_rxm over tcp; lists have commas."""
    return set(filter(None, re.split(r"[;,\s]+", providers.lower())))


def names_a_fabric(providers: str) -> bool:
    """Whether all of FI_PROVIDER's are of one: no sockets among them, and none only left out."""
    named = cores(providers)
    return bool(named) and not providers.startswith("^") and named.isdisjoint(SLOW_PROVIDERS)


def setting_of_a_fabric(environ: Mapping[str, str]) -> str:
    """The first, with its value; empty where there is none. NCCL's own verbs may be turned off
    (NCCL_IB_DISABLE=1, net_ib.cc): then their settings say nothing.
    """
    names = [name.removeprefix(CONFIG) for name in environ]
    patterns = (_OF_LIBFABRIC,) if _has_no_verbs(environ) else (_OF_LIBFABRIC, _OF_VERBS)
    found = (name for name in names if any(pattern.fullmatch(name) for pattern in patterns))
    return next((f"{name}={setting(environ, name)}" for name in found), "")


def means_sockets(environ: Mapping[str, str]) -> bool:
    """Whether NCCL is told to use them: by name, or as its own verbs are turned off and nothing asks for a
    plugin, which that does not concern.
    """
    net = setting(environ, "NCCL_NET").lower()
    if net:
        return net == "socket"
    plugin = setting(environ, "NCCL_NET_PLUGIN").lower()
    return (
        _has_no_verbs(environ)
        and plugin in ("", "none")
        and not names_a_fabric(setting(environ, "FI_PROVIDER"))
        and not setting_of_a_fabric(environ)
    )


def _has_no_verbs(environ: Mapping[str, str]) -> bool:
    return setting(environ, "NCCL_IB_DISABLE") == "1"
