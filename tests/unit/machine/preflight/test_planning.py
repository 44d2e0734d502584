from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.runs import start

from busbw.errors import UsageError
from busbw.model.plan import Plan, Preflight
from busbw.plan.flags.ranks import Asked
from busbw.plan.flags.run import RunSettings
from busbw.plan.make import make_plan, make_preflight
from busbw.plan.presets.preset import names, read_preset
from busbw.plan.request import rank_words, read_request


def test_a_run_checks_unless_told_not_to() -> None:
    assert make_preflight(RunSettings()) == Preflight("run")
    assert make_preflight(RunSettings(preflight=False)).level == "off"
    assert make_preflight(RunSettings(stop_after="deep", strict=True)) == Preflight("deep", strict=True)
    with pytest.raises(UsageError, match="preflight with --no-preflight does nothing"):
        make_preflight(RunSettings(stop_after="only", preflight=False))


@pytest.mark.parametrize("asked", [Asked(8, 2, shared=True), Asked(nodes=2), Asked()])
def test_what_a_front_asked_for_reaches_the_ranks(asked: Asked) -> None:
    got = make_preflight(RunSettings(asked=asked, deliver="/runs/1"))
    assert (got.ranks, got.nodes) == (asked.ranks, asked.nodes)
    assert got.folder == ("/runs/1" if asked.shared else "")


def test_the_last_expectation_of_a_feature_counts() -> None:
    """A preset's stand before the user's own."""
    got = make_preflight(RunSettings(expect_use=("net=OFI", "nvls=1", "net=socket")))
    assert got.expects == ("net=socket", "nvls=1")


def test_who_chooses_mpi_still_expects_ports_of_the_nodes() -> None:
    words = ("net=ofi", "gpus=1", "nics=32")
    assert make_preflight(RunSettings(expect_use=words, backend="mpi")).expects == ("nics=32",)
    assert make_preflight(RunSettings(expect_use=words)).expects == words
    sockets = ("net=socket", "nics=4")
    assert make_preflight(RunSettings(expect_use=sockets, backend="mpi")).expects == ()


@pytest.mark.parametrize("word", ["net", "net=", "speed=1", "nvls=yes", "collnet=2"])
def test_an_expectation_that_means_nothing(word: str) -> None:
    with pytest.raises(UsageError, match="--expect-use"):
        make_preflight(RunSettings(expect_use=(word,)))


def test_it_travels_with_the_plan() -> None:
    settings = RunSettings(strict=True, expect_use=("net=ib",), asked=Asked(2, 1, shared=True), deliver="/r")
    plan = make_plan(("all_reduce",), settings, "null", 2)
    assert plan.preflight == Preflight("run", True, 2, 1, ("net=ib",), "/r")
    assert Plan.from_json(plan.to_json()) == plan
    assert replace(plan, preflight=Preflight()).preflight.level == "off"


def test_its_settings_travel_to_a_job() -> None:
    settings = RunSettings(preflight=False, strict=True, expect_use=("net=ib",), stop_after="only")
    _, got = read_request(rank_words(("all_reduce",), settings, "/runs/1"))
    assert got == replace(settings, deliver="/runs/1")


@pytest.mark.parametrize("name", names())
def test_what_every_preset_expects_can_be_checked(name: str) -> None:
    preset = read_preset(name)
    assert len(make_preflight(RunSettings(expect_use=preset.expects)).expects) == len(preset.expects)


def test_a_presets_expectations_reach_the_ranks(tmp_path: Path) -> None:
    """And stand before the user's own, so that those win."""
    place = ("--on", "kubernetes", "--preset", "coreweave/h100-sharp", "-N", "2", "--image", "x")
    done = start(tmp_path, "run", "all_reduce", *place, "--expect-use", "collnet=0", "--dry-run")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert text.index("net=ib") < text.index("collnet=0")
