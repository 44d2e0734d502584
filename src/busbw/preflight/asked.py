"""Asked against used: what variables and presets ask of NCCL, and what its log says. Pure.

NCCL goes on without a plugin, NIC or feature that it cannot have, and says so in its log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from busbw.model.finding import Finding, Severity, strictly, worst_first
from busbw.preflight import asked_network
from busbw.preflight.nccl_log import OF_A_NIC, NcclUse
from busbw.preflight.used import Used, about, said


@dataclass(frozen=True)
class Feature:
    """``word`` is that of --expect-use. ``asks`` are variables, and whether a value of theirs switches it on;
    ``used`` says whether it is in use, None where the log does not tell; ``in_part`` whether that is so of a
    part only, and should not be. ``beyond_host``: it means nothing on one host.
    """

    word: str
    name: str
    asks: tuple[tuple[str, Callable[[str], bool]], ...]
    used: Callable[[NcclUse], bool | None]
    reason: Callable[[NcclUse], str] = lambda use: ""
    in_part: Callable[[NcclUse], bool] = lambda use: False
    beyond_host: bool = False
    hint: str = "look at NCCL_DEBUG=INFO for the reason, or do not ask for it"


def _is_one(value: str) -> bool:
    return value == "1"


def _said(use: NcclUse, value: bool | None) -> bool | None:
    """A feature of which NCCL writes only where it has it: silence says no, if INIT is logged at all."""
    if value is None and use.tells("INIT"):
        return False
    return value


_GDRDMA: Final = "/GDRDMA"


def _gdr(use: NcclUse) -> bool | None:
    if not any(kind.startswith("NET/") for kind in use.between):
        return None
    return any(kind.endswith(_GDRDMA) for kind in use.between)


def _gdr_in_part(use: NcclUse) -> bool:
    """Sending may do without it on purpose (NCCL_NET_GDR_READ): only where a NIC is said to lack it."""
    without = any(kind.startswith("NET/") and not kind.endswith(_GDRDMA) for kind in use.between)
    return without and bool(_gdr(use)) and use.gdr_reason.startswith(OF_A_NIC)


FEATURES: Final = (
    Feature(
        "gdr",
        "GPUDirect RDMA",
        (
            ("NCCL_NET_GDR_LEVEL", lambda value: value.upper() not in ("", "0", "LOC")),
            ("NCCL_NET_GDR_READ", _is_one),
            ("NCCL_NET_GDR_C2C", _is_one),
        ),
        _gdr,
        lambda use: use.gdr_reason,
        _gdr_in_part,
        beyond_host=True,
        hint="load nvidia_peermem, or look how far GPU and NIC are apart (nvidia-smi topo -m)",
    ),
    Feature(
        "collnet",
        "CollNet (SHARP)",
        (("NCCL_COLLNET_ENABLE", _is_one),),
        lambda use: _said(use, use.collnet),
        lambda use: use.collnet_reason,
        beyond_host=True,
        hint="give NCCL the SHARP plugin, and look whether sharpd and the fabric's aggregation run",
    ),
    Feature(
        "nvls",
        "NVLink SHARP (NVLS)",
        (("NCCL_NVLS_ENABLE", _is_one),),
        lambda use: use.nvls,
        hint="look at the fabric manager, and whether the job may create multicast objects (cgroups, imex)",
    ),
    Feature(
        "mnnvl",
        "multi-node NVLink (MNNVL)",
        (("NCCL_MNNVL_ENABLE", _is_one),),
        lambda use: _said(use, use.mnnvl),
        beyond_host=True,
        hint="look at nvidia-imex on all hosts of the rack, and at the job's IMEX channel",
    ),
    Feature(
        "gdrcopy",
        "GDRCopy",
        (("NCCL_GDRCOPY_ENABLE", _is_one),),
        lambda use: _said(use, use.gdrcopy),
        hint="load gdrdrv, and give the job /dev/gdrdrv and libgdrapi.so",
    ),
)


def _with_heads(uses: tuple[NcclUse, ...]) -> tuple[NcclUse, ...]:
    """CollNet's paths are those of one rank a host and NIC, which alone log them: the others use it through
    these. What a rank says itself holds.
    """
    if not any(use.collnet for use in uses):
        return uses
    return tuple(replace(use, collnet=True) if use.collnet is None else use for use in uses)


def features(used: Used) -> Iterator[Finding]:
    """Every feature that was asked for is in use, and none that was to be off."""
    for feature in FEATURES:
        wanted = used.gathered.wants(feature.word)
        if wanted == "0":
            there = used.ranks(partial(_in_use, feature))
            if there:
                yield about(
                    used, Severity.ERROR, f"{feature.word}=0 is expected, and {feature.name} is in use", there
                )
        elif not (feature.beyond_host and used.is_one_host):
            yield from _unused(used, feature, expected=wanted == "1")


def _in_use(feature: Feature, rank: int, use: NcclUse) -> bool:  # noqa: ARG001 (as Used.ranks calls it)
    return feature.used(use) is True


def _unused(used: Used, feature: Feature, *, expected: bool) -> Iterator[Finding]:
    lacking = used.ranks(
        lambda at, use: feature.used(use) is False and bool(expected or _asking(used, feature, at))
    )
    if lacking:
        yield about(
            used,
            Severity.ERROR if expected else Severity.WARNING,
            f"{_asking(used, feature, lacking[0]) or f'{feature.word}=1'} is asked for, and NCCL does not use"
            f" {feature.name}",
            lacking,
            evidence=said(used, lacking, lambda _, use: (feature.reason(use),)),
            hint=feature.hint,
        )
    partly = used.ranks(lambda at, use: feature.in_part(use) and bool(expected or _asking(used, feature, at)))
    if partly:
        yield about(
            used,
            Severity.WARNING,
            f"{_asking(used, feature, partly[0]) or f'{feature.word}=1'} is asked for, and NCCL uses"
            f" {feature.name} on a part of the paths only,",
            partly,
            evidence=said(used, partly, lambda _, use: (feature.reason(use),)),
            hint=feature.hint,
        )


def _asking(used: Used, feature: Feature, rank: int) -> str:
    """The variable that asks, with its value; empty where none does."""
    settings = ((name, used.of(name, rank), asks) for name, asks in feature.asks)
    return next((f"{name}={value}" for name, value, asks in settings if asks(value)), "")


def tuner(used: Used) -> Iterator[Finding]:
    """A tuner that was asked for is in use."""
    # Of tuner=NAME, NAME is a part of what NCCL calls it; 1 is any tuner and 0 none.
    wanted = used.gathered.wants("tuner")
    if wanted == "0":
        there = used.ranks(lambda at, use: bool(use.tuner))
        if there:
            name = used.uses[there[0]].tuner
            yield about(used, Severity.ERROR, f"tuner=0 is expected, and {name} is in use", there)
        return
    wrong = used.ranks(partial(_is_other_tuner, used, wanted))
    if wrong:
        plugin, use = _asked_tuner(used, wrong[0]), used.uses[wrong[0]]
        asked = f"NCCL_TUNER_PLUGIN={plugin}" if plugin else f"tuner={wanted}"
        yield about(
            used,
            Severity.ERROR if wanted else Severity.WARNING,
            f"{asked} is asked for, and NCCL uses {use.tuner or 'no tuner'}",
            wrong,
            evidence=said(used, wrong, lambda _, use: (use.no_tuner,)),
            hint="look at NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING for the reason",
        )


def _is_other_tuner(used: Used, wanted: str, rank: int, use: NcclUse) -> bool:
    if _has_no_tuner(use):
        return bool(wanted or _asked_tuner(used, rank))
    if not use.tuner:
        return False
    if wanted and wanted != "1":
        return wanted.lower() not in use.tuner.lower()
    # NCCL takes the tuner of the net plugin where it does not find the one that was named.
    return bool(use.no_tuner and _asked_tuner(used, rank))


def _has_no_tuner(use: NcclUse) -> bool:
    # Its line is of INIT, or of ENV before 2.22, and of TUNING.
    return not use.tuner and (use.tells("TUNING") or (use.tells("INIT") and use.tells("ENV")))


def _asked_tuner(used: Used, rank: int) -> str:
    value = used.of("NCCL_TUNER_PLUGIN", rank)
    return "" if value.lower() == "none" else value


def unheard(used: Used) -> Iterator[Finding]:
    """NCCL's log was read on all ranks."""
    deaf = [at for at, use in enumerate(used.uses) if not use.heard]
    if deaf:
        yield about(
            used,
            Severity.INFO,
            "what NCCL uses was not observed: it wrote no log that could be read",
            deaf,
            hint="leave NCCL_DEBUG and NCCL_DEBUG_FILE unset, or set both",
        )
    silent = used.ranks(lambda at, use: not use.tells("INIT"))
    if silent:
        parts = used.of("NCCL_DEBUG_SUBSYS", silent[0])
        yield about(
            used,
            Severity.INFO,
            "not all that NCCL uses was observed: its log has no lines of INIT",
            silent,
            evidence=f"NCCL_DEBUG_SUBSYS={parts}" if parts else "",
            hint="leave NCCL_DEBUG_SUBSYS unset, or add INIT,ENV,NET to it",
        )


