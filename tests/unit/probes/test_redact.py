from __future__ import annotations

import pytest

from busbw.probes.redact import REDACTED, redact, redact_all, redact_text


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
