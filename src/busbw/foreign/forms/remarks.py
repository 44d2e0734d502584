"""What a reader must know beside the numbers: how they were made, and why some are missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from busbw.foreign.forms.rows import Row, first_rank, ranks
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.mark import conditions_of, meaning
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.units import counted

BANDWIDTH: Final = "GB/s = 10^9 bytes/s"
_NO_TIME: Final = "nothing was timed"
# So many sizes are named in a remark; the rows have all of them.
_SIZES_NAMED: Final = 8


def time_words(record: RunRecord) -> str:
    """Which reduction every time of the record is."""
    return record.method.time if record.method is not None else _NO_TIME


def time_statistic(record: RunRecord) -> str:
    """The headline's statistic over samples in one word, where a format asks for one: avg or pNN.

    busbw's own is the median. Other tools print means, unless their column is of a percentile.
    """
    if record.source is None:
        return "p50"
    percentile = re.match(r"p\d+(?:\.\d+)?(?= of )", time_words(record))
    return percentile.group() if percentile is not None else "avg"


def origin(record: RunRecord) -> str:
    """Who measured."""
    if record.source is None:
        return f"measured by busbw {record.busbw_version}"
    source = f"{record.source.tool}, imported from {record.source.path}"
    return f"measured by {source} by busbw {record.busbw_version}"


def provenance(record: RunRecord) -> str:
    """Run, library, ranks and hosts in one line."""
    first, count = first_rank(record), ranks(record)
    library = f"{first.library} {first.library_version}".strip() if first is not None else ""
    where = "ranks not known" if count is None else counted(count, "rank")
    if record.world is not None and record.world.known_hosts:
        where += f" on {counted(len(record.world.known_hosts), 'host')}"
    words = (f"run {record.run_id}", library, f"backend {record.plan.backend}", where)
    return ", ".join(filter(None, words))


def notes(record: RunRecord, layout: str) -> list[str]:
    """Lines above a foreign table: what was measured, by whom, and what its times and bandwidths are."""
    lines = [
        f"{origin(record)}, written in the layout of {layout}",
        provenance(record),
        f"time = {time_words(record)}; of one call, in us",
        BANDWIDTH,
    ]
    if record.status is not RunStatus.COMPLETE:
        why = f": {one_line(record.error)}" if record.error else ""
        lines.append(f"the run is not complete, its status is {record.status.value}{why}")
    return [one_line(line) for line in lines]


def kind_words(case: Case) -> tuple[str, ...]:
    """What a table may have several of, in words: type, reduction, root, cycle."""
    return case.dtype, case.op, f"root {case.root}" if case.root >= 0 else "", f"cycle {case.cycle}"


def remarks(rows: Sequence[Row], placements: Iterable[Placement] = tuple(Placement)) -> list[str]:
    """Lines below a table: which cases are wrong, failed, not applicable or not run and why, and what their
    marks say. Where the rows have several types, reductions, roots or cycles, a line names those of its own.
    """
    kinds = [kind_words(row.case) for row in rows]
    differ = [len(set(words)) > 1 for words in zip(*kinds, strict=True)]
    named = [" ".join(word for word, shown in zip(kind, differ, strict=True) if shown) for kind in kinds]
    groups: dict[tuple[str, ...], list[int]] = {}
    measured: list[tuple[Case, CaseResult]] = []
    for placement in placements:
        for row, kind in zip(rows, named, strict=True):
            result = row.found.get(placement)
            measured += [(row.case, result)] if result is not None else []
            if result is None or result.status is not Status.GOOD:
                word, why = (
                    ("not in this run", "") if result is None else (status_word(result), reason(result))
                )
                groups.setdefault((word, placement.value, kind, why), []).append(row.case.size_bytes)
    lines = [
        f"{word}, {placement}, {f'{kind}, ' if kind else ''}{_sizes(sizes)}{f': {why}' if why else ''}"
        for (word, placement, kind, why), sizes in groups.items()
    ]
    beside: dict[str, list[int]] = {}
    for row in rows:
        for words in row.case.beside:
            beside.setdefault(words, []).append(row.case.size_bytes)
    lines += [f"ran beside {words}: {_sizes(sizes)}" for words, sizes in beside.items()]
    return lines + condition_and_mark_words(measured)


def condition_and_mark_words(measured: Sequence[tuple[Case, CaseResult]]) -> list[str]:
    """What the conditions and the marks of results mean, and how many results have a mark."""
    marks = Counter(mark for _, result in measured for mark in result.marks)
    return [
        *conditions_of(measured),
        *(
            f"marked {mark}, {count} of {len(measured)} cases: {meaning(mark) or 'a word of another version'}"
            for mark, count in marks.items()
        ),
    ]


def status_word(result: CaseResult) -> str:
    """The status, loud where the data were wrong."""
    return "WRONG" if result.status is Status.WRONG else result.status.value


def reason(result: CaseResult) -> str:
    """Why a result is not good, in one line; empty where the record does not say."""
    if result.status is Status.WRONG:
        return result.wrong_words
    return one_line(result.error)


def one_line(text: str) -> str:
    """Text without line ends and other control characters, which would make new lines of a table."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _sizes(sizes: Sequence[int]) -> str:
    named = ", ".join(map(str, dict.fromkeys(sizes[:_SIZES_NAMED])))
    more = f", ... {sizes[-1]}" if len(sizes) > _SIZES_NAMED else ""
    return f"{counted(len(sizes), 'case')} ({named}{more} B)"
