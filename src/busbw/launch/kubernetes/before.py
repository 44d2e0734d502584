"""Before a job is created on Kubernetes: would the API server take it?

The server judges the job and a pod of each kind without keeping them (`dryRun`): what it refuses is shown in
its own words. It judges one pod at a time, so a quota that has room for one pod and not for all of them shows
only while the job waits, as do nodes that are too few: the scheduler names them.
"""

from __future__ import annotations

from typing import Final

from busbw.errors import SiteError
from busbw.launch.engine import Job, JobRequest
from busbw.launch.kubernetes.api import Api, Denied, NoAnswer, NoLogin, Refused
from busbw.launch.kubernetes.manifest import JOB_FILE, Object, pod_templates
from busbw.launch.kubernetes.state import may_pass, without_pod_name
from busbw.launch.kubernetes.yaml import from_yaml
from busbw.model.finding import Finding, Severity
from busbw.rank.profile import option

# An admission webhook that has effects of its own makes the server refuse every dry run.
_NO_DRY_RUN: Final = "does not support dry run"
_NOT_ASKED: Final = Finding(Severity.INFO, "admission was not checked: this user may not ask for a dry run")


def look(job: Job, request: JobRequest) -> tuple[Finding, ...]:
    """What the server has against the job and its pods. Raises SiteError where no server answers."""
    api = Api(request.details["context"], request.details["namespace"])
    documents = from_yaml(request.files[JOB_FILE])
    pods = [_pod_of(template, number) for number, template in enumerate(pod_templates(documents[-1]))]
    waits = not option(job.work.words, "--stop-after")  # a preflight has nothing to wait for
    found = [judged(api, body, waits=waits) for body in (*documents, *pods)]
    return tuple(dict.fromkeys(finding for finding in found if finding is not None))


def _pod_of(template: Object, number: int) -> Object:
    metadata = {**template["metadata"], "name": f"busbw-preflight-{number}"}
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}


def judged(api: Api, body: Object, *, waits: bool) -> Finding | None:
    """The server's answer of an object; None where it would take the object. A controller tries again to
    create pods that a quota forbids, so a job that ``waits`` may get them.
    """
    try:
        api.create(body, dry_run=True)
    except (NoAnswer, NoLogin):
        raise
    except Denied:
        return _NOT_ASKED
    except Refused as error:
        if _NO_DRY_RUN in error.words:
            return _NOT_ASKED
        is_lasting = body["kind"] != "Pod" or not waits or not may_pass(error.words)
        severity = Severity.ERROR if is_lasting else Severity.WARNING
        return Finding(severity, without_pod_name(error.words), hint=error.hint, check="admission")
    except SiteError as error:
        return Finding(Severity.ERROR, error.message, hint=error.hint, check="admission")
    return None
