"""What the API server answers before a job is created there, as findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("kubernetes")

from busbw.errors import SiteError
from busbw.launch.kubernetes.api import Denied, NoLogin, Refused
from busbw.launch.kubernetes.engine import judged
from busbw.launch.kubernetes.state import FORM_HINT, QUOTA_HINT
from busbw.launch.scheduler import NoAnswer
from busbw.model.finding import Finding, Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
JOB, POD = {"kind": "MPIJob"}, {"kind": "Pod"}
QUOTA = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"


class Server:
    """Stands in for Api: ``create`` raises what it was made with."""

    def __init__(self, error: SiteError | None) -> None:
        self.error = error

    def create(self, _body: Mapping[str, Any], *, dry_run: bool) -> None:
        assert dry_run
        if self.error is not None:
            raise self.error


def answer(error: SiteError | None, body: dict[str, str] = POD, *, waits: bool = True) -> Finding | None:
    return judged(Server(error), body, waits=waits)


def test_what_the_server_takes_is_no_finding() -> None:
    assert answer(None) is None


@pytest.mark.parametrize(
    ("why", "body", "run", "preflight"),
    [
        (QUOTA, POD, WARNING, ERROR),  # others may give it back
        (QUOTA, JOB, ERROR, ERROR),  # what busbw creates itself is not tried again
        ('violates PodSecurity "restricted:latest": hostPath volumes', POD, ERROR, ERROR),
        ('admission webhook "policy.example" denied the request: no', POD, ERROR, ERROR),
    ],
)
def test_what_the_server_refuses(why: str, body: dict[str, str], run: Severity, preflight: Severity) -> None:
    hint = QUOTA_HINT if why == QUOTA else FORM_HINT
    for waits, severity in ((True, run), (False, preflight)):
        found = answer(Refused(f'pods "j-0" is forbidden: {why}'), body, waits=waits)
        assert found == Finding(severity, f"a pod is forbidden: {why}", hint=hint, check="admission")


def test_a_kind_that_the_cluster_lacks() -> None:
    found = answer(SiteError("the cluster has no MPIJobs", hint="install"), JOB)
    assert found == Finding(ERROR, "the cluster has no MPIJobs", hint="install", check="admission")


@pytest.mark.parametrize(
    "error",
    [
        Denied("pods is forbidden: User cannot create resource"),
        Refused('admission webhook "a.b" does not support dry run'),
    ],
)
def test_what_may_not_be_asked_is_a_note(error: SiteError) -> None:
    found = answer(error)
    assert found is not None
    assert found.severity is INFO


@pytest.mark.parametrize("error", [NoAnswer("silent"), NoLogin("stranger")])
def test_a_server_that_cannot_be_asked_ends_it(error: SiteError) -> None:
    with pytest.raises(type(error)):
        answer(error)
