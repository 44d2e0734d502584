"""The environment beside the logs of an environment comparison."""

from pathlib import Path

import pytest
from busbw_testing.logs import PUBLISHED, Command

from busbw.foreign.logs.labels import environment_beside
from busbw.foreign.read_any import log_files
from busbw.record.folder import run_folders
from busbw.record.read import read_record

ENVIRONMENT = """\
HOME=/home/someone
NCCL_NET=AWS Libfabric
FI_CXI_RX_MATCH_MODE=software
NCCL_API_TOKEN=abcdefgh12345678
LD_LIBRARY_PATH=/soft/lib:/opt/lib
PBS_NODEFILE=/var/spool/pbs/aux/1
BASH_FUNC_module%%=() {  eval "x"
 NCCL_DEBUG=INFO
}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "results_polaris" / "n2.g8" / "2024-01-02-03-04-05"
    folder.mkdir(parents=True)
    for setup in ("3", "4"):
        (folder / f"all_reduce_output.dat.{setup}").write_text(PUBLISHED["p4de 2x8"].text())
    (folder / "env.dat.3").write_text(ENVIRONMENT)
    (folder / "modules.dat").write_text("Currently Loaded Modules:\n  1) craype/2.7   2) cuda/12.4.1\n")
    (folder / "ldd.dat").write_text(
        "\tlinux-vdso.so.1 (0x7ff)\n\tlibnccl.so.2 => /soft/libnccl.so.2 (0x7f0)\n"
    )
    (folder / "nodes.dat").write_text("x1\nx2\nx1\n")
    return tmp_path


def test_environment_of_its_own_setup(tree: Path, home: Path, command: Command) -> None:
    command("import", tree / "results_polaris")
    records = {record.source.labels["setup"]: record for record in map(read_record, run_folders(home))}
    third, fourth = records["3"], records["4"]
    assert third.environment["variables"] == {
        "NCCL_NET": "AWS Libfabric",
        "FI_CXI_RX_MATCH_MODE": "software",
        "NCCL_API_TOKEN": "[redacted]",
        "LD_LIBRARY_PATH": "/soft/lib:/opt/lib",
        "PBS_NODEFILE": "/var/spool/pbs/aux/1",
    }
    assert third.environment["redacted"] == ["NCCL_API_TOKEN"]
    assert third.environment["modules"] == ["craype/2.7", "cuda/12.4.1"]
    assert third.environment["libraries"] == {"libnccl.so.2": "/soft/libnccl.so.2"}
    assert third.environment["nodes"] == ["x1", "x2"]
    assert third.source.fields["environment"] == "also read: env.dat.3, modules.dat, ldd.dat, nodes.dat"
    assert "variables" not in fourth.environment  # another setup's environment is not this one's
    assert fourth.environment["nodes"] == ["x1", "x2"]


def test_without_such_files(tmp_path: Path) -> None:
    (tmp_path / "env.dat").write_text("NCCL_NET=IB\n")  # of which setup, nobody knows
    assert environment_beside(tmp_path / "all_reduce_output.dat.3", "3") == ({}, "")


def test_they_are_no_logs(tree: Path) -> None:
    assert {path.name for path in log_files(tree)} == {"all_reduce_output.dat.3", "all_reduce_output.dat.4"}
