"""Who the next job leaves out: slow hosts, and lost ones, which the verdict of the others does not know."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from busbw.model.event import EventKind, event
from busbw.model.finding import Finding, Severity
from busbw.record.findings import LOST, excluding, hint_of_lost, keep, merge, with_lost
from busbw.report.hunt import HuntDisplay, answer_line


def lost(node: str) -> Finding:
    return Finding(Severity.ERROR, f"{node}: lost", hint=hint_of_lost(node), host=node, check=LOST, node=node)


def verdict(exclude: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "isolate", "fields": [{"exclude": {}}, {"exclude": exclude}]}


@pytest.mark.parametrize(
    ("exclude", "slurm", "kubernetes"),
    [({}, ["h5", "h7"], ["h5", "h7"]), (excluding(["s2"], ["k2"]), ["s2", "h5", "h7"], ["k2", "h5", "h7"])],
)
def test_lost_hosts_are_left_out_beside_slow_ones(
    tmp_path: Path, exclude: dict[str, Any], slurm: list[str], kubernetes: list[str]
) -> None:
    (tmp_path / "request").mkdir()
    (tmp_path / "run.json").write_text(json.dumps({"hunt": verdict(exclude)}))
    keep(tmp_path, [lost("h5"), lost("h7"), Finding(Severity.INFO, "else", check="cores")])
    merge(tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    inside, between = record["hunt"]["fields"]
    assert inside["exclude"] == {}
    assert between["exclude"] == excluding(slurm, kubernetes)
    assert with_lost(record["hunt"], record["findings"]) == record["hunt"]  # once


def test_the_result_is_that_of_the_others() -> None:
    field = {"decision": "healthy", "names": ["a"] * 5, "kind": "host", "rounds": 2, "seconds": 1}
    field |= {"noise": {}, "exclude": {}}
    assert answer_line(field, lost=True).startswith("# result   HEALTHY: the other 5 hosts, ")
    assert answer_line(field, lost=False).startswith("# result   HEALTHY: 5 hosts, ")
    display = HuntDisplay(io.StringIO(), io.StringIO())
    display.handle(event(EventKind.FINDING, finding=lost("h5")))
    display.handle(event(EventKind.VERDICT, hunt={"kind": "isolate", "fields": [field]}))
    assert "# slurm    --exclude=h5" in display.verdict_lines()[1]
