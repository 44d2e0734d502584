"""Tables of operations that ran at once: one a stream, with what ran beside each row. Pure."""

from __future__ import annotations

from dataclasses import replace

from busbw.model.case import Case
from busbw.model.plan import Plan, Stream
from busbw.model.result import CaseResult
from busbw.reports import groups, table


def stream_words(plan: Plan, ranks: int) -> list[str]:
    """Header lines: each stream's operation, how many calls an iteration has of it, and its ranks."""
    lines = []
    for number, stream in enumerate(plan.streams):
        calls = f"{stream.calls} call{'s' if stream.calls > 1 else ''} an iteration"
        calls = calls if stream.calls else "as many calls as last as long as the slowest stream's"
        lines.append(", ".join((f"stream {number} {stream.collective}", calls, *_own_words(plan, stream))))
        # What is moved is said already, for all or as this stream's own.
        lines += groups.pattern_words(replace(plan.of_stream(number), data="exact"), ranks)
    return lines


def _own_words(plan: Plan, stream: Stream) -> list[str]:
    """What this stream has other than the run."""
    limits, own = stream.limits(plan.limits), stream.own
    words = []
    if stream.iters is not None or stream.warmup_iters is not None:
        words.append(f"{limits.calls} iterations behind {limits.warmup_calls or 0} untimed")
    if "checks" in own:
        words.append(
            f"{stream.checks} check{'s' if stream.checks != 1 else ''}" if stream.checks else "unchecked"
        )
    if "data" in own:
        words.append(f"data {stream.data}")
    if "seed" in own:
        words.append(f"seed {stream.seed}")
    return words


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
