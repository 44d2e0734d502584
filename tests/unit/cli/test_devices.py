"""`busbw devices`: the survey as text and JSON, and its exit codes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest  # noqa: TC002 (a fixture's type)

from busbw.cli import devices as command
from busbw.cli.devices import RunDefaults, Survey, lines, sections
from busbw.cli.main import main
from busbw.errors import ExitCode
from busbw.machine.backends import BackendStatus, Reason
from busbw.machine.gpus import Gpu, GpuPresence, Gpus
from busbw.machine.host import AvailableMemory, Host, Memory, Processors
from busbw.machine.libraries import LibraryInfo
from busbw.machine.native.nvml import NvLink
from busbw.machine.nics import CxiDevice, NetworkInterface, Nics, RdmaDevice, RdmaPort

GIB = 2**30
LINKS = tuple(NvLink(index, index < 17, "nvswitch", "") for index in range(18))
GPU = Gpu(0, "NVIDIA H200", "GPU-1234", "0000:1b:00.0", 140 * GIB, (9, 0), 0, LINKS, 26.562)
RDMA = RdmaDevice(
    "mlx5_0", "infiniband", "mlx5_core", "28.1", "0000:18:00.0", 1, ("ib0",),
    (RdmaPort(1, "ACTIVE", "LinkUp", "InfiniBand", 400.0, ""),),
)  # fmt: skip
EFA = RdmaDevice(
    "rdmap0", "efa", "efa", "", "0000:4f:00.0", 0, (),
    (RdmaPort(1, "ACTIVE", "LinkUp", "Unspecified", None, "the driver says 100 Gb/sec"),),
)  # fmt: skip
NICS = Nics(
    (RDMA, EFA),
    (CxiDevice("cxi0", "up", "BS_200G", "0000:21:00.0", None, ("hsn0",)),),
    (
        NetworkInterface("eth0", "up", 25.0, 9000, "ena", "0000:00:05.0", 0),
        NetworkInterface("docker0", "down", None, 1500, "", "", None),
    ),
)
HOST = Host(
    "node7", "6.1.0", "Debian GNU/Linux 12",
    Processors("Xeon", "x86_64", 2, 96, 192, 192, None, 192),
    Memory(2048 * GIB, 2000 * GIB, (), ""),
)  # fmt: skip
SURVEY = Survey(
    RunDefaults("nccl", 1),
    (
        BackendStatus("nccl", (), "1 GPU visible; NCCL 2.28.9 at /x/libnccl.so.2 (system)"),
        BackendStatus("mpi", (Reason("no MPI library found", "pip install mpich"),), ""),
    ),
    Gpus(GpuPresence(1, "13.0"), "580.65", (GPU,)),
    NICS,
    (LibraryInfo("/x/libnccl.so.2.28.9", "libnccl.so.2", "2.28.9", "abcdef0123456789"),),
    HOST,
    AvailableMemory(2000 * GIB, "MemAvailable of the host"),
)


def lines_of(survey: Survey) -> list[str]:
    return [" ".join(line.split()) for line in lines(sections(survey))]


# But an interface that carries nothing: docker0.
TABLES = """
    takes backend nccl, 1 rank, started on this host
    nccl yes 1 GPU visible; NCCL 2.28.9 at /x/libnccl.so.2 (system)
    mpi no no MPI library found
    hint: pip install mpich
    0 NVIDIA H200 140.0 GiB 9.0 0000:1b:00.0 0 17 of 18 x 26.562 GB/s GPU-1234
    mlx5_0 infiniband ACTIVE 400 Gbit/s mlx5_core 1 ib0
    rdmap0 efa ACTIVE the driver says 100 Gb/sec efa 0
    cxi0 slingshot up BS_200G cxi hsn0
    eth0 ethernet up 25 Gbit/s ena 0
    libnccl.so.2 2.28.9 abcdef012345 /x/libnccl.so.2.28.9
    memory 2.0 TiB available (MemAvailable of the host)
"""


def test_plain_text_says_what_there_is() -> None:
    told = lines_of(SURVEY)
    assert [line for line in map(str.strip, TABLES.strip().splitlines()) if line not in told] == []
    assert "docker0" not in " ".join(told)


def test_what_there_is_not_is_said_in_its_place() -> None:
    presence = GpuPresence(0, "", "no NVIDIA driver: libcuda.so.1 not found", "install one")
    refusal = RunDefaults(problem="backend nccl is not usable: x", hint="try y")
    told = lines_of(replace(SURVEY, gpus=Gpus(presence, "", ()), choice=refusal))
    assert told[1:3] == ["refuses backend nccl is not usable: x", "hint try y"]
    assert told[told.index("GPUs") + 1] == "no NVIDIA driver: libcuda.so.1 not found"
    joined = lines_of(replace(SURVEY, choice=RunDefaults("nccl", 16, "torchrun")))
    assert joined[1] == "takes backend nccl, 16 ranks, joining torchrun"


def test_a_narrow_terminal_has_no_uuids() -> None:
    every, narrow = (" ".join(lines(sections(SURVEY), columns)) for columns in (150, 149))
    assert "GPU-1234" in every
    assert "GPU-1234" not in narrow


def test_json_has_everything_and_says_usable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "read_survey", lambda nccl: replace(SURVEY, backends=SURVEY.backends[1:]))
    assert main(["devices"]) == ExitCode.ENVIRONMENT
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(command, "read_survey", lambda nccl: SURVEY)
    assert main(["devices", "--format", "json"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert [(status["name"], status["usable"]) for status in told["backends"]] == [
        ("nccl", True),
        ("mpi", False),
    ]
    assert told["nics"]["interfaces"][1]["name"] == "docker0"
    assert told["gpus"]["gpus"][0]["uuid"] == "GPU-1234"


def test_this_machine_is_read_and_its_mpi_named() -> None:
    survey = command.read_survey(None)
    mpi = next(status for status in survey.backends if status.name == "mpi")
    assert mpi.usable, mpi.reasons  # the bundled MPI is a dependency
    assert any("MPI" in library.version for library in survey.libraries)
    assert survey.choice.backend or survey.choice.problem


def test_ranks_without_mpi_cannot_measure_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "choose_backend", lambda requested, nccl: "mpi")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    choice = command.read_survey(None).choice
    assert not choice.backend
    assert "environment does not set up MPI" in choice.problem


def test_an_unknown_libnccl_is_told_not_raised(tmp_path: object) -> None:
    status = command.read_survey(f"{tmp_path}/none.so").backends[0]
    assert not status.usable
