"""What other tools print, as values and problems: dcgmi diag, nvbandwidth, ib_write_bw. Pure.

Shapes: DCGM's JsonOutput (3.x, results by ``gpu_ids``) and its 4.x form (by ``entity_group``), both below
``test_categories``; nvbandwidth's json_output.cpp (0.4 to 0.8); perftest's perftest_parameters.h.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_PROBLEMS: Final = 4
_MOST_CHARACTERS: Final = 200
# A row of ib_write_bw: bytes, iterations, peak, average, messages.
_ROW: Final = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ToolReport:
    """One tool on one host. ``problems`` are its own words; ``remarks`` likewise, of what does no harm;
    ``values`` by name, GB/s, and of those that are medians over a host's GPUs the ``least``. ``absent``: it
    is not installed; ``left_out``: why it could not be asked, which says nothing of the hardware; not
    ``ran``: it gave no result, and ``problems`` say why.
    """

    tool: str
    absent: bool = False
    left_out: str = ""
    ran: bool = True
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)


# dcgmi asks a service, nv-hostengine, which many hosts have installed and not started (dcgmi's
# Command.cpp, and DCGM's error string of DCGM_ST_CONNECTION_NOT_VALID).
_NO_ENGINE: Final = re.compile(
    r"unable to (establish a connection|connect to (the )?host ?engine)", re.IGNORECASE
)


def read_dcgmi(text: str) -> ToolReport:
    """``dcgmi diag -r 1 -j``. Its tests that failed; that persistence mode is off is a remark."""
    found = _json(text)
    problems: list[str] = []
    remarks: list[str] = []
    tests = 0
    for test in _tests(found):
        for result in test.get("results") or ():
            if not isinstance(result, dict):
                continue
            tests += 1
            status = str(result.get("status", "")).lower()
            if not status.startswith(("fail", "warn")):
                continue
            words = "; ".join(_warnings(result)) or status
            said = f"{test.get('name', 'a test')} {_entity(result)}: {words}"[:_MOST_CHARACTERS]
            mild = status.startswith("warn") or words.startswith("Persistence Mode")
            (remarks if mild else problems).append(said)
    if not tests:
        if _NO_ENGINE.search(text):
            return ToolReport("dcgmi", left_out="no host engine answers (nv-hostengine)", ran=False)
        return ToolReport("dcgmi", problems=(_last_line(text),), ran=False)
    return ToolReport(
        "dcgmi", problems=tuple(problems[:_MOST_PROBLEMS]), remarks=tuple(remarks[:_MOST_PROBLEMS])
    )


def _tests(found: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 (JSON)
    """The tests of every category, wherever the version puts them; some lists have nulls between."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name == "tests" and isinstance(value, list):
                yield from (test for test in value if isinstance(test, dict))
            else:
                yield from _tests(value)
    elif isinstance(found, list):
        for value in found:
            yield from _tests(value)


def _warnings(result: Mapping[str, Any]) -> list[str]:
    """Texts (3.x), or objects with one (4.x)."""
    warnings = result.get("warnings") or result.get("info") or ()
    warnings = [warnings] if isinstance(warnings, str) else warnings
    return [str(each.get("warning", each)) if isinstance(each, dict) else str(each) for each in warnings]


def _entity(result: Mapping[str, Any]) -> str:
    if "entity_id" in result:
        return f"{result.get('entity_group', 'entity')} {result['entity_id']}"
    return f"GPU {result.get('gpu_ids', '?')}"


def read_nvbandwidth(text: str) -> ToolReport:
    """``nvbandwidth -j``: the median of each test's matrix, in GB/s, and its least where that is another;
    tests that ended in an error.
    """
    found = _json(text)
    root = found.get("nvbandwidth") if isinstance(found, dict) else None
    if not isinstance(root, dict):
        return ToolReport("nvbandwidth", problems=(_last_line(text),))
    problems = [str(root["error"])[:_MOST_CHARACTERS]] if root.get("error") else []
    values: dict[str, float] = {}
    least: dict[str, float] = {}
    for test in root.get("testcases") or ():
        name, status = str(test.get("name", "")), str(test.get("status", ""))
        numbers = [number for row in test.get("bandwidth_matrix") or () for number in map(_number, row or ())]
        known = [number for number in numbers if number]
        if status == "Error":
            problems.append(f"{name}: {test.get('error', status)}"[:_MOST_CHARACTERS])
        elif known and "latency" not in name:
            values[name] = statistics.median(known)
            if min(known) < values[name]:
                least[name] = min(known)
    return ToolReport("nvbandwidth", problems=tuple(problems[:_MOST_PROBLEMS]), values=values, least=least)


def read_ib_write_bw(text: str, name: str) -> ToolReport:
    """``ib_write_bw --report_gbits`` of the client: ``name`` -> its average, in GB/s."""
    rows = _ROW.findall(text)
    if not rows:
        return ToolReport("ib_write_bw", problems=(f"{name}: {_last_line(text)}"[:_MOST_CHARACTERS],))
    return ToolReport("ib_write_bw", values={name: float(rows[-1]) / 8})


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _json(text: str) -> Any:  # noqa: ANN401 (JSON)
    """The object in a text that may have other lines around it; None where there is none."""
    first, last = text.find("{"), text.rfind("}")
    try:
        return json.loads(text[first : last + 1]) if first >= 0 else None
    except ValueError:
        return None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_MOST_CHARACTERS] if lines else "it printed nothing"
