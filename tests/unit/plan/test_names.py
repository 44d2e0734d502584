from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.plan.flags.hunt import HuntSettings
from busbw.plan.flags.logs import ImportSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.request import rank_words

MANY = ("all_reduce", "all_gather", "alltoall", "sendrecv", "broadcast")


@pytest.mark.parametrize(
    ("settings", "operations", "label"),
    [
        (RunSettings(name="before"), MANY, "before"),
        (RunSettings(stop_after="only"), ("all_reduce",), "preflight"),
        (RunSettings(name="check", stop_after="only"), ("all_reduce",), "check"),
        (RunSettings(hunt=HuntSettings(kind="pairs")), ("pairs",), "pairs"),
        (RunSettings(), ("all_reduce", "all_reduce", "alltoall"), "all_reduce+alltoall"),
        (RunSettings(), MANY, "all_reduce+4-more"),
        (RunSettings(), (), "streams"),
    ],
)
def test_a_run_is_called_by_its_name_else_by_what_it_does(
    settings: RunSettings, operations: tuple[str, ...], label: str
) -> None:
    assert settings.label(operations) == label


@pytest.mark.parametrize("name", ["a b", "last", "-x", "a/b", "a=b", "a,b", "x" * 65])
def test_names_that_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--name cannot be"):
        RunSettings(name=name)
    with pytest.raises(UsageError, match="--tag cannot be"):
        ImportSettings(tag=("good", name))


def test_names_stay_with_the_front_and_are_kept() -> None:
    settings = RunSettings(name="before", tag=("nightly",))
    assert (settings.written()["name"], settings.written()["tag"]) == ("before", ["nightly"])
    assert "before" not in " ".join(rank_words(("all_reduce",), settings, "/runs/x"))
