"""A hunt as text: rounds as they come, then who is slow, who to leave out, and what was not seen."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from busbw.hunt.field import fields as fields_of
from busbw.model.event import Event, EventKind
from busbw.model.finding import Severity
from busbw.model.hunt import BANDWIDTH, LATENCY, METRICS, Hunt
from busbw.model.plan import Plan
from busbw.model.record import Method, RunRecord, WorldInfo
from busbw.record.findings import LOST, with_lost
from busbw.record.folder import RUN_FILE
from busbw.report.console import columns
from busbw.report.display import Display, who_lines
from busbw.report.events import finding_lines
from busbw.report.fields import UNBOUND, folded
from busbw.report.plots_of_hunt import CSV_FIELDS, cut_lines, group_lines, plots, rows
from busbw.report.text_plots import drawing
from busbw.units import counted, format_duration, format_size

_WORDS: Final = {"healthy": "HEALTHY", "slow": "SLOW", "undecided": "COULD NOT DECIDE"}
_COLUMNS: Final = 100  # of prose
_RANKED_SHOWN: Final = 3
_HEALTHY: Final = "nothing to do: no part is slow"
_LEAST_RANKED: Final = 0.0005  # 0.1 % as it is printed


class HuntDisplay(Display):
    """Rounds go to ``err`` as they come, the result to ``out``."""

    def __init__(self, out: TextIO, err: TextIO, *, live: bool = True, wide: bool = False) -> None:
        super().__init__(out, err, progress=live)
        self._live = live
        self._whole = wide or not out.isatty()
        self._hosts: tuple[str, ...] = ()  # of each rank
        self._rounds: list[Mapping[str, Any]] = []
        self._verdict: Mapping[str, Any] = {}

    def _begin(self, header: Event, plan: Plan, world: WorldInfo, method: Method) -> None:
        self._hosts = tuple(rank.host for rank in world.ranks)
        assert plan.hunt is not None
        self._print(who_lines(plan.hunt.kind, plan, world, str(header["busbw_version"])))
        self._print([f"# nic      {plan.hunt.nic} of every host"] if plan.hunt.nic else [])
        self._print([f"# test     {_test_words(plan.hunt)}"])
        if self._progress is not None:
            self._progress.start(1, "round 1")

    def _take(self, item: Event) -> None:
        kind, hunt = item["event"], self._plan.hunt if self._plan is not None else None
        if kind == EventKind.ROUND and hunt is not None:
            self._rounds.append(item["tested"])
            self._show_round(hunt, item["tested"])
        elif kind == EventKind.FINDING:
            self._findings.append(item["finding"])
        elif kind == EventKind.VERDICT:
            self._verdict = item["hunt"]
        elif kind == EventKind.END and hunt is not None:
            self._stop_progress()
            self._print(self._result(hunt, str(item["folder"])))
            self._findings = []

    def close(self) -> None:
        """See Display. Where nothing was started, there is no END to wait for."""
        super().close()
        self._print(line for finding in self._findings for line in finding_lines(finding))

    def _show_round(self, hunt: Hunt, tested: Mapping[str, Any]) -> None:
        """A line a round; on a terminal the same line for all, and none of a hunt that is over."""
        if not (self._live or self._whole):
            return
        done, stage = int(tested["round"]["number"]) + 1, tested["round"]["stage"]
        mean_s = statistics.mean(float(each["seconds"]) for each in self._rounds)
        first = rounds_of(hunt, len(tested["names"]), self._hosts)
        total, most = max(done, first), ""
        if done > first and hunt.kind == "isolate":
            from busbw.hunt.decide import most_rounds

            total = most_rounds(first)
            most = f", {total} rounds at most"
        groups = len(tested.get("groups", ()))
        what = f"{groups or len(tested['tests'])} {'' if groups else 'pairs of '}{tested['kind']}s"
        if self._progress is not None:
            left_s = 0.0 if most else mean_s * (total - done)
            self._progress.step(done, f"{stage}: {what}{most}", left_s, total)
            return
        left = f", {format_duration(mean_s * (first - done))} left" if self._live and first > done else ""
        line = f"round {done}, {stage}: {what}, {tested['seconds']:.2f} s{left}"
        print(line, file=self._err, flush=True)

    def _result(self, hunt: Hunt, folder: str) -> list[str]:
        lines, details = self.verdict_lines()
        width = columns(UNBOUND, self._out)
        if hunt.kind == "rails":
            lines += group_lines(self._rounds, hunt.size_bytes, self._verdict.get("fields", ()))
        if hunt.kind != "isolate" and self._rounds:
            lines += self._maps(hunt, width)
        if hunt.halves:
            lines += cut_lines(self._rounds, hunt.size_bytes)
        shown = [each for each in self._findings if self._whole or each["severity"] != Severity.INFO]
        lines += [line for each in shown for line in finding_lines({**each, "hint": ""}, width)]
        return [*lines, *details, *self._next_lines(hunt, Path(folder).name), f"# record   {folder}"]

    def _maps(self, hunt: Hunt, width: int) -> Iterator[str]:
        """What was measured between ranks or hosts; less is drawn where not everything was asked for."""
        maps = plots("", hunt.kind, hunt.size_bytes, self._hosts, self._rounds)
        for at, plot in enumerate(maps):
            yield from ("#", f"# {plot.title}", *folded(plot.note, min(width, _COLUMNS), "# ", "# "))
            if self._whole or hunt.kind == "rails" or not at:
                yield from (f"# {line}".rstrip() for line in drawing(plot, width - len("# ")))

    def _next_lines(self, hunt: Hunt, name: str) -> list[str]:
        """What to do now, and where the rest is."""
        steps = list(dict.fromkeys(each["hint"] for each in self._findings if each["hint"]))
        if not steps:
            healthy = "`busbw isolate` finds what is slow" if hunt.kind == "pairs" else _HEALTHY
            steps = [healthy if self._verdict else "hunt again: this one ended before its verdict"]
        if not self._whole:
            steps.append(f"`busbw show {name} --all` shows the rest")
        return [f"# {'' if at else 'next':<8} {step}" for at, step in enumerate(steps)]

    def verdict_lines(self) -> tuple[list[str], list[str]]:
        """Of every field the answer, and what stands below its findings."""
        lost = any(finding["check"] == LOST for finding in self._findings)
        fields = with_lost(self._verdict, self._findings).get("fields", ())
        details = []
        for field in fields:
            if (noise := noise_words(field)) and self._whole:
                details.append(f"# noise    {noise}")
            if ranked := ranking_words(field):  # where to look first
                details.append(f"# slowest  {ranked}")
            excluded = exclude_words(field)
            shown = excluded if self._whole else excluded[:1]  # Kubernetes' words are long
            details += [f"# {name:<8} {text}" for name, text in shown]
        return [answer_line(field, lost=lost) for field in fields], details


def _test_words(hunt: Hunt) -> str:
    """What a test is, and what is worth naming where that is judged."""
    ways = " a rank and a step" if hunt.kind == "rails" else " each way"
    words = [f"{format_size(hunt.size_bytes)}{ways}, second best of {hunt.samples} samples"]
    if LATENCY in hunt.rules.metrics:
        words.append(f"{hunt.small_bytes} B, mean of {hunt.small_blocks * hunt.small_calls}")
    if hunt.kind != "pairs":
        words.append(f"a loss from {hunt.rules.floors[BANDWIDTH]:.0%} is reported")
    return "; ".join(words)


def rounds_of(hunt: Hunt, parts: int, hosts: Sequence[str]) -> int:
    """How many rounds to expect in all, if all are well and quiet; with ``hosts`` one name a rank."""
    from busbw.hunt.compare_groups import SCREENS
    from busbw.hunt.decide import first_rounds
    from busbw.hunt.rounds import halving, rail_rounds, rails, turns

    if hunt.kind == "rails":
        nodes = [[r for r, own in enumerate(hosts) if own == host] for host in dict.fromkeys(hosts)]
        staged = sum(any(len(group) > 1 for group in groups) for groups in (rails(nodes), nodes))
        return SCREENS * staged + len(rail_rounds(nodes))
    if hunt.kind == "pairs":
        return len(halving(parts)) if hunt.halves else turns(parts)
    return first_rounds(hunt.rules, parts)


def lost_rounds(record: RunRecord, rounds: Sequence[Mapping[str, Any]]) -> str:
    """What of a hunt that came to its end is not there any more; empty where all is."""
    hunt = record.plan.hunt
    if hunt is None or not record.hunt or record.world is None:
        return ""
    hosts = [rank.host for rank in record.world.ranks]
    parts = len(fields_of(hosts)[-1].names)
    judged = record.hunt.get("fields", ())
    want = sum(int(each["rounds"]) for each in judged) if judged else rounds_of(hunt, parts, hosts)
    lost = want - len(rounds)
    return f"{lost} of {want} rounds are missing; only the others are shown" if lost > 0 else ""


def answer_line(field: Mapping[str, Any], *, lost: bool) -> str:
    """The verdict of one field; of those that are left where a host was ``lost``."""
    cost = f"{field['rounds']} rounds in {format_duration(float(field['seconds']))}"
    who = f"{'the other ' if lost else ''}{counted(len(field['names']), field['kind'])}"
    return f"# result   {verdict_words(field)}: {who}, {cost}"


def verdict_words(field: Mapping[str, Any]) -> str:
    """The verdict in a word; healthy is no more than what was tested."""
    word, pairs = _WORDS[field["decision"]], int(field.get("pairs", 0))
    if field["decision"] != "healthy" or not pairs or "tested" not in field:
        return word
    tested = int(field["tested"])
    return (
        f"{word}: all {pairs} paths" if tested == pairs else f"{word}: {tested / pairs:.0%} of paths tested"
    )


def noise_words(field: Mapping[str, Any]) -> str:
    """How far one test may be off; empty where it is not known."""
    noise = ", ".join(
        f"{metric} {sigma:.1%}" for metric, sigma in field["noise"].items() if metric in METRICS
    )
    return f"standard deviation of one test: {noise}" if noise else ""


def ranking_words(field: Mapping[str, Any]) -> str:
    """Where to look first after a hunt that could not decide; empty after any other."""
    slower = [each for each in field.get("ranking", ()) if each["loss"] >= _LEAST_RANKED]
    if field["decision"] != "undecided" or not slower:
        return ""
    first = ", ".join(f"{each['name']} {each['loss']:.1%}" for each in slower[:_RANKED_SHOWN])
    return f"{first} less bandwidth than the others; a ranking, not an accusation"


def exclude_words(field: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whom Slurm and Kubernetes are to leave out, in their words; empty where that is nobody."""
    whom = field["exclude"]
    return [("slurm", str(whom["slurm"])), ("k8s", json.dumps(whom["kubernetes"]))] if whom else []


class _ForPrograms(HuntDisplay):
    """Values go to ``out``, what else is said to ``err``."""

    def __init__(self, out: TextIO, err: TextIO, *, live: bool = True, wide: bool = False) -> None:
        super().__init__(err, err, live=live, wide=wide)
        self._values = out


class MatrixCsvDisplay(_ForPrograms):
    """A matrix of pairs as rows."""

    def _result(self, hunt: Hunt, folder: str) -> list[str]:
        writer = csv.writer(self._values, lineterminator="\n")
        writer.writerow(CSV_FIELDS)
        if hunt.kind == "pairs" and self._rounds:
            writer.writerows(rows(self._rounds, hunt.size_bytes))
        self._values.flush()
        found = (line for finding in self._findings for line in finding_lines(finding))
        return [*found, f"# record   {folder}"]


class HuntJsonDisplay(_ForPrograms):
    """The record with its rounds, once, at the end."""

    def _result(self, hunt: Hunt, folder: str) -> list[str]:
        fields = json.loads((Path(folder) / RUN_FILE).read_text())
        self._values.write(json.dumps({**fields, "rounds": self._rounds}, indent=1) + "\n")
        self._values.flush()
        return [f"# record   {folder}"]
