"""Events of a run as values and as lines of text: what every display needs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TextIO

from busbw.model.choice import Choice
from busbw.model.event import Event, error_words
from busbw.model.finding import Severity
from busbw.model.hang import HangAnswer
from busbw.model.plan import Plan
from busbw.model.record import HostInfo, Method, RankInfo, WorldInfo
from busbw.model.result import CaseResult, GroupResult, Status, StopReason, WrongData
from busbw.report.hang import hang_lines

_WIDTH: Final = 110
_INDENT: Final = 9  # of what stands below a claim: as wide as the severity
SEVERITY_WORDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def finding_lines(finding: Mapping[str, Any], columns: int | None = None) -> list[str]:
    """What is wrong, from what, what to try; each line begins with #, and no word is cut. ``columns`` are
    those of a terminal.
    """
    word = SEVERITY_WORDS[Severity(finding["severity"])]
    parts = [finding["claim"], finding["evidence"], f"hint: {finding['hint']}" if finding["hint"] else ""]
    lines = [line for part in parts if part for line in _wrapped(str(part), min(_WIDTH, columns or _WIDTH))]
    return [f"# {word if number == 0 else '':<{_INDENT}}{line}" for number, line in enumerate(lines)]


def _wrapped(text: str, columns: int) -> list[str]:
    # Words (paths, lists) stay whole, so that they can be copied.
    return textwrap.wrap(text, columns - _INDENT - 2, break_long_words=False, break_on_hyphens=False) or [
        text
    ]


def show_error(item: Event, err: TextIO) -> None:
    """One error on stderr: what, where, what to try."""
    print(f"error: {error_words(item)}", file=err)
    if item["hint"]:
        print(f"hint: {item['hint']}", file=err)
    if item.get("hang"):
        show_hang(HangAnswer.of_json(item["hang"]), err)


def show_hang(answer: HangAnswer, err: TextIO) -> None:
    """Which ranks the others waited for, below the error whose words have the answer and what to do."""
    print(*hang_lines(replace(answer, next="")), sep="\n", file=err)


def show_state(item: Event, err: TextIO) -> None:
    """What an engine says of the job, on stderr."""
    why = f": {item['why']}" if item["why"] else ""
    print(f"job {item['job']}: {item['phase']}{why}", file=err, flush=True)


def read_header(item: Event) -> tuple[Plan, WorldInfo, Method]:
    """The values in a header event."""
    world = item["world"]
    ranks = tuple(RankInfo(**rank) for rank in world["ranks"])
    plan = Plan.from_json(json.dumps({"version": 1, **item["plan"]}))
    places = tuple(HostInfo(**place) for place in world.get("places", ()))
    return plan, WorldInfo(**{**world, "ranks": ranks, "places": places}), Method(**item["method"])


def read_result(item: Event) -> CaseResult:
    """The value in a case event."""
    fields: dict[str, Any] = dict(item["result"])
    fields["status"] = Status(fields["status"])
    fields["stop"] = StopReason(fields["stop"]) if fields["stop"] else None
    fields["marks"] = tuple(fields["marks"])
    fields["conditions"] = tuple(fields.get("conditions", ()))
    fields["wrong_at"] = tuple(WrongData(**at) for at in fields["wrong_at"])
    fields["groups"] = tuple(GroupResult(**group) for group in fields.get("groups", ()))
    fields["choice"] = Choice.of(fields.get("choice"))
    return CaseResult(**fields)