_HEARD_HINT: Final = "leave NCCL_DEBUG, NCCL_DEBUG_FILE and NCCL_DEBUG_SUBSYS unset, or do not expect it"


def expected(used: Used) -> Iterator[Finding]:
    """Of all that is expected NCCL's log says whether it is so."""
    words: dict[tuple[int, ...], list[str]] = {}
    for word, is_told in _TOLD.items():
        value = used.gathered.wants(word)
        silent = tuple(at for at, use in enumerate(used.uses) if value and not is_told(used, use))
        if silent:
            words.setdefault(silent, []).append(f"{word}={value}")
    for ranks, names in words.items():
        claim = (
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} expected, and NCCL's log does not tell"
        )
        yield about(used, Severity.WARNING, claim, ranks, hint=_HEARD_HINT)


def _tells_feature(feature: Feature, used: Used, use: NcclUse) -> bool:
    if feature.beyond_host and used.is_one_host:
        return True
    is_known = feature.used(use) is not None or (feature.word == "gdr" and _needs_no_network(used, use))
    return use.heard and is_known


def _needs_no_network(used: Used, use: NcclUse) -> bool:
    """A rank whose connections stay inside its host, beside others that leave it, or that go over NVLink."""
    leaves = any(other.between for other in used.uses)
    return bool(use.between) or (bool(use.inside) and leaves)


