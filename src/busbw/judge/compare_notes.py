"""What is said beside the verdicts of two arms: how their times are not of one thing, on purpose or not."""

from __future__ import annotations

from typing import Final

from busbw.judge.compare_arms import BUFFER_FLAGS, DEFINING_FLAGS, Arm, CaseKey, without_flags
from busbw.judge.measured_with import otherwise
from busbw.judge.rotation import Nearer, nearer, said_of_arms
from busbw.plan.flags.flag import flag_of
from busbw.plan.setups import on_or_off
from busbw.units import first_of

# Variables of a run that a note names.
_MOST_TOLD: Final = 6


def differences(baseline: Arm, arm: Arm) -> list[str]:
    """Why a time of one is not the same thing as a time of the other. What setups of one series vary on
    purpose is what is compared, and no such reason.
    """
    found = []
    varied = _varied(baseline, arm)
    ours, theirs = baseline.definition, arm.definition
    if any(name in varied for name in DEFINING_FLAGS):
        ours, theirs = without_flags(ours), without_flags(theirs)
    if ours != theirs:
        found.append(
            f"{arm.name}: times are {arm.definition}, those of {baseline.name} {baseline.definition}"
        )
    if baseline.nodes and arm.nodes and baseline.nodes != arm.nodes:
        found.append(f"{arm.name}: {arm.nodes} nodes, {baseline.name} {baseline.nodes}")
    if baseline.where != arm.where and baseline.cases and arm.cases:
        told = (one.where or "without groups" for one in (arm, baseline))
        found.append(f"{arm.name}: groups are {next(told)}, those of {baseline.name} {next(told)}")
    found += [f"{arm.name}: {one.name} is of {text}" for one in (baseline, arm) for text in one.mixed]
    known = {baseline.buffers, arm.buffers} - {"not stated"}
    if len(known) > 1 and not any(name in varied for name in BUFFER_FLAGS):
        found.append(f"{arm.name}: buffers are {arm.buffers}, those of {baseline.name} {baseline.buffers}")
    return found


def _varied(baseline: Arm, arm: Arm) -> dict[str, tuple[object, object]]:
    """Flags that differ between two setups of one series, by name: the other's value and the baseline's."""
    if not baseline.series or baseline.series != arm.series:
        return {}
    return {
        name: (value, baseline.flags[name])
        for name, value in arm.flags.items()
        if name in baseline.flags and baseline.flags[name] != value
    }


def varied_words(baseline: Arm, arm: Arm) -> str:
    """Beside a verdict: what of the calls is not the same; empty where all is."""
    words = [
        f"{flag_of(name)} {on_or_off(value)} against {on_or_off(before)}"
        for name, (value, before) in _varied(baseline, arm).items()
    ]
    return ", ".join(words)


def notes_of(baseline: Arm, arm: Arm) -> list[str]:
    """What readers should know of a candidate that is no reason against a verdict."""
    ours, theirs = ({key.plain for key in one.cases} for one in (baseline, arm))
    found = []
    if ours != theirs:
        found.append(
            f"{arm.name}: other sweep: {len(ours & theirs)} cases in both, {len(ours - theirs)} only in"
            f" {baseline.name}, {len(theirs - ours)} only in {arm.name}"
        )
    for name in ("device", "backend"):
        before, after = baseline.facts.get(name, ""), arm.facts.get(name, "")
        if before and after and before != after:
            found.append(f"{arm.name}: {name} {after}, {baseline.name} has {before}")
    is_series = baseline.series and baseline.series == arm.series  # which says itself what it varies
    if not is_series and (other := list(otherwise(arm.measured_with, baseline.measured_with))):
        found.append(f"{arm.name}: measured with {first_of(other, _MOST_TOLD)}")
    if words := varied_words(baseline, arm):
        found.append(f"{arm.name}: the same operation with {words}; that is what its verdicts are about")
        if "cudagraph" in _varied(baseline, arm):
            found.append(f"{arm.name}: a graph is replayed by the device, other calls are issued by the host")
    common = ours & theirs
    if any(cached(baseline, arm, key) is not Nearer.NEITHER for key in common):
        found.append(said_of_arms(arm.name, arm.rotated_bytes, baseline.name, baseline.rotated_bytes))
    return [*found, *failures_of(arm), *left_out(arm)]


def failures_of(arm: Arm) -> list[str]:
    """Operations, or a launch, of which an arm has nothing, and why."""
    return [f"{arm.name}: {operation} failed: {each.why}" for operation, each in arm.failures.items()]


def left_out(arm: Arm) -> list[str]:
    """What an arm does not have of what its logs had, and which of its launches are not alike."""
    found = (*arm.lacking, *arm.merged)
    return [why if why.startswith(arm.name) else f"{arm.name}: {why}" for why in found]  # of a log: its name


def cached(baseline: Arm, arm: Arm, key: CaseKey) -> Nearer:
    """Buffers that differ in more than their size have a note of their own, or are what setups vary."""
    if baseline.buffers != arm.buffers or any(name in BUFFER_FLAGS for name in _varied(baseline, arm)):
        return Nearer.NEITHER
    return nearer(baseline.rotated_bytes, arm.rotated_bytes, key.size_bytes)
