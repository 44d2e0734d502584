"""Versions of the images' parts, as their makers spell them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("asked", "spelled"),
    [
        ("tag 2.30.4-1", "v2.30.4-1"),
        ("tag v1.8.1-aws", "v1.8.1-aws"),  # aws-ofi-nccl's tags to 1.9
        ("tag 1.19.0", "v1.19.0"),
        ("tag V2.4.1", "v2.4.1"),
        ("tag 5b47ede", "5b47ede"),
        ("tag master", "master"),
        ("nccl_tag 2.20.3", "v2.20.3-1"),
        ("nccl_tag v2.20.3-1", "v2.20.3-1"),
        ("nccl_tag 2.30.4-1+cuda13.0", "v2.30.4-1"),  # NVIDIA's Debian packages
        ("nccl_tag master", "master"),
        ("number v1.48.0", "1.48.0"),
        ("number 1.48.0", "1.48.0"),
        ("number latest", "latest"),
    ],
)
def test_versions_may_be_spelled_as_their_makers_spell_them(asked: str, spelled: str) -> None:
    told = subprocess.check_output(["bash", "-c", f". images/recipes/lib.sh; {asked}"], text=True, cwd=ROOT)
    assert told.strip() == spelled
