from __future__ import annotations

from pathlib import Path

import pytest

from busbw.machine.preflight.environment import compared_variables, weight
from busbw.model.finding import Severity

COMPARED = "NCCL_ALGO UCX_TLS LD_LIBRARY_PATH OMPI_MCA_btl MPIR_CVAR_X OMP_NUM_THREADS NVIDIA_IMEX_CHANNELS"
COMPARED += " NEURON_LOGICAL_NC_CONFIG UCX_TOPOLOGY"  # a word inside another is no log
OWN = (
    "RANK LOCAL_RANK WORLD_SIZE OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK SLURM_PROCID MPI_LOCALRANKID"
    " CUDA_VISIBLE_DEVICES BUSBW_TOKEN MASTER_ADDR TORCHELASTIC_RUN_ID OMPI_MCA_orte_ess_vpid"
    " OMPI_MCA_ess_base_vpid HYDRA_LAUNCHER JOB_COMPLETION_INDEX NVIDIA_VISIBLE_DEVICES"
    " NVIDIA_DRIVER_CAPABILITIES NCCL_DEBUG NCCL_DEBUG_FILE UCX_LOG_LEVEL FI_LOG_LEVEL NCCL_TOPO_DUMP_FILE"
    " HOME HOSTNAME PWD PATH"
)


@pytest.mark.parametrize("name", COMPARED.split())
def test_what_bears_on_a_collective_is_compared(name: str, tmp_path: Path) -> None:
    assert compared_variables({name: "x"}, root=tmp_path) == {name: "x"}


@pytest.mark.parametrize("name", OWN.split())
def test_who_and_where_a_rank_is_and_what_it_prints_is_not(name: str, tmp_path: Path) -> None:
    assert compared_variables({name: "x"}, root=tmp_path) == {}


def test_secrets_do_not_travel(tmp_path: Path) -> None:
    assert compared_variables({"NCCL_X_TOKEN": "abcdefgh"}, root=tmp_path) == {"NCCL_X_TOKEN": "[redacted]"}


def test_nccls_files_count_in_the_order_in_which_they_win(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("NCCL_A=etc\nNCCL_B=etc\n")
    own = tmp_path / "own.conf"
    own.write_text("NCCL_A=own\n")
    found = compared_variables({"NCCL_CONF_FILE": str(own)}, root=tmp_path)
    assert found["nccl.conf: NCCL_A"] == "own"
    assert found["nccl.conf: NCCL_B"] == "etc"


@pytest.mark.parametrize(
    ("name", "backend", "severity"),
    [
        ("NCCL_ALGO", "nccl", Severity.ERROR),
        ("nccl.conf: NCCL_ALGO", "nccl", Severity.ERROR),
        ("NCCL_ALGO", "mpi", Severity.WARNING),
        ("UCX_TLS", "mpi", Severity.ERROR),
        ("FI_PROVIDER", "nccl", Severity.ERROR),
        ("NCCL_IB_HCA", "nccl", Severity.WARNING),
        ("UCX_NET_DEVICES", "mpi", Severity.WARNING),
        ("LD_LIBRARY_PATH", "nccl", Severity.WARNING),
    ],
)
def test_how_much_a_difference_matters(name: str, backend: str, severity: Severity) -> None:
    assert weight(name, backend) is severity
