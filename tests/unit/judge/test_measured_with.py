"""What launches were measured with: settings, libraries, machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw_testing.compared import record_of

from busbw.judge.compare import notes_of
from busbw.judge.compare_arms import Arm, make_arm
from busbw.judge.measured_with import nodes_of
from busbw.model.record import HostInfo, ImportSource, RunRecord


def record(
    *modules: str, kernel: str = "6.1", hosts: int = 1, given: tuple[str, ...] = (), **variables: str
) -> RunRecord:
    environment: dict[str, Any] = {"variables": variables, "modules": modules, "given": given}
    return record_of({8: 1.0}, hosts=hosts, environment=environment, machine={"host": {"kernel": kernel}})


def arm(name: str, *records: RunRecord, **fields: Any) -> Arm:
    return replace(make_arm(name, records), **fields)


def note(before: Arm, after: Arm) -> str:
    told = [text for text in notes_of(before, after) if "measured with" in text]
    return told[0] if told else ""


def test_what_was_set_otherwise_is_told() -> None:
    old = {"NCCL_ALGO": "Ring", "MY_MODE": "1", "SLURM_JOB_ID": "7", "NCCL_DEBUG": "INFO"}
    new = {"NCCL_PROTO": "LL", "MY_MODE": "2", "SLURM_JOB_ID": "8"}
    before = record("cuda/12.4", given=("MY_MODE",), **old)
    after = record("cuda/13.0", given=("MY_MODE",), kernel="6.8", hosts=2, **new)
    assert note(arm("old", before), arm("new", after)) == (
        "new: measured with MY_MODE 2 against 1, NCCL_ALGO not set against Ring, NCCL_PROTO LL against not"
        " set, module cuda/12.4 not loaded against loaded, module cuda/13.0 loaded against not loaded,"
        " kernel 6.8 against 6.1 and 1 more"
    )


def test_what_was_given_to_one_is_told_though_it_tunes_nothing() -> None:
    plain, given = arm("old", record()), arm("new", record(given=("OMP_NUM_THREADS",), OMP_NUM_THREADS="1"))
    assert note(plain, given) == "new: measured with OMP_NUM_THREADS 1 against not set"
    inherited = arm("inherited", record(OMP_NUM_THREADS="1"))
    assert note(inherited, given) == ""
    own = arm("own", record(given=("MY_MODE",), MY_MODE=""))
    assert note(plain, own) == "own: measured with MY_MODE (empty) against not given"


def test_what_the_launches_of_one_do_not_share_is_no_difference_of_both() -> None:
    one = record("cuda/12", given=("MY_MODE",), MY_MODE="1", UCX_TLS="tcp")
    other = record("cuda/13", given=("MY_MODE",), MY_MODE="2", UCX_TLS="tcp")
    several = arm("new", one, other)
    base = arm("old", record("cuda/12", given=("MY_MODE",), MY_MODE="1", UCX_TLS="self"))
    assert note(base, several) == "new: measured with UCX_TLS tcp against self"


def test_a_library_that_was_brought_is_the_same_in_each_run() -> None:
    each = []
    for name in ("20261127-031515-0af1-77.d", "20261127-031516-0af2-78.d"):
        run = record()
        path = f"/tmp/busbw-{name}/lib/libmpi.so.12"
        ranks = tuple(replace(rank, library_path=path) for rank in run.world.ranks)  # type: ignore[union-attr]
        each.append(replace(run, world=replace(run.world, ranks=ranks)))  # type: ignore[type-var]
    assert note(arm("old", each[0]), arm("new", each[1])) == ""


def test_a_log_tells_of_what_it_names_alone() -> None:
    source = ImportSource("a.log", "nccl-tests", evidence={"setting": ["NCCL_ALGO Tree"]})
    log = replace(record_of({8: 1.0}), environment={}, source=source)
    run = record(NCCL_ALGO="Ring", NCCL_PROTO="LL")
    assert note(arm("run", run), arm("log", log)) == "log: measured with NCCL_ALGO Tree against Ring"


def test_setups_of_a_series_say_themselves_what_they_vary() -> None:
    before, after = (arm(name, record(given=("MY_MODE",), MY_MODE=name), series="s") for name in "ab")
    assert note(before, after) == ""
    assert note(before, replace(after, series="t")) == "b: measured with MY_MODE b against a"


def on(nodes: Sequence[str], launch: Mapping[str, Any], **place: str) -> RunRecord:
    """A launch whose two ranks are on two hosts."""
    made = record_of({1024: 10.0}, hosts=2)
    assert made.world is not None
    ranks = tuple(replace(rank, host=host) for rank, host in zip(made.world.ranks, nodes, strict=True))
    places = tuple(
        HostInfo(host, **{name: f"{value}{host}" for name, value in place.items()}) for host in nodes
    )
    world = replace(made.world, ranks=ranks, places=places)
    return replace(made, world=world, settings={"launch": dict(launch)} if launch else {})


def test_the_names_of_machines() -> None:
    assert nodes_of(on(("b", "a"), {})) == ("a", "b")
    pods: dict[str, str] = {"pod": "pod-", "kubernetes_node": "node-"}
    assert nodes_of(on(("b", "a"), {"on": "kubernetes"}, **pods)) == ("node-a", "node-b")
    assert nodes_of(on(("b", "a"), {}, pod="pod-")) == ()
    assert nodes_of(on(("b", "a"), {}, instance="i-")) == ("i-a", "i-b")
    assert nodes_of(replace(on(("a", "b"), {}), world=None)) == ()
