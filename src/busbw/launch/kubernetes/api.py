"""The Kubernetes API as this engine uses it: plain JSON over the official client's connection.

The client brings kubeconfig, every way to log in, and TLS. Its generated classes know no MPIJob or JobSet,
and differ between its versions, so paths and JSON are written here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from busbw.errors import SiteError
from busbw.launch.kubernetes.state import hint_of
from busbw.launch.kubernetes.words import Kind
from busbw.launch.scheduler import NoAnswer

try:
    import kubernetes
    import urllib3
except ImportError as error:
    raise SiteError(
        "the Kubernetes engine needs the package kubernetes, which is not installed",
        hint="run in a clone of busbw: pip install '.[kubernetes]'",
    ) from error

# Typed in parts, and not in all versions.
client: Any = kubernetes.client
config: Any = kubernetes.config
dynamic: Any = kubernetes.dynamic

Fields = dict[str, Any]
Query = Sequence[tuple[str, str]]

# Seconds to connect, and to wait for more.
_TIMEOUT: Final = (5, 20)
# Pods may take their grace period to go.
_GONE_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.25
_IN_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MOST_CONNECTIONS: Final = 128


@dataclass(frozen=True)
class Resource:
    """Where the objects of a kind are."""

    kind: str
    group: str
    version: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        """Of one object, or of all in a namespace."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{base}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


POD: Final = Resource("Pod", "", "v1", "pods")
EVENT: Final = Resource("Event", "", "v1", "events")
JOBS: Final[Mapping[Kind, Resource]] = {
    "mpijob": Resource("MPIJob", "kubeflow.org", "v2beta1", "mpijobs"),
    "job": Resource("Job", "batch", "v1", "jobs"),
    "jobset": Resource("JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets"),
}
PARTS: Final = (
    Resource("Service", "", "v1", "services"),
    Resource("Secret", "", "v1", "secrets"),
    Resource("ConfigMap", "", "v1", "configmaps"),
    Resource("ComputeDomain", "resource.nvidia.com", "v1beta1", "computedomains"),
)
RESOURCES: Final = {one.kind: one for one in (*JOBS.values(), *PARTS, POD)}
# In the words of every authorizer; an admission plugin has others.
_NO_RIGHT: Final = re.compile(r" cannot \w+ (resource|path) ")
_MISSING: Final = {
    "MPIJob": "install the MPI Operator (v2beta1), or give --mpi none: an indexed Job needs nothing",
    "JobSet": "install JobSet, or give --set kind=job: an indexed Job needs nothing",
    "ComputeDomain": "install NVIDIA's DRA driver for GPUs, or leave --set compute-domain out",
}


class Denied(SiteError):
    """The user may not do that."""


class NoLogin(Denied):
    """The server does not know these credentials."""


class Refused(SiteError):
    """The server does not take an object (schema, quota, admission); ``words`` are its own."""

    def __init__(self, words: str) -> None:
        super().__init__(f"Kubernetes refuses the job: {words}", hint=hint_of(words))
        self.words = words


class NotFound(SiteError):
    """There is no such object."""


def _is_in_pod(context: str) -> bool:
    """Whether the cluster is that of the pod that this process runs in."""
    return not context and _IN_POD.exists() and not os.environ.get("KUBECONFIG")


def context_namespace(context: str) -> str:
    """The namespace that a context of the kubeconfig names. SiteError for an unknown context."""
    if _is_in_pod(context):
        return _IN_POD.read_text().strip()
    try:
        contexts, active = config.list_kube_config_contexts()
    except config.ConfigException as error:
        if context:
            raise _no_kubeconfig(error) from error
        return "default"  # --dry-run needs no cluster
    found = [one for one in contexts if one["name"] == context] if context else [active]
    if not found:
        raise SiteError(
            f"the kubeconfig has no context {context}",
            hint=f"use one of: {', '.join(one['name'] for one in contexts)}",
        )
    return str((found[0].get("context") or {}).get("namespace") or "default")


def _no_kubeconfig(error: Exception) -> SiteError:
    return SiteError(f"no usable kubeconfig: {error}", hint="set KUBECONFIG, or log in to the cluster")


