"""Files of a run folder that were changed, cut, or filled up a disk: errors name the file and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from busbw.errors import UsageError
from busbw.model.record import RunRecord
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record import parquet
from busbw.record.folder import DIGESTS_FILE, ROUNDS_FILE, RUN_FILE, SAMPLES_FILE, home, replace_text
from busbw.record.json_text import json_mapping
from busbw.record.read import read_digests, read_record, read_rounds, read_samples
from busbw.record.results import write_record

TIMES = {metric: [[5.0], [6.0]] for metric in ("bandwidth", "both-ways", "latency")}
ROUND: dict[str, Any] = {
    "kind": "rank",
    "names": ["rank 0", "rank 1"],
    "round": {"number": 0, "stage": "matrix", "pairs": [[0, 1]], "groups": []},
    "tests": [{"one": 0, "other": 1, "times_ns": TIMES}],
    "seconds": 0.5,
    "groups": [],
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": [1, 1e999]}', "a[1] is inf, which is no number"),
        ('{"a": {"b": NaN}}', "a.b is nan, which is no number"),
        ('{"a": -Infinity}', "a is -inf, which is no number"),
        (f'{{"a": {2**70}}}', "a is beyond 64 bits"),
        (f'{{"a": {"9" * 5000}}}', "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_numbers_and_texts_that_are_none_are_named(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        json_mapping(text, "run.json", "")
    assert caught.value.message.startswith("run.json")
    assert words in caught.value.message


def test_half_a_character_is_replaced_and_a_whole_one_kept() -> None:
    assert json_mapping(r'{"a": "x\ud800", "b": "\ud83d\ude00"}', "", "") == {
        "a": "x\ufffd",
        "b": "\U0001f600",
    }


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("environment",), {"variables": 1}, "environment.variables"),
        (("environment",), {"modules": 5.0}, "environment.modules"),
        (("machine",), {"gpus": {"gpus": "x"}}, "machine.gpus.gpus"),
        (("machine",), {"nics": {"rdma": [{"ports": [{"rate_gbit_per_s": "fast"}]}]}}, "rate_gbit_per_s"),
        (("hunt",), {"fields": [{"kind": "rank"}]}, "hunt.fields[0].names"),
        (("hunt",), {"fields": [{"kind": "rank", "names": [], "suspects": [[]]}]}, "suspects[0]"),
        (("settings",), {"tag": 5}, "settings.tag"),
        (("settings",), {"rank_order": {"hosts": [{}]}}, "settings.rank_order.hosts[0].host"),
        (("plan", "cases", 0, "size_bytes"), -8, "plan.cases[0].size_bytes is -8"),
        (("plan", "cases", 1, "index"), 7, "plan.cases[1].index is 7"),
        (("results",), [{"case": 99, "status": "good"}], "results[0].case is 99"),
        (("results",), [{"case": 0, "status": "good"}] * 2, "results[1].case is 0 once more"),
        (("results",), [{"case": 0, "status": "good", "evidence": {"single_calls": "x"}}], "single_calls"),
        (("results",), [{"case": 0, "status": "good", "time_ns": 0}], "results[0].time_ns is 0"),
        (("results",), [{"case": 0, "status": "good", "high_ns": 0}], "results[0].high_ns is 0"),
        (("plan", "limits", "precision"), 1e308, "plan.limits.precision is 1e+308"),
        (("world", "size"), 1, "world.size is 1"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_by_field(
    folder: Path, record: RunRecord, place: tuple[Any, ...], value: object, words: str
) -> None:
    write_record(folder, record)
    fields = json.loads((folder / RUN_FILE).read_text())
    part = fields
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    (folder / RUN_FILE).write_text(json.dumps(fields))
    with pytest.raises(UsageError) as caught:
        read_record(folder)
    assert RUN_FILE in caught.value.message
    assert words in caught.value.message


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"", b"\0", b"{", b"null", b'{"schema": 1e999}', b'{"schema": 3}']
)
def test_a_record_of_other_bytes_is_refused(folder: Path, data: bytes) -> None:
    (folder / RUN_FILE).write_bytes(data)
    with pytest.raises(UsageError, match=RUN_FILE) as refused:
        read_record(folder)
    assert refused.value.hint


def test_a_folder_in_a_records_place_is_refused(folder: Path) -> None:
    (folder / RUN_FILE).mkdir()
    with pytest.raises(UsageError, match=RUN_FILE):
        read_record(folder)


@pytest.mark.parametrize(
    "damage",
    [
        {"round": None},
        {"kind": 5},
        {"names": []},
        {"seconds": "0.5"},
        {"tests": [{"one": 0, "other": 9, "times_ns": TIMES}]},
        {"tests": [{"one": 0, "other": 1, "times_ns": {"bandwidth": [[5.0], [6.0]]}}]},
        {"tests": [{"one": 0, "other": 1, "times_ns": {**TIMES, "bandwidth": [[0.0], [6.0]]}}]},
        {"tests": [{"one": 0, "other": 1, "times_ns": {**TIMES, "bandwidth": [[float("inf")], [6.0]]}}]},
        {"tests": [{"one": 0, "other": 1, "times_ns": {**TIMES, "latency": [[5.0], []]}}]},
        {"names": ["others", "than before"]},
    ],
)
def test_a_damaged_round_is_left_out_and_the_others_are_read(folder: Path, damage: dict[str, Any]) -> None:
    lines = [json.dumps(ROUND), json.dumps({**ROUND, **damage}), "[]", "\0", json.dumps(ROUND)]
    (folder / ROUNDS_FILE).write_text("\n".join(lines))
    assert read_rounds(folder) == [ROUND, ROUND]


def test_samples_that_cannot_be_are_refused(folder: Path) -> None:
    rows = np.zeros(3, SAMPLE_DTYPE)
    rows["k"] = [1, 0, 1]
    (folder / SAMPLES_FILE).write_bytes(rows.tobytes())
    with pytest.raises(UsageError, match="k of record 1 is 0, which cannot be"):
        read_samples(folder)
    digests = np.zeros(2, DIGEST_DTYPE)
    for value in (np.nan, 1e-310):
        digests["max_ns"] = [1.0, value]
        (folder / DIGESTS_FILE).write_bytes(digests.tobytes())
        with pytest.raises(UsageError, match=f"max_ns of record 1 is {value}, which cannot be"):
            read_digests(folder)


def test_samples_stay_as_they_are_where_polars_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / SAMPLES_FILE).write_bytes(np.ones(3, SAMPLE_DTYPE).tobytes())

    def short(_: Path) -> None:
        raise MemoryError

    monkeypatch.setattr(parquet, "_compact", short)
    assert not parquet.compact(folder)
    assert len(read_samples(folder)) == 3


def test_a_full_disk_is_told_with_the_files_name(tmp_path: Path) -> None:
    def pieces() -> Any:
        yield "x"
        raise OSError(28, "No space left on device")

    path = tmp_path / "run.json"
    with pytest.raises(OSError, match="No space left") as caught:
        replace_text(path, pieces())
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_home_is_the_one_of_the_user_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwd.getpwuid", lambda _: type("Entry", (), {"pw_dir": "/home/me"}))
    assert home({"HOME": ""}) == home({}) == Path("/home/me/.local/state/busbw")
