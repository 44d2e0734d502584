"""Settings to manifests: whole texts, and what is refused."""

from __future__ import annotations

import base64
import io
import re
import socket
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.golden import is_golden
from busbw_testing.here_engine import MPIEXEC
from busbw_testing.stand_ins import stand_in
from hypothesis import example, given, settings
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.launch.engine import Job, Work
from busbw.launch.kubernetes import engine
from busbw.launch.kubernetes.form import Form, read_form
from busbw.launch.kubernetes.manifest import documents, escaped, pod_templates
from busbw.launch.kubernetes.words import WORDS, Words, read_words
from busbw.launch.kubernetes.yaml import from_yaml, to_yaml
from busbw.launch.topology.order import RankOrder, order_of, read
from busbw.machine.place import POD_VARIABLES
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.request import rank_words

GOLDEN = Path(__file__).parent / "golden" / "kubernetes"
WORK = Work(("run", "all_reduce", "-e", "8G", "--format=jsonl", "--deliver=/home/me/runs/x y"))
ENVIRON = {"NCCL_DEBUG": "INFO", "NOTE": 'a $(b) "c"'}
SITE = (
    *("gpu=8", "networks=ns/a", "queue=user-queue", "priority-class=high", "scheduler=gang.example"),
    *("label=team=fabric", "label=example.com/cost-centre=7", "annotation=example.com/why=a = 'b' $(c)"),
    *("toleration=dedicated=gpu:NoSchedule", "toleration=spot", "toleration=*:NoExecute"),
    *("runtime-class=nvidia", "service-account=runner", "pull-secret=one", "pull-secret=two"),
)
NODES = "n1 s0.s1\nn2 s0.s2\nn3 s0.s1\n"


def job(
    *,
    environ: dict[str, str] | None = None,
    work: Work = WORK,
    backend: str = "auto",
    world: str = "auto",
    ranks: int | None = None,
    **flags: Any,
) -> Job:
    launch = LaunchSettings(on="kubernetes", **{"nodes": "2", "image": "registry/busbw:1", **flags})
    return Job("20261122-101500-all_reduce-3f9a", "/run", work, launch, environ or {}, backend, world, ranks)


def objects(one: Job) -> list[dict[str, Any]]:
    found = order_of(read([("nodes", NODES)])) if one.launch.topology else None
    return documents(one, read_form(one), "team", found)


def manifest(one: Job) -> str:
    return to_yaml(objects(one))


def of_kind(kind: str, *words: str) -> Job:
    """A job of a kind, with these words of --set."""
    return job(set=(f"kind={kind}", *words), mpi="auto" if kind == "mpijob" else "none")


