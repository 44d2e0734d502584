from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.machine.environment import is_recorded, read_environment, read_nccl_config, with_given
from busbw.redact import REDACTED

WriteTree = Callable[[dict[str, str]], Path]


RECORDED = (
    "NCCL_DEBUG", "OFI_NCCL_PROTOCOL", "UCX_TLS", "OMPI_MCA_btl", "PMIX_RANK", "PMI_SIZE",
    "MPICH_OFI_NIC_POLICY", "MPIR_CVAR_CH4_NETMOD", "FI_PROVIDER", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID",
    "TORCH_NCCL_BLOCKING_WAIT", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "RANK", "LOCAL_RANK", "WORLD_SIZE",
    "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "LD_PRELOAD", "BUSBW_HOME",
    "NVIDIA_VISIBLE_DEVICES", "SHARP_COLL_LOG_LEVEL", "HCOLL_MAIN_IB", "I_MPI_FABRICS", "PALS_RANKID",
    "PBS_JOBID", "JOB_COMPLETION_INDEX", "MLX5_SINGLE_THREADED", "HYDRA_BSTRAP"
)  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name: str) -> None:
    assert is_recorded(name)


OTHERS = (
    "PATH", "HOME", "USER", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "MY_NCCL_DEBUG", "RANKING",
    "NVIDIA_REQUIRE_CUDA",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_not_recorded(name: str) -> None:
    assert not is_recorded(name)


def test_environment(tmp_path: Path) -> None:
    environment = read_environment(
        {
            "NCCL_DEBUG": "WARN",
            "BUSBW_TOKEN": "s3cret",
            "HOME": str(tmp_path),
            "HF_TOKEN": "t0p",
            "LOADEDMODULES": "gcc/13.2:openmpi/5.0.5",
            "_LMFILES_": "/mods/gcc/13.2.lua:/mods/openmpi/5.0.5.lua",
        },
        root=tmp_path,
    )
    assert environment.variables == {"NCCL_DEBUG": "WARN", "BUSBW_TOKEN": REDACTED}
    assert environment.redacted == ("BUSBW_TOKEN",)
    assert environment.modules == ("gcc/13.2", "openmpi/5.0.5")
    assert environment.module_files == ("/mods/gcc/13.2.lua", "/mods/openmpi/5.0.5.lua")
    assert environment.nccl_config == ()
    assert "s3cret" not in repr(environment)


def test_nccl_config_as_nccl_reads_it(write_tree: WriteTree) -> None:
    tree = write_tree(
        {
            "etc/nccl.conf": (
                "# site\nNCCL_IB_HCA=mlx5_0\n #NCCL_DEBUG=INFO\nno pair\nNCCL_X_TOKEN=abc\nNCCL_EMPTY=\n"
            ),
            "home/.nccl.conf": "NCCL_ALGO=Ring=1\n",
            "own.conf": "NCCL_PROTO=LL\n",
        }
    )
    home = {"HOME": str(tree / "home")}
    user, system = read_nccl_config(home, root=tree)
    assert (user.path, user.settings) == (str(tree / "home/.nccl.conf"), (("NCCL_ALGO", "Ring=1"),))
    assert system.settings == (
        ("NCCL_IB_HCA", "mlx5_0"),
        (" #NCCL_DEBUG", "INFO"),  # a comment starts in the first column only
        ("NCCL_X_TOKEN", REDACTED),
        ("NCCL_EMPTY", ""),
    )
    own, system = read_nccl_config(home | {"NCCL_CONF_FILE": str(tree / "own.conf")}, root=tree)
    assert own.settings == (("NCCL_PROTO", "LL"),)
    assert system.path == str(tree / "etc/nccl.conf")


def test_what_was_given_is_recorded_though_it_is_not_listed() -> None:
    given = with_given({"MY_MODE": "2", "NCCL_ALGO": "Ring", "MY_TOKEN": "abc"}, also=["MY_PATH"])
    job = {"SLURM_EXPORT_ENV": "ALL,DB_PASS=x"}
    kept = read_environment({"PATH": "/bin", "MY_PATH": "/x", "BUSBW_ENV": "MY_TOKEN=abc", **job, **given})
    assert kept.variables == {
        "MY_MODE": "2",
        "MY_PATH": "/x",
        "MY_TOKEN": REDACTED,
        "NCCL_ALGO": "Ring",
        "SLURM_EXPORT_ENV": f"ALL,DB_PASS={REDACTED}",
    }
    assert kept.redacted == ("MY_TOKEN", "SLURM_EXPORT_ENV")
    assert kept.given == ("MY_MODE", "NCCL_ALGO", "MY_TOKEN", "MY_PATH")
    assert with_given({}) == {}
