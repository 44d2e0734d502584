from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.runs import start

from busbw.errors import UsageError
from busbw.model.plan import Plan, Preflight
from busbw.planning.make import make_plan
from busbw.planning.preflight import asked_words, make_preflight
from busbw.settings.preset import names, read_preset
from busbw.settings.run import RunSettings
from busbw.settings.words import to_words


def test_a_run_checks_unless_told_not_to() -> None:
    assert make_preflight(RunSettings()) == Preflight("run")
    assert make_preflight(RunSettings(preflight=False)).level == "off"
    assert make_preflight(RunSettings(stop_after="deep", strict=True)) == Preflight("deep", strict=True)
    with pytest.raises(UsageError, match="--no-preflight leaves nothing to do"):
        make_preflight(RunSettings(stop_after="only", preflight=False))


@pytest.mark.parametrize(
    ("ranks", "nodes", "shared", "words"),
    [(8, 2, True, "ranks=8,nodes=2,shared"), (None, 2, False, "nodes=2"), (None, None, False, "")],
)
def test_what_a_front_asked_for_reaches_the_ranks(
    ranks: int | None, nodes: int | None, shared: bool, words: str
) -> None:
    assert asked_words(ranks, nodes, shared=shared) == words
    got = make_preflight(RunSettings(asked=words, deliver="/runs/1"))
    assert (got.ranks, got.nodes) == (ranks or 0, nodes or 0)
    assert got.folder == ("/runs/1" if shared else "")


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
    settings = RunSettings(strict=True, expect_use=("net=ib",), asked="ranks=2,nodes=1,shared", deliver="/r")
    plan = make_plan(("all_reduce",), settings, "null", 2)
    assert plan.preflight == Preflight("run", True, 2, 1, ("net=ib",), "/r")
    assert Plan.from_json(plan.to_json()) == plan
    assert replace(plan, preflight=Preflight()).preflight.level == "off"


def test_its_settings_become_words_again() -> None:
    settings = RunSettings(preflight=False, strict=True, expect_use=("net=ib",), stop_after="only")
    assert to_words(settings) == (
        "--no-preflight",
        "--strict",
        "--expect-use=net=ib",
        "--stop-after=only",
    )


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
    assert text.index("--expect-use=net=ib") < text.index("--expect-use=collnet=0")
