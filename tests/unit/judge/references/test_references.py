"""The references that come with busbw: every published file, ranks held against bandwidths, interpolation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from busbw.errors import UsageError
from busbw.judge.references import load
from busbw.judge.references.reference import Point, Reference, value_at
from busbw.model.collective import collective

P4DE = next(reference for reference in load.built_in() if reference.name == "aws-p4de-2x8")


def by_name(name: str) -> Reference:
    return next(reference for reference in load.built_in() if reference.name == name)


def test_every_source_is_there() -> None:
    kinds = {kind: [r for r in load.built_in() if r.kind == kind] for kind in ("log", "value", "own")}
    assert {kind: len(found) for kind, found in kinds.items()} == {"log": 18, "value": 21, "own": 12}
    names = [reference.name for reference in load.built_in()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("reference", load.built_in(), ids=lambda reference: reference.name)
def test_each_says_where_when_and_what(reference: Reference) -> None:
    assert reference.source
    assert reference.date
    assert reference.definition
    assert reference.points
    if not reference.left_out:
        assert reference.ranks > 1
        assert reference.device
        assert all(point.busbw_gb_per_s >= 0 and point.size_bytes > 0 for point in reference.points)


@pytest.mark.parametrize(
    "reference",
    [r for r in load.built_in() if r.operation == "all_reduce" and not r.left_out],
    ids=lambda reference: reference.name,
)
def test_bandwidths_are_those_of_the_times(reference: Reference) -> None:
    """Of small sizes too, where they are 0.0001 GB/s: 10 % decide."""
    factor = collective("all_reduce").busbw_factor(reference.ranks)
    for point in reference.points:
        if point.times_us:
            own = point.size_bytes / median(point.times_us) / 1e3 * factor
            assert point.busbw_gb_per_s == pytest.approx(own, rel=2e-3), point


def test_wrong_labels_lose() -> None:
    assert (
        by_name("coreweave-h100-sharp-12x8").ranks,
        by_name("coreweave-h100-sharp-12x8").ranks_stated,
    ) == (96, 64)
    two_racks = by_name("coreweave-gb200-2racks-32x4")
    assert (two_racks.ranks, two_racks.ranks_stated, two_racks.nodes) == (128, 144, 32)


def test_interpolation_is_straight_in_logarithms_and_stays_inside() -> None:
    points = (Point(1024, "in-place", 1.0), Point(2048, "in-place", 4.0), Point(8192, "in-place", 100.0))
    curve = replace(P4DE, points=points)
    middle = value_at(curve, 1448, "in-place")
    assert middle is not None
    assert middle.busbw_gb_per_s == pytest.approx(2.0, rel=1e-3)
    exact = value_at(curve, 2048, "in-place")
    assert exact is not None
    assert (exact.busbw_gb_per_s, exact.interpolated) == (4.0, False)
    for size in (512, 2**21, 4096):  # outside, and where points are too far apart
        assert value_at(curve, size, "in-place") is None
    assert value_at(curve, 1448, "out-of-place") is None


def test_saved_references_come_back(tmp_path: Path) -> None:
    own = replace(P4DE, name="mine", kind="saved")
    path = load.save((own,), "mine", tmp_path)
    assert load.read(path) == (own,)
    assert load.saved(tmp_path) == load.Saved((own,), ())
    assert load.find("mine", tmp_path) == (own,)
    assert load.find(str(path), tmp_path) == (own,)
    assert [reference.name for reference in load.find("aws-p5-2x8", tmp_path)] == ["aws-p5-2x8"]
    with pytest.raises(UsageError, match="no reference 'nobody'"):
        load.find("nobody", tmp_path)
    with pytest.raises(UsageError, match="is no name"):
        load.save((own,), "../x", tmp_path)
