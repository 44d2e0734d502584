"""Every preset on each of its engines: what --dry-run prints, as golden/presets/FAMILY/NAME.ENGINE.txt.

Of a family the first is kept whole, and of the others what differs from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.golden import difference, is_golden, whole

from busbw.cli.main import main
from busbw.launch.engine import Facts, load
from busbw.launch.hosts.plan import Site
from busbw.launch.hosts.ssh import HostFacts
from busbw.launch.kubernetes.yaml import from_yaml
from busbw.plan.flags.engines import ENGINES
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.presets.preset import names, read_preset

GOLDEN = Path(__file__).parent / "golden" / "presets"
PYTHON = "/env/bin/python"
IMAGE = "registry.example/busbw:1"
HERE = HostFacts(
    "login", (3, 11), PYTHON, "x86_64", 8, 0, busbw="1.0", mpi="mpich", mpiexec="/env/bin/mpiexec"
)


def nodes_of(name: str) -> tuple[str, ...]:
    """-N as a user has to give it for mere sweeps; one word is enough for a cluster."""
    return ("-N", "2") if name.startswith("generic/") else ()


def words(name: str, engine: str) -> list[str]:
    preset = read_preset(name)
    found = ["run", "all_reduce", "--preset", name, "--on", engine, "--dry-run", *nodes_of(name)]
    if engine == "hosts":
        count = int(preset.launch_values(engine).get("nodes", "2"))  # type: ignore[arg-type]
        found += ["--hosts", ",".join(f"h{number}" for number in range(1, count + 1))]
    return [*found, *(["--image", IMAGE] if engine == "kubernetes" else [])]


def facts(engine: str, launch: LaunchSettings) -> Facts:
    """What a cluster of such nodes would answer; one whose nodes are not said has eight GPUs in each."""
    gpus = read_preset(launch.preset[0]).body.get("node", {"gpus": 8}).get("gpus", 0)
    answer = replace(HERE, cores=96, gpus=gpus)
    hosts = {name: replace(answer, hostname=name) for name in launch.hosts.split(",")}
    known: Mapping[str, Facts] = {
        "slurm": {
            "python": PYTHON,
            "user_id": "1000",
            "setup": "",
            "mpi": "pmix none pmi2",
            "gpus": str(gpus),
            "family": "openmpi",
        },
        "hosts": {"site": Site(hosts, (), HERE, token="0" * 32)},
        "kubernetes": {"namespace": "team", "token": "0" * 32},
        "pbs": {"python": PYTHON, "setup": ""},
    }
    return known[engine]


@pytest.fixture
def dry_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a preset comes to on an engine, nobody being asked."""
    for name in ("LD_LIBRARY_PATH", "BUSBW_PRESET_FILES"):
        monkeypatch.delenv(name, raising=False)

    def run(name: str, engine: str) -> str:
        monkeypatch.setattr(load(engine), "inquire", lambda launch, _command=(), **_: facts(engine, launch))
        assert main(words(name, engine)) == 0, capsys.readouterr().err
        told = capsys.readouterr()
        assert told.err == ""
        return told.out

    return run


def cases() -> Iterator[tuple[str, str]]:
    for name in names():
        yield from ((name, engine) for engine in read_preset(name).engines)


def first_of_family(name: str, engine: str) -> str:
    """The preset whose text is kept whole."""
    family = name.partition("/")[0]
    return next(one for one, other in cases() if one.partition("/")[0] == family and other == engine)


@pytest.mark.parametrize(("name", "engine"), list(cases()))
def test_a_preset_renders_on_its_engine(name: str, engine: str, dry_run: Any) -> None:
    text, first = dry_run(name, engine), first_of_family(name, engine)
    path, base = (GOLDEN / f"{one}.{engine}.txt" for one in (name, first))
    is_golden(text if name == first else difference(base.read_text(), text), path)
    assert whole(path) == text


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("way", [(), ("--world", "nccl")])
def test_a_library_path_goes_before_what_the_ranks_have(
    engine: str, way: tuple[str, ...], dry_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell that submits has folders of its own machine, which mean nothing in a pod or on a node."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/laptop/lib")
    monkeypatch.setitem(globals(), "nodes_of", lambda _: way)
    text = dry_run("alcf/polaris-recommended", engine).replace("$$", "$").replace('\\"', '"')
    assert "/laptop/lib" not in text
    assert 'LD_LIBRARY_PATH="$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"' in text
    assert "/soft/libraries/hwloc/lib:/soft/libraries/aws-ofi-nccl/v1.6.0/lib" in text
    said = (*way, "--env", "LD_LIBRARY_PATH=/mine")
    monkeypatch.setitem(globals(), "nodes_of", lambda _: said)
    text = dry_run("alcf/polaris-recommended", engine)
    assert "/mine" in text
    assert "/soft/libraries" not in text


def versions() -> Iterator[tuple[str, str]]:
    for name, engine in cases():
        yield from ((f"{name}@{version}", engine) for version in read_preset(name).versions)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), list(versions()))
def test_older_values_render_too(name: str, engine: str, dry_run: Any) -> None:
    text = dry_run(name, engine)
    for variable, value in read_preset(name).environ(engine).items():
        assert variable in text
        assert value in text


def test_every_preset_names_engines_and_no_golden_file_is_left_over() -> None:
    assert all(bool(read_preset(name).engines) != bool(read_preset(name).tool) for name in names())
    files = {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.txt")}
    assert files == {f"{name}.{engine}.txt" for name, engine in cases()}


def test_trainium_s_cores_are_a_resource(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command of the user's own may run there: busbw itself has nothing to measure with."""
    monkeypatch.setattr(
        load("kubernetes"), "inquire", lambda launch, _command=(), **_: facts("kubernetes", launch)
    )
    words_ = ["exec", "--preset", "aws/trn1.32xlarge", "--on", "kubernetes", "--image", IMAGE, "--dry-run"]
    assert main([*words_, "--", "nccom-test", "-r", "32", "allr"]) == 0
    *_, job = from_yaml(capsys.readouterr().out)
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    limits = worker["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"vpc.amazonaws.com/efa": "8", "aws.amazon.com/neuroncore": "32"}
