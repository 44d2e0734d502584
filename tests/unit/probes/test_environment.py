from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.probes.environment import (
    REDACTED,
    is_recorded,
    read_environment,
    read_nccl_config,
    redact,
    redact_all,
    redact_text,
    with_given,
)

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


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "MY_NCCL_DEBUG",
        "USER",
        "RANKING",
        "NVIDIA_REQUIRE_CUDA",
    ],
)
def test_not_recorded(name: str) -> None:
    assert not is_recorded(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BUSBW_TOKEN", "abc"),
        ("SLURM_JWT", "x"),
        ("NCCL_API_KEY", "x"),
        ("OMPI_MCA_sec_basic_key", "x"),
        ("UCX_AUTHTOKEN", "x"),
        ("SLURM_MYPASSWORD_FILE", "x"),
        ("PBS_AUTH", "x"),
        ("FI_CREDENTIALS", "x"),
        ("NCCL_PROXY", "http://user:hunter2@proxy:3128"),
        ("NCCL_HEADER", "Authorization: Bearer abcdefgh12345678"),
        ("OMPI_EXTRA", "--password=hunter2"),
        ("SLURM_COMMENT", "ghp_0123456789abcdefghij"),
        ("SLURM_COMMENT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig"),
        ("SLURM_COMMENT", "AKIAIOSFODNN7EXAMPLE"),
        ("NVIDIA_CERT", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_secrets_are_replaced(name: str, value: str) -> None:
    assert redact(name, value) == REDACTED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UCX_IB_PKEY", "0x8001"),
        ("NCCL_SOCKET_IFNAME", "=eth0"),
        ("MASTER_ADDR", "tcp://10.0.0.1:29500"),
        ("SLURM_NODELIST", "gpu-[01-04]"),
        ("OMPI_MCA_orte_hnp_uri", "1234.0;tcp://10.0.0.1,10.1.0.1:40000"),
        ("NCCL_TUNER_CONFIG_FILE", "/opt/tuner:basic/x.csv"),
        ("BUSBW_TOKEN", ""),
    ],
)
def test_ordinary_values_stay(name: str, value: str) -> None:
    assert redact(name, value) == value


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSHPASS", "hunter22"),
        ("MY_PWD", "x"),
        ("GH_PAT", "x"),
        ("AZURE_STORAGE", "DefaultEndpointsProtocol=https;AccountKey=abc=="),
        ("EXTRA", "MY_TOKEN=abcdefgh"),
        ("ARGS", "--password hunter22"),
    ],
)
def test_secrets_of_variables_that_are_not_listed(name: str, value: str) -> None:
    assert redact(name, value) == REDACTED


@pytest.mark.parametrize("name", ["UCX_IB_BYPASS", "MY_BYPASS", "MY_PATH", "PATTERN"])
def test_no_secrets(name: str) -> None:
    assert redact(name, "a token ring") == "a token ring"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("A=1", "A=1"),
        ("MY_TOKEN=a b,c", f"MY_TOKEN={REDACTED}"),
        ("--env=HF_TOKEN=x", f"--env=HF_TOKEN={REDACTED}"),
        ("--export=ALL,HF_TOKEN=x,B=2", f"--export=ALL,HF_TOKEN={REDACTED},B=2"),
        ("-x A=1 -x HF_TOKEN=x", f"-x A=1 -x HF_TOKEN={REDACTED}"),
        ("-x HF_TOKEN='a b' -n 2", f"-x HF_TOKEN={REDACTED} -n 2"),
        ("-genv HF_TOKEN x -genv A 1", f"-genv HF_TOKEN {REDACTED} -genv A 1"),
        ("--hf-token=x", f"--hf-token={REDACTED}"),
        ("--minbytes=8", "--minbytes=8"),
        ("/a/b=c", "/a/b=c"),
    ],
)
def test_a_command_line_is_kept_without_secrets(text: str, kept: str) -> None:
    assert redact_text(text) == kept
    assert redact_all({"launch": {"env": [text], "nodes": 2}}) == {"launch": {"env": [kept], "nodes": 2}}