CASES = {
    "mpijob-mpich": job(ranks_per_node=8, environ=ENVIRON),
    # The AWS kit's p5 job: 2 workers of 8 GPUs and 32 EFA interfaces.
    "mpijob-openmpi-p5": job(
        mpi="openmpi",
        environ=ENVIRON,
        mounts="/dev/shm/x:/x",
        mpirun_args="--mca pml ^ucx",
        set=(
            *("gpu=8", "nic=32", "hugepages-2Mi=5120Mi", "memory=32000Mi"),
            "instance-type=p5.48xlarge",
        ),
    ),
    # CoreWeave's H100 job: InfiniBand as a resource of its own, a node type label, 64 ranks.
    "mpijob-h100-ib": job(
        nodes="8",
        time_limit="20m",
        set=(
            *("slots=8", "gpu=8", "nic=rdma/ib=1", "cpu=110", "memory=960Gi"),
            "select=node.coreweave.cloud/type=gd-8xh100ib-i128",
        ),
    ),
    "job-nccl": job(world="nccl", environ=ENVIRON, set=("gpu=1",), exclusive=False),
    "job-slots": job(mpi="none", set=("gpu=8", "shm=16Gi", "pull-secret=me", "service-account=runner")),
    "jobset": job(mpi="none", time_limit="600", set=("kind=jobset", "gpu=4")),
    # CoreWeave's two racks with dynamic resource allocation, and what else concerns the place of a pod.
    "mpijob-place": job(
        nodes="32",
        set=(
            *(
                "slots=4",
                "gpu=4",
                "nic=rdma/ib=1",
                "resource=example.com/thing=2",
                "resource=ephemeral-storage=10Gi",
            ),
            *("compute-domain=0", "spread=topology.kubernetes.io/zone=2", "networks=ns/a, b", "networks=c"),
            *(
                "affinity=nvidia.com/gpu.clique,zone:preferred",
                "select=type=x|y",
                "select=one=z",
                "exclude=n1,n2",
            ),
        ),
    ),
    "jobset-place": job(
        mpi="none", set=("kind=jobset", "compute-domain=2", "affinity=nvidia.com/gpu.clique"), exclusive=False
    ),
    # A shared cluster: a queue, a priority, tainted nodes, and labels that say who pays.
    "mpijob-site": job(set=SITE),
    "job-site": job(mpi="none", set=SITE),
    "mpijob-topology": job(ranks_per_node=2, topology=("nodes",)),
    "job-bring": job(mpi="none", bring=True, environ={"PYTHONPATH": "/mine"}),
    "exec-job": job(mpi="none", set=("gpu=8",), work=Work(("train",), is_busbw=False)),
    "exec": job(work=Work(("sh", "-c", 'echo "$HOME"'), is_busbw=False)),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_manifest(name: str) -> None:
    is_golden(manifest(CASES[name]), GOLDEN / f"{name}.yaml")


def expanded(text: str) -> str:
    """What Kubernetes makes of a word where no variable has any of its names."""
    return re.sub(r"\$\$|\$\([^)]*\)", lambda match: "$" if match[0] == "$$" else "EXPANDED", text)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("$()\n"), max_size=30))
@example("$(PATH)")
@example("$$")
@example("$$(PATH)")
def test_a_word_passes_as_it_is(text: str) -> None:
    assert expanded(escaped(text)) == text


PRINTABLE = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t\n\r"), max_size=20)


@settings(deadline=None, max_examples=50)
@given(PRINTABLE)
@example("a\n")
@example("a \n b\n\n")
@example("  a\n")
@example("no\n")
@example("\x85\n")
@example("\ufeffa\n")
def test_values_pass_through_yaml(text: str) -> None:
    objects = [{"env": [{"name": "A", "value": text}]}]
    assert from_yaml(to_yaml(objects)) == objects


def test_a_mount_can_be_only_read() -> None:
    spec = objects(job(mpi="none", mounts="/a:/b:ro,/c:/d,/e"))[-1]["spec"]["template"]["spec"]
    assert spec["containers"][0]["volumeMounts"][1:] == [
        {"name": "mount-0", "mountPath": "/b", "readOnly": True},
        {"name": "mount-1", "mountPath": "/d"},
        {"name": "mount-2", "mountPath": "/e"},
    ]
    assert [each["hostPath"]["path"] for each in spec["volumes"][1:]] == ["/a", "/c", "/e"]


def test_words_of_mpirun_are_quoted_for_its_shell() -> None:
    (body,) = objects(job(mpirun_args="-x 'a b;c' $(id)"))
    script = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"][2]
    assert " -x 'a b;c' '$$(id)' " in script


