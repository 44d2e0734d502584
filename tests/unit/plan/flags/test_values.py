"""Values of flags: each text is read once, and travels on as a value."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from busbw.cli.main import main
from busbw.errors import UsageError
from busbw.plan.flags import values
from busbw.plan.flags.compare import CompareSettings
from busbw.plan.flags.hunt import HuntRanks, HuntSettings
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.ranks import Asked
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import (
    DataTypes,
    Fraction,
    Growth,
    Ratios,
    Roots,
    Seconds,
    Size,
    Written,
    read_settings,
)
from busbw.plan.request import is_request, rank_words, read_request

# A text of its own for every flag of a run whose value is read from text.
TEXTS = {
    "minbytes": "1K",
    "maxbytes": "3K",
    "stepbytes": "1024",
    "datatype": "float,half",
    "op": "sum,max",
    "root": "0,1",
    "coalesce": "1,3",
    "precision": "3%",
    "warmup_time": "11ms",
    "case_time": "12ms",
    "budget": "13s",
    "stall": "15s",
}
KINDS = ("Size", "Seconds", "Fraction", "DataTypes", "ReduceOps", "Roots", "Ratios")


def typed(kind: type) -> dict[str, type[Written]]:
    """Flags whose text becomes a number or a list, which ranks of a job get instead."""
    return {
        name: own
        for name, hint in get_type_hints(kind).items()
        for own in (hint, *get_args(hint))
        if isinstance(own, type) and issubclass(own, Written) and not issubclass(own, str | HuntSettings)
    }


def count_readings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts every text that becomes a value."""
    readings: Counter[str] = Counter()
    for name in KINDS:
        kind = getattr(values, name)
        original = kind.__new__

        def read(cls: type, written: Any, flag: str = "", original: Any = original) -> Any:
            readings.update([written] if isinstance(written, str) else [])
            return original(cls, written, flag)

        monkeypatch.setattr(kind, "__new__", read)
    return readings


def test_every_flag_of_a_run_is_read_exactly_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line to the plan, the request and the record, here and for ranks of a job."""
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    assert TEXTS.keys() == typed(RunSettings).keys()
    flags = [f"--{name.replace('_', '-')}={text}" for name, text in TEXTS.items()]
    words = ["run", "all_reduce", *flags, "--backend", "null", "--ranks", "2", "--dry-run"]
    readings = count_readings(monkeypatch)
    for place in ([], ["--on", "pbs", "-N", "2", "--wait", "14s"]):
        readings.clear()
        assert main([*words, *place]) == 0, capsys.readouterr().err
        assert readings == Counter([*TEXTS.values(), *place[5:]])
    asked = read_settings(RunSettings, TEXTS)
    readings.clear()
    _, got = read_request(rank_words(("all_reduce",), asked, "/r"))
    assert got == replace(asked, deliver="/r")
    assert not readings


@pytest.mark.parametrize("kind", [HuntRanks, HuntSettings, CompareSettings, LaunchSettings])
def test_every_other_flag_is_read_where_it_is_written(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        name: f"{number}{'%' if issubclass(own, Fraction) else ''}"
        for number, (name, own) in enumerate(typed(kind).items(), 2)
    }
    assert texts
    readings = count_readings(monkeypatch)
    read_settings(kind, texts)
    assert readings == Counter(texts.values())


def test_ranks_get_values_and_records_texts() -> None:
    settings = RunSettings(
        minbytes=Size("1K"),
        datatype=DataTypes("float, bf16"),
        root=Roots("all"),
        coalesce=Ratios("[1,2]"),
        case_time=Seconds("2min"),
        stats=("p50",),
        hunt=HuntSettings(kind="isolate", loss=Fraction("7%"), slower=Growth("200%")),
        asked=Asked(8, 2, shared=True),
    )
    words = rank_words(("all_reduce", "sendrecv"), settings, "/runs/1")
    text = (
        '{"coalesce":[1,2],"minbytes":1024,"datatype":["float","bfloat16"],"root":[],"case_time":120.0,'
        '"stats":["p50"],"hunt":{"loss":0.07,"slower":2.0,"kind":"isolate"},'
        '"asked":{"ranks":8,"nodes":2,"shared":true}}'
    )
    assert words == ("run", "all_reduce", "sendrecv", f"--settings={text}", "--deliver=/runs/1")
    assert is_request(words)
    assert read_request(words) == (("all_reduce", "sendrecv"), replace(settings, deliver="/runs/1"))
    written = settings.written()
    assert {name: written[name] for name in ("minbytes", "datatype", "root", "coalesce", "case_time")} == {
        "minbytes": "1K",
        "datatype": "float, bf16",
        "root": "all",
        "coalesce": "[1,2]",
        "case_time": "2min",
    }
    assert written["asked"] == "ranks=8,nodes=2,shared"


def test_what_the_front_process_does_itself_stays_there() -> None:
    settings = RunSettings(ranks=2, format="csv", expect=("x",), presets_used=("aws/p5@1",), dry_run=True)
    assert rank_words(("barrier",), settings, "/r") == ("run", "barrier", "--deliver=/r")


@pytest.mark.parametrize("text", ["-1", "$(x)", "--iters", "q\"'", "line\nline"])
def test_any_text_reaches_the_ranks(text: str) -> None:
    settings = RunSettings(groups=text, stats=(text, "-x"), nccl=text)
    _, got = read_request(rank_words(("all_reduce",), settings, "/r"))
    assert (got.groups, got.stats, got.nccl) == (text, (text, "-x"), text)


def test_defaults_of_records_are_those_of_earlier_versions() -> None:
    """``compare`` holds settings of old records against those of new ones by these texts."""
    written = RunSettings().written()
    assert set(written) == {each.name for each in fields(RunSettings)}
    assert {name: written[name] for name in ("hunt", "asked", "coalesce", "deliver")} == dict.fromkeys(
        ("hunt", "asked", "coalesce", "deliver"), ""
    )
    assert (written["datatype"], written["op"], written["root"]) == ("float", "sum", "0")
    assert (written["case_time"], written["budget"], written["minbytes"]) == ("500ms", None, None)


def test_a_number_outside_of_its_range_is_refused_however_it_comes() -> None:
    for make in (lambda: RunSettings(iters=-1), lambda: read_settings(RunSettings, {"iters": -1})):
        with pytest.raises(UsageError, match="-n -1 is too small") as refused:
            make()
        assert refused.value.hint == "give 0 or more"
    with pytest.raises(UsageError, match="--ranks-per-node 0 is too small"):
        LaunchSettings(ranks_per_node=0)