_TOLD: Final[Mapping[str, Callable[[Used, NcclUse], bool]]] = {
    "net": lambda used, use: bool(use.network),
    "provider": lambda used, use: bool(use.provider or asked_network.is_without_libfabric(use)),
    "tuner": lambda used, use: use.heard and (bool(use.tuner) or _has_no_tuner(use)),
    **{feature.word: partial(_tells_feature, feature) for feature in FEATURES},
}


def warnings(used: Used) -> Iterator[Finding]:
    """NCCL warns of nothing."""
    ranks = used.ranks(lambda at, use: bool(use.warnings))
    if ranks:
        evidence = said(used, ranks, lambda _, use: use.warnings)
        yield about(used, Severity.INFO, "NCCL warns", ranks, evidence=evidence)


CHECKS: Final[Mapping[str, Callable[[Used], Iterator[Finding]]]] = {
    "network-used": asked_network.network,
    "provider-used": asked_network.provider,
    "sockets": asked_network.sockets,
    "one-network": asked_network.one_network,
    "inside-hosts": asked_network.inside_hosts,
    "features-used": features,
    "tuner-used": tuner,
    "unheard": unheard,
    "expected": expected,
    "nccl-warnings": warnings,
}


def judge_use(used: Used) -> tuple[Finding, ...]:
    """All findings, the worst first."""
    used = replace(used, uses=_with_heads(used.uses))
    found = [replace(each, check=name) for name, find in CHECKS.items() for each in find(used)]
    return worst_first(strictly(found) if used.gathered.asked.strict else found)