def form(**flags: Any) -> Form:
    return read_form(job(**flags))


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ({}, {"ranks": 2, "mpi": "mpich", "compute_domain": None}),
        ({"set": ("gpu=8",)}, {"ranks": 16}),
        ({"set": ("gpu=8",), "ranks_per_node": 4}, {"ranks": 8}),
        ({"set": ("gpu=8", "slots=2")}, {"ranks": 4}),
        # Spread over the pods where nobody says how many each has.
        ({"ranks": 3}, {"slots": 2}),
        ({"set": ("gpu=8",), "ranks": 9}, {"ranks": 9, "slots": 5}),
        ({"set": ("gpu=8", "slots=8"), "ranks": 9}, {"slots": 8}),
        ({"set": ("gpu=8", "np=4")}, {"ranks": 4, "slots": 2}),
        ({"set": ("replicas=3",), "nodes": ""}, {"workers": 3}),
        ({"set": ("replicas=2",)}, {"workers": 2}),  # as -N says
        ({"set": ("nic=rdma/ib=2", "nic=4")}, {"resources": {"rdma/ib": "2", "vpc.amazonaws.com/efa": "4"}}),
        ({"set": ("image=other",)}, {"image": "other"}),
        # 0 is a number there, which NVIDIA's DRA driver recommends.
        ({"set": ("compute-domain=nodes", "compute-domain=0")}, {"compute_domain": 0}),
        ({"set": ("compute-domain=nodes",), "nodes": "4"}, {"compute_domain": 4}),
        # A preset knows the MPI of its image; what the user says holds.
        ({"set": ("mpi=openmpi",)}, {"mpi": "openmpi"}),
        ({"set": ("mpi=openmpi",), "mpi": "mpich"}, {"mpi": "mpich"}),
        ({"set": ("mpi=openmpi",), "mpi": "none"}, {"kind": "job"}),
    ],
)
def test_what_flags_and_words_come_to(flags: dict[str, Any], found: dict[str, Any]) -> None:
    made = form(**flags)
    assert {name: getattr(made, name) for name in found} == found


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"image": ""}, "no container image given"),
        ({"nodes": ""}, "no number of nodes given"),
        ({"set": ("replicas=3",)}, "--set replicas=3, but -N 2"),
        ({"set": ("gpu",)}, "is not KEY=VALUE"),
        ({"set": ("gpus=8",)}, "Kubernetes does not use --set gpus"),
        ({"set": ("gpu=eight",)}, "--set gpu=eight is not a count of nvidia.com/gpu"),
        ({"set": ("slots=0",)}, "--set slots=0 is not a number of ranks"),
        ({"set": ("memory=much",)}, "--set memory=much is not a quantity"),
        ({"set": ("kind=pod",)}, "--set kind=pod is not one of mpijob, job, jobset"),
        ({"set": ("kind=job",), "mpi": "openmpi"}, "a job has no mpirun"),
        (
            {"set": ("kind=mpijob",), "mpi": "none"},
            "an MPIJob needs MPI, but --mpi none or --world nccl is given",
        ),
        ({"set": ("select=a",)}, "is not LABEL=VALUE"),
        ({"set": ("compute-domain=all",)}, "--set compute-domain=all is not a count"),
        ({"set": ("affinity=zone:required",)}, "is not a label of nodes"),
        ({"set": ("spread=zone=0",)}, "is not LABEL=COUNT"),
        ({"set": ("resource=a.com/b=many",)}, "is not NAME=QUANTITY"),
        ({"set": ("toleration=*=a",)}, "is not a taint, NAME[=VALUE][:EFFECT]"),
        ({"topology": ("f",), "mpi": "none"}, "--topology cannot be applied to a job"),
        ({"mpirun_args": "'a"}, "No closing quotation"),
        ({"mounts": "here:/there"}, "--mounts here:/there is not a mount"),
        ({"mounts": "/a:/b:rw"}, "--mounts /a:/b:rw is not a mount"),
        ({"ranks": 1}, "--ranks 1 on 2 nodes"),
        ({"ranks": 3, "ranks_per_node": 1}, "3 ranks but 2 workers of 1 slots"),
        ({"ranks": 3, "ranks_per_node": 2, "mpi": "none"}, "3 ranks do not fill 2 pods of 2"),
    ],
)
def test_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)) as caught:
        form(**flags)
    assert caught.value.hint


def test_an_empty_word_drops_what_a_preset_gave() -> None:
    words = read_words(("pull-secret=theirs", "toleration=a", "cpu=1", "pull-secret=", "pull-secret=mine"))
    assert words == Words(pull_secret=("mine",), toleration=({"key": "a", "operator": "Exists"},), cpu="1")
    assert read_words(("queue=a", "queue=b")).queue == "b"
    assert read_words(("queue=a", "queue=", "gpu=8", "gpu=")) == Words()