class Api:
    """A connection to the cluster of a context. Every method raises SiteError with the server's words."""

    def __init__(self, context: str, namespace: str) -> None:
        self.namespace = namespace
        # Python prints other packages' warnings where no handler is set; they come to us as exceptions.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        settings = client.Configuration()
        try:
            if _is_in_pod(context):
                config.load_incluster_config(client_configuration=settings)
            else:
                config.load_kube_config(
                    context=context or None, client_configuration=settings, persist_config=False
                )
        except (config.ConfigException, OSError) as error:
            raise _no_kubeconfig(error) from error
        settings.connection_pool_maxsize = _MOST_CONNECTIONS
        self.host = str(settings.host)
        self._settings = settings
        self._dynamic = dynamic.DynamicClient(client.ApiClient(settings), discoverer=lambda *_: None)

    def stream(self, path: str, query: Query = (), timeout: tuple[float, float] = _TIMEOUT) -> Any:  # noqa: ANN401
        """A response whose body is read as it comes (urllib3's)."""
        return self._call("get", path, query, timeout=timeout)

    def get(self, path: str, query: Query = ()) -> Fields:
        """An object, or a list of them."""
        return _json(self._call("get", path, query))

    def items(self, resource: Resource, query: Query = ()) -> list[Fields]:
        """All objects of a kind that the query selects."""
        return list(self.get(resource.path(self.namespace), query).get("items") or [])

    def create(self, body: Fields, *, dry_run: bool = False) -> Fields:
        """Create an object, or let the server only judge it; an unknown field is an error."""
        resource = RESOURCES[body["kind"]]
        query = [("fieldValidation", "Strict"), *([("dryRun", "All")] if dry_run else [])]
        try:
            return _json(self._call("post", resource.path(self.namespace), query, body=body))
        except NotFound as error:
            if resource.kind in _MISSING and "page not found" in error.message:
                raise SiteError(
                    f"the cluster at {self.host} has no {resource.kind}s"
                    f" ({resource.group}/{resource.version})",
                    hint=_MISSING[resource.kind],
                ) from error
            raise

    def own(self, owner: Fields, resource: Resource, name: str) -> None:
        """Let an object be deleted with its owner. Where that is not allowed, ``clean`` deletes it."""
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
        body = {"metadata": {"ownerReferences": [reference]}}
        with contextlib.suppress(SiteError):
            path, form = resource.path(self.namespace, name), "application/merge-patch+json"
            self._call("patch", path, body=body, content_type=form)

    def delete(self, resource: Resource, name: str, *, first: bool = False) -> None:
        """Delete an object after all that it owns, or ``first``. Nothing happens where it does not exist."""
        with contextlib.suppress(NotFound):
            query = (("propagationPolicy", "Background" if first else "Foreground"),)
            self._call("delete", resource.path(self.namespace, name), query)

    def kill_pods(self, selector: str) -> None:
        """End pods at once, without their grace period."""
        query = (("labelSelector", selector), ("gracePeriodSeconds", "0"))
        self._call("delete", POD.path(self.namespace), query)

    def wait_gone(self, resource: Resource, name: str) -> bool:
        """Whether an object is gone after the time that pods may take."""
        deadline = time.monotonic() + _GONE_SECONDS
        while time.monotonic() < deadline:
            try:
                self.get(resource.path(self.namespace, name))
            except NotFound:
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def missing_rights(self, wanted: Sequence[tuple[str, Resource, str]]) -> list[str]:
        """Which of (verb, resource, subresource) this user may not do, in words."""
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        missing = []
        for verb, resource, part in wanted:
            asked = {"namespace": self.namespace, "verb": verb, "group": resource.group}
            asked |= {"resource": resource.plural, "subresource": part}
            body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
            answer = _json(self._call("post", path, body=body | {"spec": {"resourceAttributes": asked}}))
            if not answer["status"]["allowed"]:
                missing.append(f"{verb} {resource.plural}{'/' + part if part else ''}")
        return missing

    def _call(
        self,
        method: str,
        path: str,
        query: Query = (),
        *,
        body: Fields | None = None,
        content_type: str = "application/json",
        timeout: tuple[float, float] = _TIMEOUT,
    ) -> Any:  # noqa: ANN401 (urllib3's response)
        try:
            return self._dynamic.request(
                method,
                path,
                body=body,
                query_params=list(query),
                content_type=content_type,
                header_params={},
                serialize=False,
                _request_timeout=timeout,
            )
        except client.ApiException as error:
            raise _translated(error, self.host, self.namespace) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise unreachable(error, self.host) from error


def unreachable(error: Exception, host: str) -> SiteError:
    """The error of a server that does not answer."""
    cause = getattr(error, "reason", None) or error
    return NoAnswer(
        f"the Kubernetes API server at {host} does not answer: {cause}",
        hint="check KUBECONFIG and --context, and that the server can be reached from here",
    )


def _json(response: Any) -> Fields:  # noqa: ANN401 (urllib3's response)
    found = json.loads(response.data)
    return found if isinstance(found, dict) else {}


def _translated(error: Any, host: str, namespace: str) -> SiteError:  # noqa: ANN401 (ApiException)
    """The server's own words, with what to try."""
    words = _words(error)
    if error.status == 401:
        return NoLogin(
            f"the Kubernetes API server at {host} does not know these credentials (401 {words})",
            hint="log in again, or choose another --context",
        )
    if error.status == 403 and _NO_RIGHT.search(words):
        return Denied(
            f"not allowed in namespace {namespace}: {words}",
            hint="ask the cluster's administrator for that right, or give another --namespace",
        )
    if error.status == 404:
        return NotFound(f"Kubernetes: {words}", hint="check --namespace")
    if error.status == 409 and "AlreadyExists" in str(error.body):
        return SiteError(f"Kubernetes: {words}", hint="delete it, or submit again for another name")
    if error.status in (400, 403, 422):
        return Refused(words)
    if not error.status:
        return unreachable(error, host)
    kind = NoAnswer if error.status >= 500 else SiteError  # its store, or a proxy before it, may be late
    return kind(f"Kubernetes: {error.status} {words}", hint="look at the cluster, and try again")


def _words(error: Any) -> str:  # noqa: ANN401 (ApiException)
    """What the server says; it writes JSON, or plain text where a path is unknown."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.strip() or str(error.reason)
