"""What can be known of an engine before a job is submitted to it: findings, asked of the engine itself.

An engine whose row names no module has nothing to ask beside what ``inquire`` asks. The module has
``look(job, request) -> tuple[Finding, ...]``; it raises SiteError where the engine is not there.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

from busbw.launchers.engine import Job, JobRequest
from busbw.model.finding import Finding, Severity, strictly, worst_first
from busbw.settings.engines import ENGINES


class _Look(Protocol):
    def look(self, job: Job, request: JobRequest) -> tuple[Finding, ...]: ...


def look_before(job: Job, request: JobRequest, *, strict: bool) -> tuple[Finding, ...]:
    """All findings about one job, the worst first."""
    module = ENGINES[request.engine].before
    if not module:
        return ()
    found = cast("_Look", import_module(module)).look(job, request)
    named = [replace(each, check=each.check or f"before-{request.engine}") for each in found]
    return worst_first(strictly(named) if strict else named)


def not_asked(what: str) -> Finding:
    """What this user may not know."""
    return Finding(Severity.INFO, f"{what} was not looked at: this user may not")