def test_the_guide_has_every_word() -> None:
    text = (Path(__file__).parents[3] / "docs" / "guides" / "kubernetes.md").read_text()
    assert [key for key in WORDS if f"`{key}=" not in text] == []


@pytest.mark.parametrize("kind", ["mpijob", "job", "jobset"])
def test_every_word_changes_the_manifest(kind: str) -> None:
    """None is read and dropped. A Job has no launcher, and as many ranks as slots."""
    of_mpijobs = {"np", "mpi", "launcher-cpu", "launcher-memory"}
    plain = objects(of_kind(kind))
    for key in WORDS.keys() - {"kind", "replicas", "np"} - (of_mpijobs if kind != "mpijob" else set()):
        assert objects(of_kind(kind, f"{key}={WORDS[key][1].example}")) != plain, key


@pytest.mark.parametrize("kind", ["mpijob", "job", "jobset"])
def test_a_template_has_every_variable_of_a_pod(kind: str) -> None:
    """The record says where a rank was by these; a worker's sshd hands them on."""
    text = manifest(of_kind(kind))
    for variable in POD_VARIABLES.values():
        assert f"name: {variable}\n" in text
        assert kind != "mpijob" or f" {variable}=$${variable}" in text


PATCH = """
metadata: {labels: {team: fabric}}
spec:
  ttlSecondsAfterFinished: 60
  template:
    spec:
      enableServiceLinks: null
      dnsPolicy: ClusterFirst
      hostAliases: [{ip: 10.0.0.1}]
      containers:
        - name: rank
          env: [{name: BUSBW_CONNECT_TIMEOUT, value: "5"}, {name: NEW, value: $(HOME)}]
          volumeMounts: [{name: shm, mountPath: /also}]
        - {name: beside, image: other}
      tolerations: [{key: nvidia.com/gpu, effect: NoSchedule}, {key: spot, operator: Exists}]
"""


def test_a_patch_is_merged_into_the_job(tmp_path: Path) -> None:
    """Named objects by name, null takes away, anything else is replaced; the rest is as it was."""

    (tmp_path / "patch.yaml").write_text(PATCH)
    one = job(mpi="none", set=("gpu=1",), patch=tmp_path / "patch.yaml")
    facts = engine.inquire(replace(one.launch, namespace="team"))
    made = from_yaml(engine.request(one, facts).files["job.yaml"])
    service, plain = from_yaml(manifest(replace(one, launch=replace(one.launch, patch=None))))
    assert made[0] == service
    pod = plain["spec"]["template"]["spec"]
    rank = pod["containers"][0]
    plain["metadata"]["labels"]["team"] = "fabric"
    plain["spec"]["ttlSecondsAfterFinished"] = 60
    del pod["enableServiceLinks"]
    pod |= {"dnsPolicy": "ClusterFirst", "hostAliases": [{"ip": "10.0.0.1"}]}
    next(each for each in rank["env"] if each["name"] == "BUSBW_CONNECT_TIMEOUT")["value"] = "5"
    rank["env"].append({"name": "NEW", "value": "$(HOME)"})
    rank["volumeMounts"].append({"name": "shm", "mountPath": "/also"})
    pod["containers"].append({"name": "beside", "image": "other"})
    pod["tolerations"][0]["effect"] = "NoSchedule"
    pod["tolerations"].append({"key": "spot", "operator": "Exists"})
    assert made[1] == plain


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "a: 1\n---\nb: 2\n", ""])
def test_what_is_no_patch_is_refused(text: str, tmp_path: Path) -> None:

    (tmp_path / "patch.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"--patch .*patch.yaml") as caught:
        engine.inquire(LaunchSettings(patch=tmp_path / "patch.yaml"))
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["mpijob", "job", "jobset"])
def test_pods_that_measure_stay_on_the_nodes_that_are_named(kind: str) -> None:
    """By the node's name, a term each; without other words there is nothing else in a term."""
    found = objects(of_kind(kind, "only=theirs", "only=", "only=n1, n2", "only=n1"))
    terms = [[{"key": "metadata.name", "operator": "In", "values": [name]}] for name in ("n1", "n2")]
    assert to_yaml(found).count("nodeAffinity") == 1  # an MPIJob's launcher may be anywhere
    required = pod_templates(found[-1])[-1]["spec"]["affinity"]["nodeAffinity"]
    assert required == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": term} for term in terms]
        }
    }


