"""What readers rely on in the JSON of a run folder, beyond the types of a record's fields: one table.

The machine, the environment, the settings, the evidence of a result, the verdict of a hunt and its rounds are
open: they grow with every version, and other keys there are as they are. A field is listed here once somebody
reads it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, TypeAdapter, create_model

from busbw.errors import UsageError
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, Stage
from busbw.model.network import FACT
from busbw.model.record import RunRecord
from busbw.model.soak import LevelChange, SlowCall, Window, WrongElement
from busbw.record.checked import validated
from busbw.record.json_text import DAMAGED_HINT

_Share = Annotated[float, Field(ge=0, le=1e6)]  # any that is printed as a percentage
_Times = Annotated[tuple[PositiveFloat, ...], Field(min_length=1)]
_Ways = tuple[_Times, tuple[PositiveFloat, ...]]  # a ring is timed one way, and has no times of the way back
_RINGS: Final = (Stage.RAILS, Stage.NODES)
# What the tables of a stage show, beside bandwidth.
_BESIDE: Final[Mapping[Stage, set[str]]] = {Stage.MATRIX: {BOTH_WAYS, LATENCY}, Stage.HALVES: {BOTH_WAYS}}
_USED: Final = {key: [str] for key in ("network", "provider", "network_plugin", "devices")}
_NAMED: Final = {"name!": str, "loss!": float, "low": float, "high": float}
_NIC: Final = {
    "kind": str, "name": str, "speed": str, "ports": [{"port": int, "state": str, "rate_gbit_per_s?": float}],
}  # fmt: skip

# An object by its keys: with ! it must be there, with ? it may be null. A list by what is in it.
_RECORD: Final = {
    "machine": {
        "gpus": {
            "driver_version": str,
            "gpus": [{"nvlinks": [{"active": bool}], "nvlink_gb_per_s?": float, "pcie_gb_per_s?": float}],
        },
        "nics": {"rdma": [_NIC], "cxi": [_NIC]},
        "host": {"kernel": str},
        "libraries": [dict[str, str]],
        "image": dict[str, Any],
    },
    "environment": {
        "variables": dict[str, str], "given": [str], "modules": [str], "module_files": [str],
        "nccl_config": [{"settings!": [tuple[str, str]]}],
    },
    "settings": {
        "rank_order?": {"by": str, "hosts": [{"host!": str, "switches": [str], "domain": str}]},
        "presets_used?": [str], "overridden?": [str], "tag?": [str], "import": {"op?": str},
    },
    "source?": {"evidence": {"setting": [str], "algorithm": [str]}},
    "world?": {"ranks": [{"facts": {FACT: _USED}}]},
    "plan": {
        "limits": {"precision": _Share, "small_precision": _Share},
        "cases": [dict.fromkeys(("requested_bytes", "size_bytes", "count", "cycle"), NonNegativeInt)],
    },
    "results": [
        {
            # A wide interval may reach down to a time of 0; the time itself and the upper end cannot.
            **dict.fromkeys(("time_ns?", "high_ns?"), PositiveFloat),
            **dict.fromkeys(("low_ns?", "mean_ns?", "algbw_gb_per_s?", "busbw_gb_per_s?"), NonNegativeFloat),
            **dict.fromkeys(("issue_ns?", "first_call_ns?", "tau?"), NonNegativeFloat),
            **dict.fromkeys(("samples", "calls_per_sample", "warmup_calls", "excluded"), NonNegativeInt),
            "wrong?": NonNegativeInt,
            "evidence": {
                "single_calls": int, "timing_overhead_ns?": float,
                "launch_times_ns": [float], "launch_blocks": [int],
            },
        },
    ],
    "hunt": {
        "fields": [
            {
                "kind!": str, "names!": [str], "suspects!": [{"names!": [str]}],
                "decision!": Literal["healthy", "slow", "undecided"], "reason": str,
                "rounds!": int, "seconds!": float, "noise!": dict[str, float],
                "exclude!": {"slurm": str, "kubernetes": dict[str, Any]},
                "ranking": [_NAMED], "groups": [_NAMED],
            },
        ],
    },
    "soak": {
        "seconds": float,
        **dict.fromkeys(("windows", "calls", "checks", "wrong_windows", "slow_calls", "level_changes"), int),
        "kept": [Window], "slow": [SlowCall], "changes": [LevelChange], "wrong": [WrongElement],
        "power": [
            {"case!": int, "loss!?": float, "seconds!?": float, "blind_s!": float, "probability!": float},
        ],
    },
}  # fmt: skip

_ROUND: Final = {  # a line of ``rounds.jsonl``
    "kind!": str,
    "names!": Annotated[tuple[str, ...], Field(min_length=1)],
    "round!": {"number!": NonNegativeInt, "stage!": Stage},
    "tests!": [{"one!": NonNegativeInt, "other!": NonNegativeInt, "times_ns!": dict[str, _Ways]}],
    "seconds!": NonNegativeFloat,
    "groups": [{"ranks!": [int], "times_ns!": _Times}],
}


def _type_of(shape: Any) -> Any:  # noqa: ANN401 (an annotation)
    if isinstance(shape, list):
        return tuple[_type_of(shape[0]), ...]  # type: ignore[misc]  # made here
    if not isinstance(shape, dict):
        return shape
    fields: dict[str, Any] = {}
    for key, own in shape.items():
        kind = _type_of(own)
        fields[key.rstrip("!?")] = (kind | None if "?" in key else kind, ... if "!" in key else None)
    return create_model("Open", **fields)


_RECORD_CHECKS: Final = TypeAdapter(_type_of(_RECORD))
_ROUND_CHECKS: Final = TypeAdapter(_type_of(_ROUND))


def check_record(text: str, where: str) -> None:
    """Raises UsageError where a record's JSON is not as its readers take it."""
    validated(_RECORD_CHECKS, text, where, DAMAGED_HINT)


