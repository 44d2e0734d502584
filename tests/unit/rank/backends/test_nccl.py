"""The NCCL backend asks the right things of NCCL and CUDA, in the right order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from busbw_testing.cases import case_of

from busbw.errors import SiteError, UsageError
from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.plan import CallOptions
from busbw.rank.backends.base import CallFailed
from busbw.rank.backends.buffers import BAND_BYTES

MakeSite = Callable[..., Any]

RANK, SIZE = 1, 4
COMM, STREAM = str(0x1000 * SIZE + RANK), str(0x200)
BLOCK = 4096 // SIZE  # bytes of one rank's share of the cases here
FLOAT, SUM = "7", "0"


def called(site: Any, case: Case, slot: int = 0) -> tuple[Any, ...]:
    """The one NCCL call that running the case makes: its name, both buffers as (which, offset), the rest."""
    prepared = site.backend.prepare(case)
    site.forget()
    prepared.run(slot)
    ((name, send, recv, *rest),) = site.asked("EventRecord")
    return (name, place(site, send), place(site, recv), *rest)


def ready(site: Any, case: Case) -> tuple[Any, Any]:
    """The site and the prepared case; what was asked so far is forgotten."""
    prepared = site.backend.prepare(case)
    site.forget()
    return site, prepared


def place(site: Any, address: str) -> tuple[str, int]:
    pair = site.backend.pair
    for which, start in (("send", pair.send), ("recv", pair.recv)):
        if start <= int(address) < start + pair.allocated_bytes:
            return which, int(address) - start
    return "elsewhere", 0


OUT = (("send", 0), ("recv", 0))
SAME = (("recv", 0), ("recv", 0))
SEND_WITHIN = (("recv", RANK * BLOCK), ("recv", 0))
RECV_WITHIN = (("recv", 0), ("recv", RANK * BLOCK))
WHOLE, SHARE = str(4096 // 4), str(BLOCK // 4)


@pytest.mark.parametrize(
    ("name", "function", "count", "after_type", "in_place"),
    [
        ("all_reduce", "AllReduce", WHOLE, (SUM,), SAME),
        ("reduce_scatter", "ReduceScatter", SHARE, (SUM,), RECV_WITHIN),
        ("reduce", "Reduce", WHOLE, (SUM, "2"), SAME),
        ("broadcast", "Broadcast", WHOLE, ("2",), SAME),
        ("all_gather", "AllGather", SHARE, (), SEND_WITHIN),
        ("gather", "Gather", SHARE, ("2",), SEND_WITHIN),
        ("scatter", "Scatter", SHARE, ("2",), RECV_WITHIN),
        ("alltoall", "AlltoAll", SHARE, (), None),
    ],
)
def test_each_collective_is_one_call_of_its_function(
    make_site: MakeSite,
    name: str,
    function: str,
    count: str,
    after_type: tuple[str, ...],
    in_place: Any,
) -> None:
    site = make_site(rank=RANK, size=SIZE)
    rest = (count, FLOAT, *after_type, COMM, STREAM)
    assert called(site, case_of(name, SIZE, root=2)) == (function, *OUT, *rest)
    if in_place is not None:
        case = case_of(name, SIZE, root=2, placement=Placement.IN_PLACE)
        assert called(site, case) == (function, *in_place, *rest)


def test_slots_and_misalignment_move_both_buffers(make_site: MakeSite) -> None:
    site = make_site(rank=RANK, size=SIZE, options=CallOptions(unalign=1))
    at = 3 * 4096 + 4
    assert called(site, case_of("all_reduce", SIZE), slot=3)[1:3] == (("send", at), ("recv", at))
    pair = site.backend.pair
    assert pair.recv + 65536 + 8 + BAND_BYTES == pair.allocations[1] + pair.allocated_bytes


def test_barrier_is_an_all_reduce_of_one_float_elsewhere(make_site: MakeSite) -> None:
    site = make_site(rank=RANK, size=SIZE)
    elsewhere = ("elsewhere", 0)
    expected = ("AllReduce", elsewhere, elsewhere, "1", FLOAT, SUM, COMM, STREAM)
    case = case_of("barrier", SIZE, dtype="int8")
    assert called(site, case) == expected
    assert site.backend.conditions(case) == ("emulated",)
    site.forget()
    barrier = site.backend.barrier_call()
    barrier.issue()
    ((name, send, recv, *rest),) = site.asked()
    assert (name, place(site, send), place(site, recv), *rest) == expected
    assert send == recv
    barrier.close()


def test_isolated_calls_stand_behind_the_barrier(make_site: MakeSite) -> None:
    site, prepared = ready(make_site(), case_of("all_gather", SIZE))
    look = prepared.time_isolated(2, None, barrier=True)
    assert [line[0] for line in site.asked()] == 2 * [
        "AllReduce", "EventRecord", "AllGather", "EventRecord"
    ]  # fmt: skip
    assert look.elapsed_ns.tolist() == [250_000, 250_000]
    site.forget()
    prepared.time_isolated(1, None, barrier=False)
    assert site.names() == ["AllGather"]


class TestTypes:
    @pytest.mark.parametrize(
        ("dtype", "carrier", "times"), [("int16", "0", 2), ("uint16", "1", 2), ("half", "6", 1)]
    )
    def test_16_bit_integers_move_as_bytes(
        self, make_site: MakeSite, dtype: str, carrier: str, times: int
    ) -> None:
        site = make_site(rank=RANK, size=SIZE)
        case = case_of("all_gather", SIZE, dtype=dtype)
        assert called(site, case)[3:5] == (str(case.count * times), carrier)
        assert site.backend.conditions(case) == (("as-bytes",) if times > 1 else ())

    @pytest.mark.parametrize(("version", "capability", "carrier"), [
        (22809, 9, "10"), (22809, 8, "1"), (22309, 9, "1"),
    ])  # fmt: skip
    def test_8_bit_floats_move_as_bytes_where_nccl_has_none(
        self, make_site: MakeSite, version: int, capability: int, carrier: str
    ) -> None:
        site = make_site(version=version, cuda_defines=(f"CAPABILITY={capability}",))
        case = case_of("broadcast", SIZE, dtype="f8e4m3")
        assert called(site, case)[4] == carrier
        assert site.backend.inapplicable(case) == ""
        assert ("as-bytes" in site.backend.conditions(case)) == (carrier == "1")
        reason = site.backend.inapplicable(case_of("reduce", SIZE, dtype="f8e4m3"))
        assert bool(reason) == (carrier == "1")
        assert ("2.23.9" if version < 22400 else "8.0") in reason or not reason

    @pytest.mark.parametrize(("op", "number"), [("prod", "1"), ("max", "2"), ("min", "3"), ("avg", "4")])
    def test_reductions_by_number(self, make_site: MakeSite, op: str, number: str) -> None:
        site = make_site()
        assert called(site, case_of("all_reduce", SIZE, op=op))[5] == number

    def test_mulsum_is_made_of_this_ranks_scalar_and_destroyed_with_the_case(
        self, make_site: MakeSite
    ) -> None:
        site = make_site(rank=RANK, size=SIZE)
        site.forget()
        prepared = site.backend.prepare(case_of("reduce", SIZE, op="mulsum"))
        scalar = memoryview(core.premul_scalar(7, RANK)[:4]).cast("f")[0]
        assert site.asked() == [("RedOpCreatePreMulSum", f"{scalar:g}", FLOAT, "1", COMM)]
        site.forget()
        prepared.run(0)
        assert site.asked("EventRecord")[0][5] == str(0x51)
        site.forget()
        prepared.close()
        assert site.asked() == [("RedOpDestroy", str(0x51), COMM)]


class TestAggregate:
    OPTIONS = CallOptions(aggregate=3)

    def test_groups_walk_on_over_the_slots(self, make_site: MakeSite) -> None:
        site, prepared = ready(
            make_site(options=self.OPTIONS, buffer_bytes=4 * 4096), case_of("all_reduce", SIZE)
        )
        assert (prepared.slots, prepared.calls_per_issue) == (4, 3)
        look = prepared.time(3, 2, 6)
        group = ["GroupStart", "AllReduce", "AllReduce", "AllReduce", "GroupEnd"]
        assert [line[0] for line in site.asked()] == [
            *group, "EventRecord", *group, *group, "EventRecord", *group, *group, "EventRecord"
        ]  # fmt: skip
        slots = [place(site, line[1])[1] // 4096 for line in site.asked() if line[0] == "AllReduce"]
        assert slots == [i % 4 for i in range(15)]
        assert look.elapsed_ns.tolist() == [250_000, 250_000]

    def test_checks_run_one_call_alone(self, make_site: MakeSite) -> None:
        assert called(make_site(options=self.OPTIONS), case_of("all_reduce", SIZE))[0] == "AllReduce"

    def test_a_broken_number_of_calls_is_refused(self, make_site: MakeSite) -> None:
        prepared = make_site(options=self.OPTIONS).backend.prepare(case_of("all_reduce", SIZE))
        for lead, k in ((0, 4), (2, 3)):
            with pytest.raises(ValueError, match="no multiples of 3"):
                prepared.time(lead, 1, k)

    def test_hypercube_cannot_be_one_group(self, make_site: MakeSite) -> None:
        backend, case = make_site(options=self.OPTIONS).backend, case_of("hypercube", SIZE)
        assert "depend on one another" in backend.inapplicable(case)
        with pytest.raises(ValueError, match="no such call"):
            backend.prepare(case)
        assert make_site().backend.inapplicable(case) == ""

    def test_the_group_is_closed_after_an_error(
        self, make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site, prepared = ready(make_site(options=self.OPTIONS), case_of("all_reduce", SIZE))
        monkeypatch.setenv("STAND_IN_FAILS", "AllReduce")
        with pytest.raises(CallFailed, match="NCCL call failed: internal error"):
            prepared.time(0, 1, 3)
        assert site.names() == ["GroupStart", "AllReduce", "GroupEnd"]


class TestGraph:
    def test_calls_are_captured_once_and_launched_per_sample(self, make_site: MakeSite) -> None:
        site = make_site(options=CallOptions(graph=1), buffer_bytes=2 * 4096)
        site.forget()
        prepared = site.backend.prepare(case_of("all_reduce", SIZE))
        assert site.names() == ["AllReduce", "AllReduce"]  # before any capture
        site.forget()
        look = prepared.time(5, 2, 5)
        launch = ["GraphLaunch", "EventRecord"]
        assert [line[0] for line in site.asked()] == [
            "BeginCapture", *5 * ["AllReduce"], "EndCapture", "GraphInstantiate", "GraphDestroy",
            *3 * launch,
        ]  # fmt: skip
        assert site.asked()[0] == ("BeginCapture", "1")  # thread local
        slots = [place(site, line[1])[1] // 4096 for line in site.asked() if line[0] == "AllReduce"]
        assert slots == [0, 1, 0, 1, 0]
        assert look.elapsed_ns.tolist() == [250_000, 250_000]
        site.forget()
        prepared.time(0, 1, 5)
        ((name, executable, stream),) = site.asked("EventRecord")
        assert (name, stream) == ("GraphLaunch", STREAM)
        assert int(executable) >= 0x700

    def test_a_failed_launch_is_told_in_cudas_words(
        self, make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        prepared = make_site(options=CallOptions(graph=1)).backend.prepare(case_of("all_reduce", SIZE))
        monkeypatch.setenv("STAND_IN_FAILS", "GraphLaunch")
        with pytest.raises(CallFailed, match="CUDA call failed: CUDA_ERROR"):
            prepared.time(0, 1, 2)

    def test_two_graphs_are_kept_and_all_destroyed_at_close(self, make_site: MakeSite) -> None:
        site, prepared = ready(make_site(options=CallOptions(graph=1)), case_of("all_reduce", SIZE))
        for k in (1, 2, 1, 3, 1):
            prepared.time(0, 1, k)
        assert site.names().count("GraphInstantiate") == 3
        assert site.names().count("GraphExecDestroy") == 1  # that of 2: 1 was used later
        prepared.time(0, 1, 2)
        prepared.close()
        made = [line[1] for line in site.asked() if line[0] == "GraphInstantiate"]
        destroyed = [line[1] for line in site.asked() if line[0] == "GraphExecDestroy"]
        assert sorted(made) == sorted(destroyed)

    def test_checks_go_through_a_graph_too(self, make_site: MakeSite) -> None:
        site, prepared = ready(make_site(options=CallOptions(graph=1)), case_of("all_gather", SIZE))
        prepared.run(2)
        assert site.names() == [
            "BeginCapture", "AllGather", "EndCapture", "GraphInstantiate", "GraphDestroy", "GraphLaunch",
            "GraphExecDestroy",
        ]  # fmt: skip
        assert place(site, site.asked()[1][1]) == ("send", 2 * prepared.whole.stride_bytes)

    def test_groups_are_captured_as_groups(self, make_site: MakeSite) -> None:
        site, prepared = ready(
            make_site(options=CallOptions(graph=1, aggregate=2)), case_of("all_reduce", SIZE)
        )
        prepared.time(0, 1, 4)
        assert prepared.max_calls == 4096
        group = ["GroupStart", "AllReduce", "AllReduce", "GroupEnd"]
        assert site.names()[:10] == ["BeginCapture", *group, *group, "EndCapture"]
        slots = [place(site, line[1])[1] // 4096 for line in site.asked() if line[0] == "AllReduce"]
        assert slots == [0, 1, 2, 3]

    def test_a_failed_capture_is_ended_and_says_why(
        self, make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site, prepared = ready(make_site(options=CallOptions(graph=1)), case_of("all_reduce", SIZE))
        monkeypatch.setenv("STAND_IN_FAILS", "AllReduce")
        with pytest.raises(CallFailed, match="NCCL call failed"):
            prepared.time(0, 1, 2)
        assert site.names() == ["BeginCapture", "AllReduce", "EndCapture"]

    def test_too_many_calls_are_refused(self, make_site: MakeSite) -> None:
        prepared = make_site(options=CallOptions(graph=1)).backend.prepare(case_of("all_reduce", SIZE))
        with pytest.raises(UsageError, match="4097 calls is too large") as caught:
            prepared.time(0, 1, prepared.max_calls + 1)
        assert "-n 4096" in caught.value.hint


def test_a_wait_ends_after_the_timeout_and_nothing_is_asked_afterwards(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(options=CallOptions(timeout_s=0.02, graph=1))
    prepared = site.backend.prepare(case_of("all_reduce", SIZE))
    monkeypatch.setenv("STAND_IN_BUSY", "1")
    with pytest.raises(CallFailed, match=r"no completion within 0\.02 s") as caught:
        prepared.time(0, 1, 2)
    assert "-T" in caught.value.hint
    site.forget()
    prepared.close()
    assert site.asked() == []


def test_closing_gives_everything_back_in_order(make_site: MakeSite) -> None:
    site = make_site(options=CallOptions(register=1))
    site.forget()
    site.backend.close()
    assert site.names() == [
        "CommDeregister", "CommDeregister", "CommDestroy", "MemFree", "MemFree", "MemFreeDevice",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call_ms", "calls", "cost_ns"),
    [("0.25", 2 + 10 * 150, 240e3), ("0.7", 2 + 5 * 150, 672e3), ("2", 2, 5e3)],
)
def test_what_an_event_costs_is_not_asked_of_slow_calls(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch, call_ms: str, calls: int, cost_ns: float
) -> None:
    """A network of 1 Gbit/s would take a minute for it, before anybody sees a row."""
    monkeypatch.setenv("STAND_IN_MS", call_ms)
    site = make_site()
    assert sum(line[0] == "AllReduce" for line in site.asked()) == calls
    assert site.backend.timing_cost_ns == pytest.approx(cost_ns)  # an event a call, less one every 25


def test_memory_report_names_every_step(make_site: MakeSite) -> None:
    report = make_site().backend.memory_report()
    assert list(report) == ["buffers", "communicator", "registration", "calls"]


def test_a_failing_gpu_memory_request_is_a_site_error(make_site: MakeSite) -> None:
    with pytest.raises(SiteError, match="OUT_OF_MEMORY"):
        make_site(buffer_bytes=1 << 21)
