"""A pod of the kubelet in miniature: volumes, network, containers one after the other, status, end."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import shutil
import socket
import threading
import time
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubelet_logs
from container import Container, Mount, Sandbox, Spec
from kubernetes import client

if TYPE_CHECKING:
    from minikubelet import Kubelet

LOOK_SECONDS = 0.1


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expand(text: str, environ: Mapping[str, str]) -> str:
    """``$(NAME)`` in a pod's words and values; ``$$`` is one ``$``; an unknown name stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return environ.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


class Pod:
    """One pod, from the moment it was given to a node."""

    def __init__(self, kubelet: Kubelet, pod: Any) -> None:
        self.kubelet, self.pod = kubelet, pod
        self.namespace, self.name, self.uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
        self.folder = Path(kubelet.settings.folder) / self.uid
        self.hosts = self.folder / "hosts"
        self.address = f"10.244.{next(kubelet.numbers)}"
        self.sandbox: Sandbox | None = None
        self.current: Container | None = None
        self.stopping = threading.Event()
        self.ended = threading.Event()
        self.started = now()
        self.statuses: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        """From Pending to Succeeded or Failed; returns early when the pod is deleted."""
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 (a thread's last words)
            print(f"pod {self.name}: {type(error).__name__}: {error}", flush=True)
            self.report("Failed", ready=False)
        finally:
            self.ended.set()

    def _run(self) -> None:
        self.folder.mkdir(parents=True)
        self.hosts.write_text(f"127.0.0.1 localhost\n{self.address} {self.own_names()}\n")
        volumes = self._volumes()
        if volumes is None:
            return
        name = self.pod.spec.hostname or self.name
        self.sandbox = Sandbox(name, self.address, self.kubelet.settings.bridge)
        self.kubelet.write_names()
        for container in self.pod.spec.init_containers or []:
            code = self._execute(container, volumes, last=False)
            if code != 0:
                if code is not None:
                    self.report("Failed", ready=False)
                return
        code = self._execute(self.pod.spec.containers[0], volumes, last=True)
        if code is not None:
            self.report("Failed" if code else "Succeeded", ready=False)

    def _execute(self, container: Any, volumes: Mapping[str, Path], *, last: bool) -> int | None:
        """Run a container to its end; its exit code, None where the pod was deleted before it started."""
        image = self.kubelet.settings.images[container.image]
        environ = self._environ(container, image)
        if environ is None:
            return None
        words = [expand(word, environ) for word in [*(container.command or []), *(container.args or [])]]
        spec = Spec(
            folder=str(self.folder / f"root-{container.name}"),
            argv=tuple(words or image.get("command", ["true"])),
            environ=environ,
            binds=tuple(image.get("binds", ())),
            mounts=(*self._mounts(container, volumes), Mount(str(self.hosts), "/etc/hosts")),
            cwd=container.working_dir or "/",
        )
        begun = now()
        with kubelet_logs.Writer(self.folder / f"{container.name}.log") as output:
            assert self.sandbox is not None
            self.current = Container(self.sandbox, spec, output.fileno())
            self._state(container, {"running": {"startedAt": begun}}, ready=False)
            if last:
                ready = not container.readiness_probe
                self._state(container, {"running": {"startedAt": begun}}, ready=ready)
                self.report("Running", ready=ready)
                if not ready:
                    threading.Thread(target=self._probe, args=(container, begun), daemon=True).start()
            else:
                self.report("Pending", ready=False)
            code = self.current.wait()
        reason = "Completed" if code == 0 else "StartError" if code == 128 else "Error"
        ended = {"exitCode": code, "reason": reason, "startedAt": begun, "finishedAt": now()}
        self._state(container, {"terminated": ended}, ready=False)
        return code

    def _probe(self, container: Any, begun: str) -> None:
        probe = container.readiness_probe
        port = int(probe.tcp_socket.port)
        current = self.current
        while not self.stopping.is_set() and current is not None and current.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((self.address, port), 1.0):
                self._state(container, {"running": {"startedAt": begun}}, ready=True)
                self.report("Running", ready=True)
                return
            time.sleep(LOOK_SECONDS)

    def _environ(self, container: Any, image: Mapping[str, Any]) -> dict[str, str] | None:
        environ = {"PATH": image["path"], "HOSTNAME": self.pod.spec.hostname or self.name, "HOME": "/root"}
        for item in container.env or []:
            if item.value_from is None:
                environ[item.name] = expand(item.value or "", environ)
            elif item.value_from.field_ref is not None:
                environ[item.name] = self._field(item.value_from.field_ref.field_path)
            elif item.value_from.secret_key_ref is not None:
                wanted = item.value_from.secret_key_ref
                data = self._data("secret", wanted.name, optional=bool(wanted.optional))
                if data is None:
                    return None
                if wanted.key in data:
                    environ[item.name] = data[wanted.key].decode()
        return environ

    def _field(self, path: str) -> str:
        if match := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
            return str((getattr(self.pod.metadata, match[1]) or {}).get(match[2], ""))
        known = {
            "metadata.name": self.name,
            "metadata.namespace": self.namespace,
            "metadata.uid": self.uid,
            "spec.nodeName": self.pod.spec.node_name,
            "status.podIP": self.address,
        }
        return str(known[path])

    def _data(self, kind: str, name: str, *, optional: bool = False) -> dict[str, bytes] | None:
        """A ConfigMap's or Secret's content; waits for it, as kubelets do. None where the pod is deleted."""
        read = getattr(self.kubelet.core, f"read_namespaced_{kind}")
        while not self.stopping.is_set():
            try:
                found = read(name, self.namespace)
            except client.ApiException as error:
                if error.status != 404:
                    raise
                if optional:
                    return {}
                self.stopping.wait(LOOK_SECONDS)
                continue
            if kind == "secret":
                return {key: b64decode(text) for key, text in (found.data or {}).items()}
            plain = {key: text.encode() for key, text in (found.data or {}).items()}
            return plain | {key: b64decode(text) for key, text in (found.binary_data or {}).items()}
        return None

    def _volumes(self) -> dict[str, Path] | None:
        """A folder for each volume; None where the pod is deleted meanwhile."""
        folders = {}
        for volume in self.pod.spec.volumes or []:
            folder = self.folder / "volumes" / volume.name
            folder.mkdir(parents=True)
            source = volume.config_map or volume.secret
            if source is not None:
                kind = "config_map" if volume.config_map else "secret"
                name = volume.config_map.name if volume.config_map else volume.secret.secret_name
                data = self._data(kind, name)
                if data is None:
                    return None
                _write_files(folder, source, data)
            elif volume.host_path is not None:
                folder = Path(volume.host_path.path)
            folders[volume.name] = folder
        return folders

    def _mounts(self, container: Any, volumes: Mapping[str, Path]) -> list[Mount]:
        kinds = {volume.name: volume for volume in self.pod.spec.volumes or []}
        mounts = []
        for mount in container.volume_mounts or []:
            volume = kinds.get(mount.name)
            if volume is None or volume.projected is not None:
                continue  # the service account's token, which the API server adds
            source = volumes[mount.name] / (mount.sub_path or "")
            fixed = volume.config_map is not None or volume.secret is not None or bool(mount.read_only)
            mounts.append(Mount(str(source), mount.mount_path, fixed))
        return mounts

    def _state(self, container: Any, state: Mapping[str, Any], *, ready: bool) -> None:
        self.statuses[container.name] = {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": ready,
            "started": "running" in state,
            "restartCount": 0,
            "state": state,
        }

    def report(self, phase: str, *, ready: bool) -> None:
        """Tell the API server."""
        kinds = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
        inits = {container.name for container in self.pod.spec.init_containers or []}
        body: dict[str, Any] = {
            "phase": phase,
            "startTime": self.started,
            "conditions": [
                {"type": kind, "status": str(true), "lastTransitionTime": now()}
                for kind, true in kinds.items()
            ],
            "initContainerStatuses": [one for name, one in self.statuses.items() if name in inits],
            "containerStatuses": [one for name, one in self.statuses.items() if name not in inits],
        }
        if self.sandbox is not None:
            body |= {"podIP": self.address, "podIPs": [{"ip": self.address}]}
            body |= {"hostIP": "127.0.0.1", "hostIPs": [{"ip": "127.0.0.1"}]}
        with contextlib.suppress(client.ApiException):  # it is gone, or the server is
            self.kubelet.core.patch_namespaced_pod_status(self.name, self.namespace, {"status": body})

    def own_names(self) -> str:
        """What a kubelet writes into a pod's own /etc/hosts."""
        short, domain = self.pod.spec.hostname or self.name, self.pod.spec.subdomain
        return f"{short}.{domain}.{self.namespace}.svc.cluster.local {short}" if domain else short

    def stop(self, grace_seconds: float) -> None:
        """The pod was deleted: end it and give it back. A second wish may leave less time."""
        if self.stopping.is_set():
            if self.current is not None:
                self.current.stop(grace_seconds)
            return
        self.stopping.set()
        if self.current is not None:
            self.current.stop(grace_seconds)
        self.ended.wait(10.0)
        if self.sandbox is not None:
            self.sandbox.close()
        self._give_back()
        self.kubelet.forget(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _give_back(self) -> None:
        """Remove the object, which the API server keeps until then."""
        # All in the body: the server does not look at the query where there is one.
        this_one = client.V1Preconditions(uid=self.uid)
        options = client.V1DeleteOptions(grace_period_seconds=0, preconditions=this_one)
        while True:
            try:
                self.kubelet.core.delete_namespaced_pod(self.name, self.namespace, body=options)
            except client.ApiException as error:
                if error.status in (404, 409):  # gone, and perhaps replaced
                    return
                print(f"pod {self.name}: {error.status} {error.body}", flush=True)
            time.sleep(LOOK_SECONDS)


def _write_files(folder: Path, source: Any, data: Mapping[str, bytes]) -> None:
    """The files of a configMap or secret volume, with the modes that it asks for."""
    names = {item.key: (item.path, item.mode) for item in source.items or []}
    for key, content in data.items():
        name, mode = names.get(key, (key, None) if not names else (None, None))
        if name is not None:
            (folder / name).write_bytes(content)
            (folder / name).chmod(mode or source.default_mode or 0o644)
    # A key may be asked for under two names.
    for item in source.items or []:
        (folder / item.path).write_bytes(data[item.key])
        (folder / item.path).chmod(item.mode or source.default_mode or 0o644)
