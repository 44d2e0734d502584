"""``--each-nic``: a launch for each NIC with its variables, one table; no launch where it says nothing; what
confines each library to one NIC.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from busbw.cli.app import RunCommand
from busbw.cli.each_nic import confining, read_nics
from busbw.cli.main import main
from busbw.errors import ExitCode, RankFailed, UsageError
from busbw.launch.variables import read_here
from busbw.model.event import EventKind, error_event, event

OPERANDS = ["isolate", "--on", "hosts", "--hosts", "h1,h2,h3,h4", "--backend", "mpi"]
KINDS = (ExitCode.OK, ExitCode.BAD_VERDICT, ExitCode.UNDECIDED, ExitCode.ENVIRONMENT)
CODES = dict(zip(("eth0", "eth1", "eth2", "bad0"), KINDS, strict=True))


class Launches:
    """In place of runs: each ends with the code of its NIC. ``loses``: by this one h2 is lost, once; ``met``:
    ranks come as far as to know each other.
    """

    def __init__(self) -> None:
        self.loses, self.met = "", True
        self.seen: list[tuple[str, str, dict[str, str], int]] = []

    def __call__(self, command: RunCommand) -> ExitCode:
        settings, launch, hear, before = command.settings, command.launch, command.hear, command.before
        assert settings.hunt is not None
        nic = settings.hunt.each_nic
        self.seen.append((nic, launch.hosts, read_here(launch, {}), len(before)))
        if self.met:
            hear(event(EventKind.HEADER, world={"places": []}))
        if nic == self.loses:
            self.loses = ""
            hear(error_event(RankFailed("rank 1 on h2 was killed by SIGKILL", rank=1, host="h2")))
            return ExitCode.RANK_FAILED
        suspects = [{"names": ["h3"]}] if CODES[nic] is ExitCode.BAD_VERDICT else []
        hear(event(EventKind.VERDICT, hunt={"fields": [{"suspects": suspects}]}))
        print(json.dumps({"run_id": nic}) if settings.format == "json" else f"# hunt by {nic}")
        return ExitCode.BAD_VERDICT if before else CODES[nic]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    found = Launches()
    monkeypatch.setattr("busbw.cli.isolate.run", found)
    return found


@pytest.mark.parametrize(
    ("nics", "code"),
    [
        ("eth0", ExitCode.OK),
        ("eth0,eth2", ExitCode.UNDECIDED),
        ("eth2,eth1,eth0", ExitCode.BAD_VERDICT),
        ("bad0,eth1", ExitCode.ENVIRONMENT),
    ],
)
def test_the_worst_verdict_is_the_exit_code(launches: Launches, nics: str, code: ExitCode) -> None:
    assert main([*OPERANDS, "--each-nic", nics]) == code
    assert [nic for nic, *_ in launches.seen] == nics.split(",")


def test_every_launch_has_the_variables_of_its_nic(launches: Launches, capsys: Any) -> None:
    words = [*OPERANDS, "--env", "UCX_TLS=tcp", "--env", "UCX_NET_DEVICES=eth7", "--each-nic", "eth0,eth1"]
    assert main(words) == ExitCode.BAD_VERDICT
    for nic, _, variables, _ in launches.seen:
        assert variables["UCX_TLS"] == "tcp"
        assert variables["UCX_NET_DEVICES"] == variables["BUSBW_BY_NIC"] == nic
        assert not any(name.startswith("NCCL_") for name in variables)
    table = ["# NIC   verdict  who", "# eth0  healthy  -", "# eth1  slow     h3"]
    assert capsys.readouterr().out.splitlines() == ["# hunt by eth0", "# hunt by eth1", *table]


@pytest.mark.usefixtures("launches")
def test_a_program_gets_one_document(capsys: Any) -> None:
    assert main([*OPERANDS, "--each-nic", "eth0,eth1", "--format", "json"]) == ExitCode.BAD_VERDICT
    told = json.loads(capsys.readouterr().out)["each_nic"]
    assert [(each["nic"], each["exit_code"], each["record"]["run_id"]) for each in told] == [
        ("eth0", 0, "eth0"),
        ("eth1", 1, "eth1"),
    ]


def test_who_is_lost_by_one_nic_is_left_out_of_the_next(launches: Launches, capsys: Any) -> None:
    launches.loses = "eth0"
    assert main([*OPERANDS, "--each-nic", "eth0,eth2"]) == ExitCode.BAD_VERDICT
    assert [(nic, hosts, lost) for nic, hosts, _, lost in launches.seen] == [
        ("eth0", "h1,h2,h3,h4", 0),
        ("eth0", "h1,h3,h4", 1),
        ("eth2", "h1,h3,h4", 1),
    ]
    assert "# eth0  host lost  h2 (lost)" in capsys.readouterr().out


def test_ranks_that_do_not_meet_by_a_nic_are_not_lost(launches: Launches) -> None:
    launches.loses, launches.met = "eth0", False
    assert main([*OPERANDS, "--each-nic", "eth0"]) == ExitCode.RANK_FAILED
    assert len(launches.seen) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["isolate", "--each-nic", "eth0"], "hint: test several hosts: add --on hosts"),
        (["isolate", "--on", "hosts", "--hosts", "h1:4", "--each-nic", "eth0"], "do not use a NIC"),
        (["isolate", "--on", "slurm", "-N", "1", "--each-nic", "eth0"], "do not use a NIC"),
        ([*OPERANDS, "--detach", "--each-nic", "eth0"], "cannot run detached"),
        (["pairs", "--each-nic", "eth0"], "unknown flag '--each-nic'"),
    ],
)
def test_where_it_says_nothing_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, words: list[str], said: str
) -> None:
    monkeypatch.setattr("busbw.cli.each_nic.identify", lambda environ: None)
    assert main(words) == ExitCode.USAGE
    assert said in capsys.readouterr().err


# ---- variables and names ---------------------------------------------------------------------------------

NCCL_OF_ETH = {"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
MPI_OF_ETH = {"UCX_NET_DEVICES": "eth1", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_tcp_if_include": "eth1"}


@pytest.mark.parametrize(
    ("nic", "backend", "variables"),
    [
        ("eth1", "nccl", NCCL_OF_ETH),
        ("eth1", "mpi", MPI_OF_ETH),
        ("eth1", "auto", {**NCCL_OF_ETH, **MPI_OF_ETH}),
        ("mlx5_1", "nccl", {"NCCL_IB_HCA": "=mlx5_1", "NCCL_IB_DISABLE": "0"}),
        ("mlx5_1:2", "nccl", {"NCCL_IB_HCA": "=mlx5_1:2", "NCCL_IB_DISABLE": "0"}),
        ("mlx5_1", "mpi", {"UCX_NET_DEVICES": "mlx5_1:1", "OMPI_MCA_pml": "ucx"}),
        # The name of an interface and of a device alike: the port makes it a device.
        ("ibp12s0:1", "mpi", {"UCX_NET_DEVICES": "ibp12s0:1", "OMPI_MCA_pml": "ucx"}),
        ("eth1", "null", {}),
    ],
)
def test_a_row_for_each_library(nic: str, backend: str, variables: dict[str, str]) -> None:
    assert confining(nic, backend) == variables


def test_names_are_read_in_their_order() -> None:
    assert read_nics("mlx5_1, eth0,mlx5_0:2") == ("mlx5_1", "eth0", "mlx5_0:2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("all", "--each-nic all: name the NICs"),
        (",", "--each-nic ,: name the NICs"),
        ("eth0,eth0", "names eth0 twice"),
        ("eth0;reboot", "is not a NIC's name"),
        ("=mlx5_0", "is not a NIC's name"),
        ("rdmap0s6", "libfabric cannot restrict"),
        ("cxi0", "libfabric cannot restrict"),
    ],
)
def test_what_is_no_list_of_nics_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_nics(text)
