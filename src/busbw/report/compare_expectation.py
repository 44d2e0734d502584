"""An expectation as text: regimes, what they rest on and rows; and as values, CSV and JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

from busbw.judge.compare_regimes import regimes
from busbw.judge.expectation import Expectation, Judged, Judgement
from busbw.judge.launch_history import LEAST_LAUNCHES
from busbw.judge.matching import THIS_LOG
from busbw.judge.references.reference import Reference
from busbw.judge.scatter import DEVICE_BOUND, HOST_BOUND, Prior, assumption
from busbw.judge.wires import Wires
from busbw.model.case import LARGE
from busbw.report.compare import arm_words
from busbw.report.fields import (
    REGIME,
    UNBOUND,
    Field,
    attributes,
    counts_of,
    csv_of,
    fact,
    facts,
    regime_line,
    shown,
    table_lines,
    values_of,
)
from busbw.units import format_size

SCHEMA: Final = 2  # of the JSON
_MUCH: Final = 0.10  # a loss that needs a word of why it would not show


def table(expectation: Expectation, *, rows: bool = False, columns: int = UNBOUND) -> Iterator[str]:
    """Lines for people: the answer by regime, what it rests on, and with ``rows`` every case, for a
    terminal's ``columns``.
    """
    kinds = _by_kind(expectation)
    said: set[str] = set()
    for kind, cases in kinds.items():
        names = ", ".join(dict.fromkeys(case.reference for case in cases if case.reference))
        yield f"# {kind}" + (f", against {names}" if names else "")
        for regime in regimes(cases, _answer_of):
            yield from _regime(regime, said, on_device=expectation.prior.on_device)
    early = (f"{Judgement.FAILED} before its first case", len(expectation.arm.failures))
    counts = [*((str(answer), expectation.count(answer)) for answer in Judgement), early]
    yield fact(*counts_of(counts, every_row=rows))
    yield from facts(_heading(expectation))
    if rows:
        yield from facts(_limits(expectation))
        yield fact("wires", _wires(expectation.wires))
        for kind, cases in kinds.items():
            yield f"# {kind}; busbw is ring-equivalent, GB/s = 10^9 bytes/s"
            yield from table_lines(_FIELDS, cases, columns, lambda case: case.answer, "answer")
            if any(case.interpolated for case in cases):
                yield fact("~", "between two sizes of the reference, on a straight line of logarithms")


def next_line(expectation: Expectation, name: str) -> str:
    """What to do now about a run, which commands call ``name``."""
    counts = {answer: expectation.count(answer) for answer in Judgement}
    if counts[Judgement.BELOW] or counts[Judgement.FAILED] or expectation.arm.failures:
        step = f"`busbw diagnose {name}` looks for the cause"
    elif counts[Judgement.UNDECIDED]:
        step = "measure several launches: `busbw run OPERATION --launches 5`"
    elif counts[Judgement.EXPECTED] and not expectation.arm.lacking:
        rest = " where the reference has a size" if counts[Judgement.NO_REFERENCE] else ""
        step = f"nothing to do: the run is as expected{rest}"
    elif counts[Judgement.EXPECTED]:
        step = f"judge the whole log; `busbw import --dry-run {name}` lists what is missing"
    elif near := [other for other, why in expectation.unmatched.items() if why != THIS_LOG]:
        step = f"`busbw expect {name} --reference {near[0]}` compares with it all the same"
    else:
        step = f"`busbw expect {name} --save NAME` keeps this run as the reference"
    return fact("next", step)


def _answer_of(case: Judged) -> tuple[str, str]:
    return case.answer, case.why


def _by_kind(expectation: Expectation) -> dict[str, list[Judged]]:
    kinds: dict[str, list[Judged]] = {}
    for case in expectation.cases:
        kinds.setdefault(case.key.kind, []).append(case)
    return kinds


def _regime_fields(regime: Sequence[Judged]) -> dict[str, Any]:
    """The sizes that have one answer, between which shares of the expected, and which loss would not show."""
    ratios = [case.ratio for case in regime if case.ratio is not None]
    return {
        "first_bytes": regime[0].key.size_bytes,
        "last_bytes": regime[-1].key.size_bytes,
        "answer": regime[0].answer,
        "why": regime[0].why,
        "lowest_ratio": min(ratios, default=None),
        "highest_ratio": max(ratios, default=None),
        "loss_unseen": max(
            (case.loss_unseen for case in regime if case.loss_unseen is not None), default=None
        ),
    }


def _regime(regime: Sequence[Judged], said: set[str], *, on_device: bool) -> Iterator[str]:
    """Its answer, and the reason where that was not said before."""
    fields = _regime_fields(regime)
    answer, unseen = regime[0].answer, fields["loss_unseen"]
    ends = (fields["lowest_ratio"], fields["highest_ratio"])
    percent = "-".join(dict.fromkeys(f"{100 * end:.0f}" for end in ends if end is not None))
    words = f"{answer}, {percent}%" if percent else str(answer)
    if answer is Judgement.BELOW and unseen is not None:
        words += f" of the expected, where {1 - unseen:.0%} is the least"
    elif answer is Judgement.EXPECTED and unseen is not None:
        words += f"; a loss under {unseen:.0%} would not show"
    yield regime_line(fields["first_bytes"], fields["last_bytes"], words + _assumed(regime))
    cause = _cause(regime, on_device=on_device) if (unseen or 0.0) > _MUCH else ""
    for why in (regime[0].why, cause):
        if why and why not in said:
            said.add(why)
            yield " " * (REGIME + 4) + why


def _assumed(regime: Sequence[Judged]) -> str:
    """Of a verdict that rests on a scatter which nothing measured shows."""
    found = [each.assumed for each in regime if each.assumed is not None]
    return f"; {assumption(max(found))}" if found else ""


def _cause(regime: Sequence[Judged], *, on_device: bool) -> str:
    """Why much could be missing unseen; empty where that is not known, or was said."""
    held = [each for each in regime if each.scatter is not None]
    if not held:
        return ""
    scatter = median(each.scatter or 0.0 for each in held)
    own = median(each.half_width for each in held)
    if own > 2 * scatter:
        return f"the run's own intervals are about +-{own:.0%}: measure longer, or on a quiet machine"
    if regime[0].key.size_bytes >= LARGE or not on_device:
        return "" if _assumed(regime) else f"launches differ by about {scatter:.0%}"
    return f"host-bound: launches differ by about {scatter:.0%}; -G leaves the host out"


def _heading(expectation: Expectation) -> Iterator[tuple[str, str]]:
    yield "run", arm_words(expectation.arm, "version", "device")
    for reference in expectation.references:
        yield "against", "; ".join(reference_lines(reference))
        if reference.note:
            yield "", reference.note
    if not expectation.references:
        more = "" if expectation.fitting or expectation.unmatched else " (`busbw expect --list` shows all)"
        yield "against", f"no reference: {expectation.none}{more}"
    yield from (("not", f"{name}: {why}") for name, why in expectation.unmatched.items())
    yield from (("note", note) for note in expectation.notes)
    if expectation.references:
        yield "scatter", _history(expectation.prior)


def _history(prior: Prior) -> str:
    """Where the scatter between launches is from, but for what run and reference show themselves."""
    launches = max((scatter.launches for scatter in prior.known.values()), default=0)
    if launches:
        return f"between launches: from {launches} earlier ones of this kind of machine"
    device = f"{DEVICE_BOUND:.0%} from 1 MiB, {HOST_BOUND:.0%} below"
    words = device if prior.on_device else f"{HOST_BOUND:.0%}"
    return f"between launches: {words}, by default; it takes {LEAST_LAUNCHES} earlier runs to know it better"


def reference_lines(reference: Reference) -> tuple[str, str]:
    """What a reference is of; and whether it is used, its versions, whose it is, and when."""
    stated = ""
    if reference.ranks_stated not in (None, reference.ranks):
        stated = f" (labelled {reference.ranks_stated}; busbw / algbw says {reference.ranks})"
    root = f" root {reference.root}" if reference.root is not None else ""
    pattern = f", {reference.pattern}" if reference.pattern else ""
    launches = f"{reference.launches} launches" if reference.launches > 1 else "one launch"
    settings = "".join(f", {name}={value}" for name, value in (reference.environment or {}).items())
    unused = f"NOT USED: {reference.left_out}; " if reference.left_out else ""
    operation = f"{reference.operation or 'operation not stated'}{root}{pattern}"
    ranks = f"{reference.ranks or '?'} ranks{stated}"
    versions = f"versions: {reference.versions_text}{settings}"
    date = reference.date.replace("not stated", "date not stated")
    return (
        f"{reference.name}: {operation}, {ranks}, {reference.machine or reference.device}",
        f"{unused}{versions}; {date}, {launches}; {reference.source}",
    )


def _wires(wires: Wires) -> str:
    gpu = f"{wires.gpu_gb_per_s:.4g} GB/s" if wires.gpu_gb_per_s else "not known"
    network = f"{wires.network_gb_per_s:g} GB/s" if wires.network_gb_per_s else "not known"
    where = f"{wires.gpu_link} of a GPU {gpu}, {wires.nics} NICs of a node {network}"
    return f"{where}, {wires.rates} in one direction; {wires.source}"


def _rate(gb_per_s: float | None) -> str:
    return shown(gb_per_s, ".3g" if (gb_per_s or 0) < 10 else ".1f")


def _interval(case: Judged) -> str:
    ends = case.low_gb_per_s, case.high_gb_per_s
    return "n/a" if None in ends else " to ".join(map(_rate, ends))


_FIELDS: Final[tuple[Field[Judged], ...]] = (
    Field("size", lambda case: format_size(case.key.size_bytes)),
    Field("busbw", lambda case: _rate(case.measured_gb_per_s)),
    Field("95 % interval", _interval, detail=True),
    Field("expected", lambda case: ("~" if case.interpolated else "") + _rate(case.expected_gb_per_s)),
    Field("share", lambda case: shown(case.ratio, ".0%")),
    Field("least", lambda case: _rate(case.bound_gb_per_s)),
    Field("limit", lambda case: _rate(case.limit.busbw_gb_per_s if case.limit else None)),
    Field("%", lambda case: shown(case.limit.percent if case.limit else None, ".0f")),
    Field("wire", lambda case: _rate(case.limit.wire_gb_per_s if case.limit else None), detail=True),
)


def _limits(expectation: Expectation) -> Iterator[tuple[str, str]]:
    """What the wires allow, by algorithm, and how near the run came to it."""
    best: dict[str, float | None] = {}
    for case in expectation.cases:
        if case.limit is not None:
            observed = f" ({case.algorithm} observed)" if case.algorithm else ""
            model, percent = case.limit.model + observed, case.limit.percent
            best[model] = max((each for each in (best.get(model), percent) if each is not None), default=None)
    for model, percent in best.items():
        reached = f"; up to {percent:.0f} % of it was reached" if percent is not None else ""
        yield "limit", f"{model}{reached}"


def csv_text(expectation: Expectation) -> str:
    """One line a case, with a heading."""
    return csv_of(_OF_CASE, (values_of(_OF_CASE, case) for case in expectation.cases))


# Of a case, in the order of its columns.
_OF_CASE: Final[Mapping[str, Callable[[Judged], Any]]] = {
    **attributes("key.collective", "key.dtype", "key.op", "key.placement", "key.size_bytes", "answer"),
    "busbw_gb_per_s": lambda case: case.measured_gb_per_s,
    **attributes("low_gb_per_s", "high_gb_per_s", "launches", "reference", "expected_gb_per_s"),
    **attributes("interpolated", "ratio", "bound_gb_per_s", "loss_unseen", "scatter", "algorithm"),
    "limit_gb_per_s": lambda case: case.limit and case.limit.busbw_gb_per_s,
    "limit_model": lambda case: case.limit.model if case.limit else "",
    "percent_of_limit": lambda case: case.limit and case.limit.percent,
    "wire": lambda case: case.limit.wire if case.limit else "",
    "wire_gb_per_s": lambda case: case.limit and case.limit.wire_gb_per_s,
    **attributes("why", "key.pattern"),
}
_OF_REFERENCE: Final = attributes(
    "name", "versions", "date", "source", "ranks", "ranks_stated", "root", "pattern", "launches"
)


def expectation_fields(expectation: Expectation, gates: Sequence[str] = ()) -> dict[str, Any]:
    """Everything, as plain values; ratios and losses are shares of what is expected."""
    return {
        "schema": SCHEMA,
        "run": expectation.arm.name,
        "ranks": expectation.arm.ranks or None,
        "nodes": expectation.arm.nodes or None,
        "definition": expectation.arm.definition,
        **dict(expectation.arm.facts),
        "references": [values_of(_OF_REFERENCE, reference) for reference in expectation.references],
        "not_used": dict(expectation.unmatched),
        "notes": list(expectation.notes),
        "gates": list(gates),
        "regimes": [
            {"kind": kind, **_regime_fields(regime)}
            for kind, cases in _by_kind(expectation).items()
            for regime in regimes(cases, _answer_of)
        ],
        "cases": [values_of(_OF_CASE, case) for case in expectation.cases],
    }
