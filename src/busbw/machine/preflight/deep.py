"""What --deep measured, judged: copies of every rank against those of the others, and what other tools print:
dcgmi diag, nvbandwidth, ib_write_bw. Pure.

Shapes: DCGM's JsonOutput (3.x, results by ``gpu_ids``) and its 4.x form (by ``entity_group``), both below
``test_categories``; nvbandwidth's json_output.cpp (0.4 to 0.8); perftest's perftest_parameters.h.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from busbw.machine.preflight.outlier_ranks import few, judged
from busbw.model.finding import Finding, Severity

# Copies of one kind differ by some per cent between the sockets of a host; a lost lane or a link that was
# trained down costs a half. In between, who is slower than this is worth a look.
_SLOW: Final = 0.75
# Of a port's rate: headers and small frames cost less than this.
_LEAST_OF_RATE: Final = 0.8

# ---- what tools print ---

_MOST_PROBLEMS: Final = 4
_MOST_CHARACTERS: Final = 200
# A row of ib_write_bw: bytes, iterations, peak, average, messages.
_ROW: Final = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ToolReport:
    """One tool on one host. ``problems`` are its own words; ``remarks`` likewise, of what does no harm;
    ``values`` by name, GB/s. ``left_out``: why it could not be asked, which says nothing of the hardware; not
    ``ran``: it gave no result, and ``problems`` say why.
    """

    tool: str
    ran: bool = True
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    left_out: str = ""


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
        for result in filter(lambda each: isinstance(each, dict), test.get("results") or ()):
            tests += 1
            status = str(result.get("status", "")).lower()
            if status.startswith(("fail", "warn")):
                words = "; ".join(_warnings(result)) or status
                said = f"{test.get('name', 'a test')} {_entity(result)}: {words}"[:_MOST_CHARACTERS]
                mild = status.startswith("warn") or words.startswith("Persistence Mode")
                (remarks if mild else problems).append(said)
    if not tests and _NO_ENGINE.search(text):
        return ToolReport("dcgmi", left_out="nv-hostengine does not answer", ran=False)
    if not tests:
        return ToolReport("dcgmi", problems=(_last_line(text),), ran=False)
    return ToolReport("dcgmi", True, tuple(problems[:_MOST_PROBLEMS]), tuple(remarks[:_MOST_PROBLEMS]))


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
    """``nvbandwidth -j``: the least of each test's matrix, in GB/s, so that one slow GPU shows; tests that
    ended in an error.
    """
    found = _json(text)
    root = found.get("nvbandwidth") if isinstance(found, dict) else None
    if not isinstance(root, dict):
        return ToolReport("nvbandwidth", problems=(_last_line(text),))
    problems = [str(root["error"])[:_MOST_CHARACTERS]] if root.get("error") else []
    values: dict[str, float] = {}
    remarks: list[str] = []
    for test in root.get("testcases") or ():
        name, status = str(test.get("name", "")), str(test.get("status", ""))
        numbers = [number for row in test.get("bandwidth_matrix") or () for number in map(_number, row or ())]
        known = [number for number in numbers if number]
        if status == "Error":
            problems.append(f"{name}: {test.get('error', status)}"[:_MOST_CHARACTERS])
        elif known and "latency" not in name:
            values[name], usual = min(known), statistics.median(known)
            if values[name] < _SLOW * usual:
                remarks.append(f"{name}: one GPU reaches {values[name]:.1f} GB/s, the median is {usual:.1f}")
    return ToolReport("nvbandwidth", True, tuple(problems[:_MOST_PROBLEMS]), tuple(remarks), values)


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


# ---- rules ---

NEXT_RANK: Final = "to the next rank"
# Links of one host, of hosts that share an NVLink domain, and of others are not of one speed.
_SAME_DOMAIN: Final = f"{NEXT_RANK} between hosts of an NVLink domain"
_BETWEEN: Final = f"{NEXT_RANK} between hosts"
_HINTS: Final[Mapping[str, str]] = {
    NEXT_RANK: "check the link between them, and other jobs there",
    _SAME_DOMAIN: "check the links of both hosts, and other jobs there",
    _BETWEEN: "check the NICs of both hosts, and other jobs there",
}


@dataclass(frozen=True)
class DeepFacts:
    """One rank's: ``copies`` by kind in GB/s, ``left_out`` why there are none of a kind; ``tools`` on the
    first rank of a host; ``port_gb_per_s`` of the ports that ib_write_bw used; ``domain`` is the NVLink
    domain of its GPU over several hosts, empty where there is none.
    """

    rank: int
    host: str
    copies: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    tools: tuple[ToolReport, ...] = ()
    port_gb_per_s: Mapping[str, float] = field(default_factory=dict)
    domain: str = ""


def copies(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    """No rank copies clearly slower than the others over links of that kind."""
    by_kind: dict[str, dict[int, float]] = {}
    for at, rank in enumerate(ranks):
        for kind, rate in rank.copies.items():
            by_kind.setdefault(_over(ranks, at) if kind == NEXT_RANK else kind, {})[at] = rate
    for kind, rates in by_kind.items():
        usual = statistics.median(rates.values())
        spread = f"{min(rates.values()):.1f} to {max(rates.values()):.1f} GB/s over {len(rates)} ranks"
        yield Finding(Severity.INFO, f"copies {kind}: median {usual:.1f} GB/s", spread)
        hint = _HINTS.get(kind, "check PCIe lanes and generation, and the rank's NUMA node")
        for at, rate in rates.items():
            if rate < _SLOW * usual:
                host = ranks[at].host
                claim = f"rank {at} ({host}) copies {kind} at {rate:.1f} GB/s, the median is {usual:.1f}"
                yield Finding(Severity.WARNING, claim, spread, hint, rank=at, host=host)


def _over(ranks: tuple[DeepFacts, ...], at: int) -> str:
    """What a rank's copy to the next goes over: it ends when what the rank before sends has come, too, so the
    farther of the two counts.
    """
    own = ranks[at]
    beyond = [side for side in (ranks[at - 1], ranks[(at + 1) % len(ranks)]) if side.host != own.host]
    if not beyond:
        return NEXT_RANK
    return _SAME_DOMAIN if own.domain and all(side.domain == own.domain for side in beyond) else _BETWEEN


def left_out(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    """Everything that belongs to --deep could be done."""
    for reason in dict.fromkeys(reason for rank in ranks for reason in rank.left_out):
        yield Finding(Severity.INFO, reason)
    without: dict[tuple[str, str], list[str]] = {}
    for rank, report in _reports(ranks):
        if report.left_out:
            without.setdefault((report.tool, report.left_out), []).append(rank.host)
    for (tool, reason), hosts in without.items():
        yield Finding(Severity.INFO, f"{tool} did not run on {few(hosts)}: {reason}")


def tools(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    """Tools that are installed find nothing."""
    for rank, report in _reports(ranks):
        # A failed diagnosis is what the tool is there for; another tool's failure may be its own.
        worst = Severity.ERROR if report.tool == "dcgmi" and report.ran else Severity.WARNING
        hint = f"run {report.tool} there and read its full output"
        for severity, words in ((worst, report.problems), (Severity.INFO, report.remarks)):
            if words:
                claim = f"{report.tool} on {rank.host}: {words[0]}"
                yield Finding(severity, claim, "; ".join(words[1:]), hint, host=rank.host)


def rates_of_tools(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    """What tools measure is alike on all hosts, and near the rate of a port."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for rank, report in _reports(ranks):
        for name, value in report.values.items():
            found.setdefault((report.tool, name), {})[rank.host] = value
    for (tool, name), by_host in found.items():
        usual = statistics.median(by_host.values())
        each = few([f"{host} {value:.1f}" for host, value in by_host.items()])
        yield Finding(Severity.INFO, f"{tool} {name}: median {usual:.1f} GB/s", each)
        for host, value in by_host.items():
            if value < _SLOW * usual:
                claim = f"{tool} {name} reaches {value:.1f} GB/s on {host}, the median is {usual:.1f}"
                hint = f"run {tool} there, and check links, lanes and other jobs"
                yield Finding(Severity.WARNING, claim, hint=hint, host=host)
    yield from _below_rate(ranks)


def _reports(ranks: tuple[DeepFacts, ...]) -> Iterator[tuple[DeepFacts, ToolReport]]:
    return ((rank, report) for rank in ranks for report in rank.tools)


def _below_rate(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    for rank, report in _reports(ranks):
        for name, value in report.values.items():
            rate = rank.port_gb_per_s.get(name, 0.0)
            if value < _LEAST_OF_RATE * rate:
                there = f"{value:.1f} GB/s on {rank.host}, where the port's rate is {rate:.1f}"
                hint = "check the link's width and speed, and the switch's counters"
                claim = f"{report.tool} {name} reaches {there}"
                yield Finding(Severity.WARNING, claim, hint=hint, host=rank.host)


CHECKS: Final[Mapping[str, Callable[[tuple[DeepFacts, ...]], Iterator[Finding]]]] = {
    "copies": copies,
    "tools": tools,
    "rates-of-tools": rates_of_tools,
    "left-out": left_out,
}


def judge_deep(ranks: tuple[DeepFacts, ...], *, strict: bool) -> tuple[Finding, ...]:
    """All findings, the worst first."""
    return judged(CHECKS, ranks, strict=strict)
