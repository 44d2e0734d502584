"""Tables of operations that ran at once: one a stream, with what ran beside each row. Pure."""

from __future__ import annotations

from dataclasses import replace

from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.model.result import CaseResult
from busbw.reports import groups, table


def stream_words(plan: Plan, ranks: int) -> list[str]:
    """Header lines: each stream's operation, how many calls an iteration has of it, and its ranks."""
    lines = []
    for number, stream in enumerate(plan.streams):
        calls = f"{stream.calls} call{'s' if stream.calls > 1 else ''} an iteration"
        calls = calls if stream.calls else "as many calls as last as long as the slowest stream's"
        lines.append(f"stream {number} {stream.collective}, {calls}")
        # What is moved is the same for all, and said already.
        lines += groups.pattern_words(replace(plan.of_stream(number), data="exact"), ranks)
    return lines


def heading(plan: Plan, case: Case) -> list[str]:
    """The head of a stream's table."""
    stream = plan.streams[case.stream]
    name = f"stream {case.stream}: {stream.collective}"
    return table.heading(name, plan.show, grouped=bool(stream.groups), placements=(case.placement,))


def rows(plan: Plan, case: Case, result: CaseResult) -> list[str]:
    """The lines of one size; each ends with the other streams' operations."""
    lines = table.rows(plan.of_case(case), case, [result])
    if not case.beside:
        return lines
    return [f"{lines[0]}  beside {'; '.join(case.beside)}", *lines[1:]]
