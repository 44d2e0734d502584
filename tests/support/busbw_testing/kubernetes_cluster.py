"""A real Kubernetes control plane on this machine, in a network of its own, with nodes that run pods.

etcd, API server, controller manager, scheduler, MPI Operator and JobSet are the real programs
(``kubernetes_tools``); nodes are a kubelet in miniature (tests/kubernetes/minikubelet.py). The calling
thread, and what it starts from then on, lives in a network namespace of the cluster until ``close``: the
cluster is at 127.0.0.1 there and invisible elsewhere, and the kernel removes all with the last process.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import yaml
from kubernetes import client, config

from busbw_testing import namespaces
from busbw_testing.kubernetes_tools import Tools
from busbw_testing.started import completed

_CLONE_NEWNET: Final = 0x40000000
_START_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.1
_BRIDGE: Final = "pods"
_KUBELET: Final = Path(__file__).parents[2] / "kubernetes" / "minikubelet.py"
_ETCD, _API, _WEBHOOK, _KUBELET_PORT = 12379, 16443, 19443, 20250
_CONTROLLERS: Final = (
    "job-controller",
    "serviceaccount-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "resourcequota-controller",
    "ttl-after-finished-controller",
    "endpointslice-controller",
)
# Token -> user and group.
_USERS: Final = {"admin": "system:masters", "dev": "developers"}
INSTANCE_TYPE: Final = "lab.8gpu"
CAPACITY: Final[Mapping[str, str]] = {
    "cpu": "64",
    "memory": "512Gi",
    "pods": "110",
    "nvidia.com/gpu": "8",
    "vpc.amazonaws.com/efa": "4",
}


def why_not() -> str:
    """Why no cluster can be made here, apart from the tools; empty where it can."""
    if shutil.which("openssl") is None:
        return "no openssl here (apt-get install openssl)"
    return namespaces.why_not()


class Cluster:
    """A running cluster. ``images``: what minikubelet's settings say. ``kubeconfig(user)`` is a file whose
    user has that name: ``admin`` may do everything, ``dev`` nothing before a role says so, ``stranger`` has a
    token that nobody knows.

    Raises OSError with the words of the program that did not start; nothing is left then.
    """

    def __init__(self, tools: Tools, folder: Path, images: Mapping[str, Any], nodes: int = 4) -> None:
        self.folder = folder
        self._tools, self._images, self._nodes = tools, images, nodes
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._own_network: int | None = None
        self.api: Any = None

    def __enter__(self) -> Self:
        try:
            self._enter_network()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.folder / f"{user}.kubeconfig"

    def grant(self, namespace: str, *rules: tuple[str, str, list[str]]) -> None:
        """Let the user ``dev`` do this much: group, resources, verbs."""
        rights = [
            {"apiGroups": [group], "resources": resources.split(","), "verbs": verbs}
            for group, resources, verbs in rules
        ]
        self.rbac.create_namespaced_role(namespace, {"metadata": {"name": "dev"}, "rules": rights})
        subject = {"kind": "User", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "dev"}
        binding = {"metadata": {"name": "dev"}, "subjects": [subject], "roleRef": reference}
        self.rbac.create_namespaced_role_binding(namespace, binding)

    @property
    def core(self) -> Any:
        """The core API, as admin."""
        return client.CoreV1Api(self.api)

    @property
    def batch(self) -> Any:
        return client.BatchV1Api(self.api)

    @property
    def rbac(self) -> Any:
        return client.RbacAuthorizationV1Api(self.api)

    @property
    def custom(self) -> Any:
        return client.CustomObjectsApi(self.api)

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Within it, this thread and what it starts have the network of before."""
        inside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        assert self._own_network is not None
        try:
            _system("setns", self._own_network, _CLONE_NEWNET)
            yield
        finally:
            _system("setns", inside, _CLONE_NEWNET)
            os.close(inside)

    def refusing_logs(self) -> contextlib.AbstractContextManager[None]:
        """Nodes refuse connections to their logs."""
        return _refusing(_KUBELET_PORT)

    def refusing_api(self) -> contextlib.AbstractContextManager[None]:
        """The API server refuses connections."""
        return _refusing(_API)

    def tail(self, name: str) -> str:
        """The last words of a program of the cluster."""
        with contextlib.suppress(OSError):
            return "".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines(True)[-20:])
        return ""

    def close(self) -> None:
        """End everything, and return to the network of before."""
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        self._processes.clear()
        if self._own_network is not None:
            _system("setns", self._own_network, _CLONE_NEWNET)
            os.close(self._own_network)
            self._own_network = None

    def _enter_network(self) -> None:
        self._own_network = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _system("unshare", _CLONE_NEWNET)
        for words in (
            "link set lo up",
            f"link add {_BRIDGE} type bridge",
            f"addr add 10.244.255.254/16 dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
        ):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)

    def _start(self) -> None:
        self._start_api()
        self._define()
        self._start_controllers()
        self._start_operators()
        self._start_nodes()
        self._wait("default service account", self._has_service_account)

    def _start_api(self) -> None:
        keys, etcd = self.folder / "sa.key", f"http://127.0.0.1:{_ETCD}"
        _call("openssl", "genrsa", "-out", str(keys), "2048")
        tokens = (f'{user}-token,{user},{user},"{group}"\n' for user, group in _USERS.items())
        (self.folder / "tokens.csv").write_text("".join(tokens))
        peer = f"http://127.0.0.1:{_ETCD + 1}"
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )
        self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={_API}",
            f"--cert-dir={self.folder / 'certificates'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--anonymous-auth=false",
            # The taint it adds is removed by a controller that looks after real nodes.
            "--disable-admission-plugins=TaintNodesByCondition",
        )
        for user in (*_USERS, "stranger"):
            self._write_kubeconfig(user)
        self._wait("API server", self._is_ready)
        self.api = config.new_client_from_config(str(self.kubeconfig()))

    def _write_kubeconfig(self, user: str) -> None:
        cluster = {
            "server": f"https://127.0.0.1:{_API}",
            "certificate-authority": str(self.folder / "certificates" / "apiserver.crt"),
        }
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": f"{user}-token"}}],
            "contexts": [{"name": user, "context": {"cluster": "lab", "user": user}}],
            "current-context": user,
        }
        self.kubeconfig(user).write_text(yaml.safe_dump(settings))

    def _is_ready(self) -> bool:
        request = urllib.request.Request(f"https://127.0.0.1:{_API}/readyz")
        request.add_header("Authorization", "Bearer admin-token")
        unchecked = ssl._create_unverified_context()
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5, context=unchecked):
            return True
        return False

    def _define(self) -> None:
        """The operators' own kinds; before the controller manager, or garbage collection misses them."""
        api = client.ApiextensionsV1Api(self.api)
        for name in ("mpijobs.yaml", "jobsets.yaml"):
            body = yaml.load(self._tools.definition(name), yaml.CSafeLoader)
            api.create_custom_resource_definition(body, _preload_content=False)

        def established() -> bool:
            found = api.list_custom_resource_definition().items
            conditions = [
                [c.type for c in one.status.conditions or [] if c.status == "True"] for one in found
            ]
            return len(found) == 2 and all("Established" in kinds for kinds in conditions)

        self._wait("resource definitions", established)

    def _start_controllers(self) -> None:
        common = (f"--kubeconfig={self.kubeconfig()}", "--leader-elect=false", "--secure-port=0")
        self._run(
            "kube-controller-manager",
            *common,
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            f"--controllers={','.join(_CONTROLLERS)}",
        )
        self._run("kube-scheduler", *common)

    def _start_operators(self) -> None:
        self.core.create_namespace({"metadata": {"name": "mpi-operator"}})  # its leader election is there
        self._run("mpi-operator", environ={"KUBECONFIG": str(self.kubeconfig())})
        keys = self.folder / "jobset"
        keys.mkdir()
        subject = ("-subj", "/CN=jobset", "-addext", "subjectAltName=IP:127.0.0.1")
        files = ("-keyout", str(keys / "tls.key"), "-out", str(keys / "tls.crt"))
        _call("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files)
        settings = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": _WEBHOOK, "certDir": str(keys)},
            "metrics": {"bindAddress": "0"},
        }
        (keys / "settings.yaml").write_text(yaml.safe_dump(settings))
        environ = {"KUBECONFIG": str(self.kubeconfig())}
        self._run("jobset", f"--config={keys / 'settings.yaml'}", environ=environ)
        self._wait("JobSet's webhook", lambda: _listens(_WEBHOOK))
        self._register_webhooks(base64.b64encode((keys / "tls.crt").read_bytes()).decode())

    def _register_webhooks(self, authority: str) -> None:
        api = client.AdmissionregistrationV1Api(self.api)
        for body in yaml.load_all(self._tools.definition("jobset-webhooks.yaml"), yaml.CSafeLoader):
            body["metadata"]["name"] = "jobset-" + body["metadata"]["name"]
            for hook in body["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://127.0.0.1:{_WEBHOOK}{path}"
                hook["clientConfig"] = {"url": url, "caBundle": authority}
                if "pod" in hook["name"]:  # as JobSet's own installation does
                    expression = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                    hook["objectSelector"] = {"matchExpressions": [expression]}
            kind = "mutating" if body["kind"].startswith("Mutating") else "validating"
            getattr(api, f"create_{kind}_webhook_configuration")(body)

    def _start_nodes(self) -> None:
        settings = {
            "kubeconfig": str(self.kubeconfig()),
            "folder": str(self.folder / "kubelet"),
            "port": _KUBELET_PORT,
            "bridge": _BRIDGE,
            "images": self._images,
            "nodes": {f"node-{number}": CAPACITY for number in range(1, self._nodes + 1)},
            "labels": {"node.kubernetes.io/instance-type": INSTANCE_TYPE},
        }
        path = self.folder / "kubelet.json"
        path.write_text(json.dumps(settings))
        self._run("kubelet", str(path), program=(sys.executable, str(_KUBELET)))
        self._wait("nodes", lambda: "ready\n" in self.tail("kubelet"))

    def _has_service_account(self) -> bool:
        with contextlib.suppress(client.ApiException):
            return bool(self.core.read_namespaced_service_account("default", "default"))
        return False

    def _run(
        self, name: str, *words: str, environ: Mapping[str, str] | None = None, program: tuple[str, ...] = ()
    ) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *(program or (self._tools.program(name),)), *words],
                env={**os.environ, **(environ or {})},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended:
                raise OSError(f"{ended[0]} ended: {self.tail(ended[0])}")
            if time.monotonic() > deadline:
                raise OSError(f"{what}: not ready after {_START_SECONDS:.0f} s")
            time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def _refusing(port: int) -> Iterator[None]:
    """Reset every connection to a port of this network namespace, those that are open as well."""
    reject = f"tcp dport {port} reject with tcp reset"
    lines = ("table inet refusing {", "chain input {", "type filter hook input priority 0;", reject, "}", "}")
    _call("nft", "\n".join((*lines, "")))
    try:
        yield
    finally:
        _call("nft", "delete table inet refusing")


def _system(name: str, *arguments: int) -> None:
    """A system call that Python has names for from 3.12 on."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def _call(*words: str) -> None:
    done = completed(words)
    if done.returncode:
        raise OSError(f"{' '.join(words[:2])}: {done.stderr.strip()}")


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False
