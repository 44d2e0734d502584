from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.launch.engine import Job, Work, load
from busbw.plan.flags.engines import ENGINES
from busbw.plan.flags.launch import LaunchSettings
from busbw.record.folder import new_run_id

# Kubernetes' names are the narrowest (RFC 1123 labels), and an operator adds its own endings to them.
LEGAL = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z")


@pytest.mark.parametrize("name", ["all_reduce", "all_reduce+sendrecv+x-more", "exec"])
def test_job_names_are_legal_everywhere_and_unique(name: str) -> None:
    ids = {new_run_id(name) for _ in range(20)}
    names = {Job(run_id, "", Work(()), LaunchSettings()).name for run_id in ids}
    assert len(names) == len(ids)
    assert all(LEGAL.match(job) for job in names), names


@pytest.mark.parametrize(
    ("name", "flags", "said"),
    [
        ("hosts", {"hosts": "h1", "partition": "gpu"}, "--on hosts does not use --partition"),
        ("kubernetes", {"nodes": "2", "partition": "gpu"}, "Kubernetes does not use --partition"),
        ("pbs", {"nodes": "2", "image": "x"}, "PBS does not use --image"),
        ("pbs", {"nodes": "2", "topology": ("f",)}, "PBS does not use --topology\nhint: .* --on hosts"),
        ("slurm", {"nodes": "2", "namespace": "x"}, "Slurm does not use --namespace"),
    ],
)
def test_flags_of_other_engines_are_refused(name: str, flags: dict[str, Any], said: str) -> None:
    row = ENGINES[name]
    with pytest.raises(UsageError, match=said) as refused:
        import_module(row.check or row.module).check(LaunchSettings(on=name, **flags))
    assert refused.value.hint


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_every_engine_has_what_each_must_have(name: str) -> None:
    engine = load(name)
    assert engine.WAIT_SECONDS is None or engine.WAIT_SECONDS > 0
    for part in ("inquire", "request", "submit", "follow", "cancel", "state"):
        assert callable(getattr(engine, part)), part
    row = ENGINES[name]
    assert callable(import_module(row.check or row.module).check)
