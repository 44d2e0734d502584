"""Whether two launches are of one measurement, so that a later one adds to an earlier one. Pure."""

from __future__ import annotations

from typing import Any, Final

from busbw.analysis.compare_arms import device, nodes, ranks, version
from busbw.model.record import RunRecord

# Settings that change nothing of what is measured: how it is shown and delivered, what a launch is called.
# Ranks are counted in the world; the seed is that of the pattern.
_FREE: Final = frozenset(
    {
        *("seed", "format", "deliver", "dry_run", "launches", "ranks", "presets_used", "overridden"),
        *("expect", "expect_use", "asked", "preflight", "strict", "save_wrong", "report_cputime"),
        *("report_timestamps", "stats", "world", "backend"),
        "command",  # of a job: the settings again, with the launch's folder
    }
)
# Which allocation a launch was in, and how long that waited or lasted.
_FREE_OF_LAUNCH: Final = frozenset({"job_id", "wait", "time_limit"})


def differences(before: RunRecord, after: RunRecord) -> list[str]:
    """What is not the same, as ``ranks: 2 and 4``: operations, ranks, nodes, library, device, and every flag
    that changes the measurement.
    """
    facts = (
        ("busbw", before.busbw_version, after.busbw_version),
        ("operations", _operations(before), _operations(after)),
        ("ranks", ranks(before), ranks(after)),
        ("nodes", nodes(before), nodes(after)),
        ("version", version(before), version(after)),
        ("device", device(before), device(after)),
        ("backend", before.plan.backend, after.plan.backend),
    )
    found = [f"{name}: {one} and {other}" for name, one, other in facts if one != other]
    names = [name for name in (before.settings | after.settings) if name not in _FREE]
    for name in names:
        one, other = (_setting(record, name) for record in (before, after))
        if one != other:
            found.append(f"--{name.replace('_', '-')}: {_said(one)} and {_said(other)}")
    return found


def _setting(record: RunRecord, name: str) -> Any:  # noqa: ANN401 (a setting)
    found = record.settings.get(name)
    if name != "launch" or not isinstance(found, dict):
        return found
    return {key: value for key, value in found.items() if key not in _FREE_OF_LAUNCH}


def _operations(record: RunRecord) -> str:
    return ", ".join(dict.fromkeys(case.collective for case in record.plan.cases))


def _said(value: Any) -> str:  # noqa: ANN401 (a setting)
    return "not given" if value is None or value == "" else str(value)