def check_round(fields: Mapping[str, Any], where: str) -> None:
    """Raises UsageError for a round of a hunt with other values than it can have."""
    validated(_ROUND_CHECKS, json.dumps(fields), where, DAMAGED_HINT)
    parts, stage = len(fields["names"]), Stage(fields["round"]["stage"])
    needed = {BANDWIDTH} | _BESIDE.get(stage, set())
    for test in fields["tests"]:
        if test["one"] == test["other"] or max(test["one"], test["other"]) >= parts:
            raise UsageError(f"{where}: a test is not of two parts that have a name", hint=DAMAGED_HINT)
        if lacking := needed - test["times_ns"].keys():
            raise UsageError(f"{where}: a test has no {min(lacking)}", hint=DAMAGED_HINT)
        if stage not in _RINGS and not all(way for ways in test["times_ns"].values() for way in ways):
            raise UsageError(f"{where}: a test has no times", hint=DAMAGED_HINT)
    if len(fields.get("groups") or fields["names"]) != parts:
        raise UsageError(f"{where}: groups and names differ in number", hint=DAMAGED_HINT)


def check_sense(record: RunRecord, where: str) -> None:
    """Raises UsageError where values of a record, each possible by itself, cannot stand together."""
    if found := next(_contradictions(record), ""):
        raise UsageError(f"{where}: {found}", hint=DAMAGED_HINT)


def _contradictions(record: RunRecord) -> Iterator[str]:
    cases = record.plan.cases
    for place, case in enumerate(cases):
        if case.index != place:
            yield f"plan.cases[{place}].index is {case.index}"
    seen: set[int] = set()
    for place, result in enumerate(record.results):
        if not 0 <= result.case < len(cases):
            yield f"results[{place}].case is {result.case}, and the plan has {len(cases)} cases"
        if result.case in seen:
            yield f"results[{place}].case is {result.case} once more"
        seen.add(result.case)
    if (world := record.world) is not None:
        # How many ranks one communicator has: imported split ones are listed together, each with its group.
        groups = Counter(str(rank.facts.get("group")) for rank in world.ranks)
        if world.size < max(groups.values(), default=1):
            yield f"world.size is {world.size}, and world.ranks has {len(world.ranks)}"