def test_names_are_legal() -> None:
    for body in objects(Job("RUN_FOLDER", "RUN_FOLDER", WORK, LaunchSettings(nodes="2", image="i"))):
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", body["metadata"]["name"])


def test_without_the_extra() -> None:
    words = ["busbw", "run", "all_reduce", "--on", "kubernetes", "-N", "2", "--image", "i", "--dry-run"]
    script = (
        "import sys; sys.modules['kubernetes'] = None; from busbw.__main__ import main;"
        f" sys.argv = {words!r}; raise SystemExit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 4
    assert done.stderr == (
        "error: the Kubernetes engine needs the package kubernetes, which is not installed\n"
        "hint: run in a clone of busbw: pip install '.[kubernetes]'\n"
    )


def test_what_is_brought_fits_into_a_config_map() -> None:
    """With room: the next file must not be the one too many."""

    facts = engine.inquire(LaunchSettings(bring=True, namespace="team"))
    packed = base64.b64decode(facts["bundle"])
    assert len(packed) < 0.9 * 2**20
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = archive.getnames()
        assert {(file.mode, file.uid, file.uname) for file in archive} == {(0o644, 0, "")}
    assert {"busbw/__main__.py", "busbw/py.typed"} <= set(names)
    assert not any("__pycache__" in name for name in names)
    # What starts several ranks of a pod is an engine's file that pods need.
    left = [name for name in names if name.startswith(engine.NOT_FOR_RANKS)]
    assert left == ["busbw/launch/kubernetes/pod.py"]
    assert "busbw/launch/local.py" in names


# Before anything is imported: what finds busbw's own sources would also find what is not in the bundle.
NOT_FROM_SOURCES = """
import sys
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in type(each).__module__]
"""


def test_what_is_brought_is_unpacked_by_the_pods_own_words(tmp_path: Path) -> None:
    """And it is whole: the pod's ranks run from it."""
    facts = engine.inquire(LaunchSettings(bring=True, namespace="team"))
    settings = RunSettings(minbytes=Size(8), maxbytes=Size(8), backend="null", world="nccl")
    one = job(
        mpi="none",
        bring=True,
        python=sys.executable,
        nodes="1",
        ranks_per_node=2,
        work=Work(rank_words(("all_reduce",), settings, tmp_path / "far/run")),
    )
    request = engine.request(one, facts)
    kept = {name: request.details[name] for name in ("bundle", "token")}
    assert kept == {name: facts[name] for name in kept}
    assert not any(value in str(request) for value in kept.values())  # neither is printed
    assert "token" not in engine.request(job(), facts).details  # mpirun's ranks need none
    pod = objects(one)[-1]["spec"]["template"]["spec"]
    *words, source, place = pod["initContainers"][0]["command"]
    packed, brought = tmp_path / Path(source).name, tmp_path / "busbw"
    packed.write_bytes(base64.b64decode(facts["bundle"]))
    assert place == "/busbw"
    subprocess.run([*words, str(packed), str(brought)], check=True)
    (brought / "sitecustomize.py").write_text(NOT_FROM_SOURCES)
    (tmp_path / "far").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        root = f"127.0.0.1:{probe.getsockname()[1]}"
    variables = {"JOB_COMPLETION_INDEX": "0", "BUSBW_WORLD_SIZE": "2", "BUSBW_ROOT": root}
    done = subprocess.run(
        pod["containers"][0]["command"],
        env=clean_environ(PYTHONPATH=str(brought), BUSBW_TOKEN=facts["token"], **variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"event":"end"' in done.stdout


def launched(one: Job, folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """The launcher's script beside a host file in ``folder``, with stand-ins for the image's programs."""
    (body,) = from_yaml(manifest(one))
    container = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    text = expanded(container["command"][2])
    for there in ("/etc/mpi/hostfile", "/tmp/busbw-hostfile", "/tmp/busbw-even-hostfile"):
        text = text.replace(there, str(folder / Path(there).name))
    for name, program in {"python3": ":", **programs}.items():
        stand_in(folder / "bin", name, program)
    return subprocess.run(
        ["sh", "-c", text, "busbw", "-m", "busbw"],
        stdin=subprocess.DEVNULL,
        env={"PATH": f"{folder}/bin:/usr/bin:/bin", "POD_IP": "10.0.0.1"},
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_workers_are_put_in_order_by_their_nodes(mpi: str, tmp_path: Path) -> None:
    """n9 is a node that the topology does not know."""
    nodes = {"w-0": "n2", "w-1": "n9", "w-2": "n1", "w-3": "n3"}
    (tmp_path / "hostfile").write_text("".join(f"{worker}.j.ns.svc slots=2\n" for worker in nodes))
    answers = "\n".join(f"    *' {worker}.'*) printf {node} ;;" for worker, node in nodes.items())
    ssh = f'case " $*" in\n{answers}\n    *) exit 255 ;;\nesac'
    one = job(mpi=mpi, ranks_per_node=2, topology=("nodes",))
    done = launched(one, tmp_path, ssh=ssh, mpirun='printf "%s\\n" "$*"')
    ordered = tmp_path / "busbw-hostfile"
    assert [line.split(".")[0] for line in ordered.read_text().splitlines()] == ["w-2", "w-3", "w-0", "w-1"]
    assert done.stderr == "busbw: node n9 is not in the topology, so its ranks are last\n"
    assert str(ordered) in done.stdout


def test_more_nodes_than_a_manifest_holds() -> None:
    found = RankOrder((("test", "f"),), tuple(f"host-{number:020}" for number in range(5_000)))
    one = job(topology=("nodes",))
    with pytest.raises(UsageError, match="--topology names 5000 hosts"):
        documents(one, read_form(one), "team", found)


# hydra's proxies start here, each for its own line of the host file; a rank says whose it is, and stays for a
# while: mpiexec may still be writing to proxies whose ranks have ended, and then a signal ends it.
HYDRA = f'exec {MPIEXEC} -launcher fork -prepend-pattern "%h " "$1" "$2" "$3" "$4" sh -c "echo; sleep 0.3"'
HOSTS = [f"127.0.0.{number}" for number in range(1, 5)]


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (job(nodes="4", ranks=9), [3, 2, 2, 2]),
        (job(nodes="2", ranks=8, set=("slots=8",)), [4, 4]),
        (job(nodes="2", ranks=8), [4, 4]),  # the operator's own host file says it
    ],
    ids=["9 on 4", "more slots", "even"],
)
def test_every_pod_has_ranks(one: Job, counts: list[int], tmp_path: Path) -> None:
    slots = read_form(one).slots
    (tmp_path / "hostfile").write_text("".join(f"{host}:{slots}\n" for host in HOSTS[: len(counts)]))
    found = Counter(map(str.strip, launched(one, tmp_path, mpirun=HYDRA).stdout.splitlines()))
    assert found == dict(zip(HOSTS, counts, strict=False))


def test_open_mpi_is_told_its_way(tmp_path: Path) -> None:
    (tmp_path / "hostfile").write_text("".join(f"{host} slots=3\n" for host in HOSTS))
    done = launched(job(nodes="4", ranks=9, mpi="openmpi"), tmp_path, mpirun='cat "$4"')
    assert done.stdout.splitlines() == [f"{host} slots={3 if host == HOSTS[0] else 2}" for host in HOSTS]
