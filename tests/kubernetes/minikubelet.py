"""A kubelet in miniature: runs the pods of its nodes as local processes, with true exit codes and logs.

What is real: everything that the API server, the controllers and the scheduler see. What is not: images (a
table of names stands for a registry, see ``container``), resource limits (nothing is enforced), the network
plugin (a bridge), cluster DNS (names of headless services are written to each pod's /etc/hosts, from the
EndpointSlices that the real controller makes), probes other than tcpSocket, restarts of containers, and
volumes other than configMap, secret, emptyDir and hostPath.

usage: minikubelet.py SETTINGS.json      (see ``Settings``)
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import kubelet_logs
from kubelet_pod import LOOK_SECONDS, Pod, now
from kubernetes import client, config, watch


@dataclass(frozen=True)
class Settings:
    """``images``: name -> {"path": PATH inside, "binds": [folder, ...]}. ``nodes``: name -> capacity."""

    kubeconfig: str
    folder: str
    port: int
    bridge: str
    images: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, Mapping[str, str]]
    labels: Mapping[str, str] = field(default_factory=dict)


class Kubelet:
    """All nodes in one process: they share a port and a folder."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        config.load_kube_config(settings.kubeconfig)
        self.core = client.CoreV1Api()
        self.numbers: Any = (f"{number // 250}.{number % 250 + 2}" for number in itertools.count())
        self.pods: dict[str, Pod] = {}
        self._lock = threading.Lock()
        Path(settings.folder).mkdir(parents=True, exist_ok=True)

    def serve(self) -> None:
        """Follow the pods for ever."""
        kubelet_logs.serve(Path(self.settings.folder), self.settings.port, self.log_of)
        for name, capacity in self.settings.nodes.items():
            self._register(name, capacity)
        for follow in (self._follow_pods, self._follow_names):
            threading.Thread(target=_for_ever, args=(follow,), daemon=True).start()
        print("ready", flush=True)

    def log_of(self, namespace: str, name: str, container: str) -> tuple[Path, Callable[[], bool]] | None:
        """A container's log, and whether it is complete."""
        with self._lock:
            pods = [pod for pod in self.pods.values() if (pod.namespace, pod.name) == (namespace, name)]
        if not pods:
            return None
        states = pods[0].statuses
        path = pods[0].folder / f"{container}.log"
        return path, lambda: "terminated" in states.get(container, {}).get("state", ())

    def forget(self, pod: Pod) -> None:
        with self._lock:
            self.pods.pop(pod.uid, None)

    def _register(self, name: str, capacity: Mapping[str, str]) -> None:
        labels = {"kubernetes.io/hostname": name, **self.settings.labels}
        with contextlib.suppress(client.ApiException):
            self.core.create_node({"metadata": {"name": name, "labels": labels}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                 "lastHeartbeatTime": now(), "lastTransitionTime": now()}  # fmt: skip
        status = {
            "capacity": dict(capacity),
            "allocatable": dict(capacity),
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.settings.port}},
            "conditions": [ready],
        }
        self.core.patch_node_status(name, {"status": status})

    def _follow_pods(self) -> None:
        for event in watch.Watch().stream(self.core.list_pod_for_all_namespaces, timeout_seconds=300):
            pod = event["object"]
            if pod.spec.node_name not in self.settings.nodes:
                continue
            with self._lock:
                known = self.pods.get(pod.metadata.uid)
                new = known is None and event["type"] != "DELETED" and pod.status.phase == "Pending"
                if new:
                    known = self.pods[pod.metadata.uid] = Pod(self, pod)
            if new and known is not None:
                threading.Thread(target=known.run, daemon=True).start()
            if known is not None and (event["type"] == "DELETED" or pod.metadata.deletion_timestamp):
                grace = 0 if event["type"] == "DELETED" else pod.metadata.deletion_grace_period_seconds or 0
                threading.Thread(target=known.stop, args=(grace,), daemon=True).start()

    def _follow_names(self) -> None:
        discovery = client.DiscoveryV1Api()
        for _ in watch.Watch().stream(discovery.list_endpoint_slice_for_all_namespaces, timeout_seconds=300):
            self.write_names()

    def write_names(self) -> None:
        """What cluster DNS would answer, to every pod's /etc/hosts; in place, as the file is mounted."""
        slices = client.DiscoveryV1Api().list_endpoint_slice_for_all_namespaces().items
        names: dict[str, list[str]] = {}
        for part in slices:
            service = (part.metadata.labels or {}).get("kubernetes.io/service-name", "")
            domain = f"{service}.{part.metadata.namespace}.svc"
            for endpoint in part.endpoints or []:
                if endpoint.hostname and endpoint.conditions.ready:
                    line = f"{endpoint.addresses[0]} {endpoint.hostname}.{domain}.cluster.local "
                    line += f"{endpoint.hostname}.{domain} {endpoint.hostname}.{service}"
                    names.setdefault(part.metadata.namespace, []).append(line)
        with self._lock:
            for pod in self.pods.values():
                own = f"{pod.address} {pod.own_names()}"
                lines = ["127.0.0.1 localhost", own, *sorted(names.get(pod.namespace, []))]
                text = "\n".join((*lines, ""))
                if pod.hosts.exists() and pod.hosts.read_text() != text:
                    pod.hosts.write_text(text)


def _for_ever(follow: Callable[[], None]) -> None:
    while True:
        try:
            follow()
        except Exception as error:  # noqa: BLE001 (a watch ends for many reasons; begin again)
            print(f"{follow.__name__}: {type(error).__name__}: {error}", flush=True)
            time.sleep(LOOK_SECONDS)


def main() -> None:
    kubelet = Kubelet(Settings(**json.loads(Path(sys.argv[1]).read_text())))
    kubelet.serve()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    os._exit(0)  # the kernel ends every container with us


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
