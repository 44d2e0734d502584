from __future__ import annotations

import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st
from zmq.utils import z85

from busbw.errors import LauncherMismatch
from busbw.rank.world.rendezvous import (
    candidate_ports,
    job_token,
    root_address,
    server_secret,
)


@pytest.mark.parametrize(
    ("environ", "everybody_here", "expected"),
    [
        ({}, False, ("", None)),
        ({}, True, ("127.0.0.1", None)),
        ({"MASTER_ADDR": "h1", "MASTER_PORT": "29500"}, True, ("h1", None)),
        ({"SLURM_STEP_NODELIST": "h[3-4]", "SLURM_JOB_NODELIST": "h[1-4]"}, False, ("h3", None)),
        ({"SLURM_JOB_NODELIST": "h[1-4]"}, False, ("h1", None)),
        ({"BUSBW_ROOT": "h9", "MASTER_ADDR": "h1"}, False, ("h9", None)),
        ({"BUSBW_ROOT": "h9:4000"}, False, ("h9", 4000)),
        ({"BUSBW_ROOT": "[fe80::1]:4000"}, False, ("fe80::1", 4000)),
        ({"BUSBW_ROOT": "[fe80::1]"}, False, ("fe80::1", None)),
        ({"BUSBW_ROOT": "fe80::1"}, False, ("fe80::1", None)),
    ],
)
def test_root_address(
    environ: dict[str, str], everybody_here: bool, expected: tuple[str, int | None]
) -> None:
    assert root_address(environ, everybody_here=everybody_here) == expected


@pytest.mark.parametrize("text", ["h1:port", "h1:70000", "h1:1:2x", ":4000"])
def test_nonsense_address_is_refused(text: str) -> None:
    with pytest.raises(LauncherMismatch, match="not an address"):
        root_address({"BUSBW_ROOT": text}, everybody_here=False)


@settings(max_examples=50)
@given(st.text())
def test_candidate_ports_lie_between_services_and_outgoing_connections(token: str) -> None:
    ports = candidate_ports(token, None)
    assert ports == candidate_ports(token, None)
    assert 1 <= len(ports) <= 8
    assert all(20000 <= port <= 29999 for port in ports)


def test_jobs_steps_and_restarts_have_tokens_of_their_own() -> None:
    torch = {"TORCHELASTIC_RUN_ID": "r", "MASTER_ADDR": "h1", "MASTER_PORT": "29500"}
    tokens = [
        job_token({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, "slurm", 8),
        job_token({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "1"}, "slurm", 8),
        job_token({"SLURM_JOB_ID": "2", "SLURM_STEP_ID": "0"}, "slurm", 8),
        job_token(torch | {"TORCHELASTIC_RESTART_COUNT": "0"}, "torchrun", 8),
        job_token(torch | {"TORCHELASTIC_RESTART_COUNT": "1"}, "torchrun", 8),
        job_token(torch | {"BUSBW_TOKEN": "x"}, "torchrun", 8),
    ]
    assert len(set(tokens)) == len(tokens)


def test_server_key_is_a_valid_curve_key_that_differs_by_token() -> None:
    keys = {zmq.curve_public(z85.encode(server_secret(token))) for token in ("a", "b", "")}
    assert len(keys) == 3
