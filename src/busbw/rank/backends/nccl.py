"""NCCL collectives on GPU memory: one GPU and one stream a rank, one communicator for the whole run."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from busbw.errors import SiteError
from busbw.machine.native import core
from busbw.machine.native.cuda import CudaDriver
from busbw.machine.native.nccl import load_nccl
from busbw.machine.native.nvml import CLOCK_SM, open_nvml
from busbw.model.arm import Arm
from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.model.collective import Role
from busbw.model.neighbour import Neighbour
from busbw.model.plan import Plan
from busbw.rank.backends import nccl_tuner
from busbw.rank.backends.base import (
    DeviceState,
    Groups,
    Identity,
    IdleCase,
    Pairs,
    PreparedCase,
    float_case,
)
from busbw.rank.backends.buffers import BufferPair, hint_of_size
from busbw.rank.backends.device_memory import DeviceMemory, choose_allocator
from busbw.rank.backends.load import Load, device_load
from busbw.rank.backends.nccl_algorithm import joined, logged, offered, profiled
from busbw.rank.backends.nccl_case import CallErrors, Channel, NcclCase, barrier_spec, case_spec, nccl_call
from busbw.rank.backends.nccl_registration import Registration, require_registrable
from busbw.rank.backends.nccl_support import LATE_FUNCTIONS, support_of
from busbw.rank.backends.parts import OnBuffers
from busbw.rank.world.base import World
from busbw.units import format_size

MAX_SAMPLES_PER_LOOK: Final = 1024
# An allowance for what the driver, the check kernels, the bands around our buffers and NCCL's own buffers
# take; not measured.
RESERVE_BYTES: Final = 2 * 2**30
# Large enough that the GPU is the limit: at 8 bytes the host's launch path is, and hides half of the cost
# (4 x H200, NCCL 2.28.9: 2.1 us appear at 8 bytes, 4.2 us at 16 MiB).
_PROBE_BYTES: Final = 4 * 2**20
_PROBE_ROUNDS: Final = 9
_PROBE_CALLS: Final = 50
_PROBE_K: Final = 25
# For all rounds: sockets of 1 Gbit/s would take a minute for nine. Fewer than three rounds have no middle.
_PROBE_SECONDS: Final = 0.5
_LEAST_ROUNDS: Final = 3
# Taken where calls are too slow to measure it. The most seen is 4.2 us, as above.
_ASSUMED_EVENT_COST_NS: Final = 5000.0
# Below this an estimate is noise: less was never seen on H100 and H200.
_LEAST_EVENT_COST_NS: Final = 2000.0
_BARRIER_BYTES: Final = 8


class NcclBackend(OnBuffers):
    """NCCL on this rank's GPU. Made in two steps, so that what fails on one rank alone fails before the
    others wait for it: the constructor is local, ``connect`` is collective.

    ``grouped`` does alltoall, gather and scatter by sends and receives even where NCCL has functions for
    them, to compare the two.
    """

    name = "nccl"
    max_samples_per_look = MAX_SAMPLES_PER_LOOK

    def __init__(self, plan: Plan, local_rank: int, *, grouped: bool = False) -> None:
        self._driver = driver = CudaDriver()
        driver.init()
        self._device = driver.device(driver.own_ordinal(local_rank))
        driver.set_current_context(driver.primary_context_retain(self._device))
        self._nccl = load_nccl(plan.nccl_path or None)
        self._options = options = plan.options
        require_registrable(options, self._nccl)
        capability = driver.compute_capability(self._device)
        self._support = support_of(self._nccl, capability, options.aggregate, grouped=grouped)
        if options.memory != "host":
            _require_memory(driver, plan)
        self._stream = driver.stream_create()
        allocator = choose_allocator(options, driver, self._device, self._nccl)
        memory = DeviceMemory(driver, self._device, self._stream, allocator)
        self._barrier_word = driver.mem_alloc(_BARRIER_BYTES)
        driver.memset(self._barrier_word, 0, _BARRIER_BYTES, self._stream)
        self._free_bytes, self._taken = driver.memory_info()[0], dict[str, int]()
        self.pair = BufferPair.allocate(memory, plan.buffer_bytes, options.unalign)
        self._note_memory("buffers")
        self._events = (ctypes.c_void_p * (MAX_SAMPLES_PER_LOOK + 1))(
            *(driver.event_create() for _ in range(MAX_SAMPLES_PER_LOOK + 1))
        )
        self._channel: Channel | None = None
        self._registration: Registration | None = None
        self._barrier: core.Call | None = None
        self._plan = plan
        self._world_comm = 0  # which the groups' stand on; 0 until ``connect``
        self._role = Role(0, 1)
        self._nvml, self._nvml_device = open_nvml(), None
        if self._nvml is not None:
            uuid, pci = driver.device_uuid(self._device), driver.device_pci_bus_id(self._device)
            self._nvml_device = self._nvml.device(uuid=uuid, pci_bus_id=pci)
        self._possible = nccl_tuner.Possible()
        self.timing_cost_ns = 0.0
        self._facts: dict[str, str | int | float] = {"allocator": allocator.name}
        self.identity = self._identify()

    def connect(self, world: World) -> None:
        """Make the communicator, register the buffers with it and learn what an event costs on its stream."""
        self._role = self._plan.group_of(world.rank, world.size)
        unique_id = world.broadcast(self._nccl.unique_id() if world.rank == 0 else None)
        world.barrier()
        start = time.monotonic_ns()
        with (
            offered(os.environ) if self._plan.watches else nullcontext(),
            nccl_tuner.offered(self._plan, os.environ) if self._plan.tunes else nullcontext(),
        ):
            comm = self._communicator(world, unique_id)
        self._facts["communicator_ns"] = time.monotonic_ns() - start
        self._note_memory("communicator")
        self._join(comm)
        self._note_memory("registration")
        self.timing_cost_ns = self._facts["event_cost_ns"] = self._event_cost_ns(world)
        self.identity = self._identify()

    def pair_up(self, pairs: Pairs, pause_ns: int = 0) -> None:
        """See Backend. The host only enqueues, so there is no wait that could sleep."""
        self._plan = replace(self._plan, pairs=pairs)

    def regroup(self, world: World, groups: Groups) -> None:
        self._leave()
        self._plan = replace(self._plan, groups=groups)
        self._role = self._plan.group_of(world.rank, world.size)
        self._join(self._communicator(world))

    def prepare(self, case: Case) -> NcclCase | IdleCase:
        """Lay the case out on this rank. With graphs, collective over its group: the case's calls run once
        before any is captured.
        """
        if self._role is None:
            return IdleCase(self._options.aggregate)
        if self._plan.tunes:
            nccl_tuner.steer(case.arm)
        return self._prepare(case, aggregate=self._options.aggregate, graph=self._options.graph > 0)

    def together(
        self, prepared: Sequence[NcclCase], calls: Sequence[int], slot: int, lead: int, rounds: int
    ) -> core.Rounds:
        """See Backend. Events hold the streams together: the host only enqueues."""
        lanes = [case.lane(k, slot) for case, k in zip(prepared, calls, strict=True)]
        with prepared[0].errors:
            return core.time_lanes_events(lanes, lead, rounds)

    def inapplicable(self, case: Case) -> str:
        """See Backend; the same on all ranks with the same NCCL and the same kind of GPU. Of a case with an
        arm collective, and asked once connected.
        """
        if self._role is None:
            return ""
        reason = self._support.inapplicable(case, self._role.ranks)
        if reason or not case.arm:
            return reason
        return self._possible.refuses(Arm.of(case.arm), case, partial(self._call_once, replace(case, arm="")))

    def _call_once(self, case: Case) -> None:
        with closing(self._prepare(case, aggregate=1, graph=False)) as prepared:
            prepared.run(0)

    def conditions(self, case: Case) -> tuple[str, ...]:
        return self._support.conditions(case)

    def choice(self, case: Case, prepared: NcclCase | IdleCase) -> Choice | None:
        """See Backend. Profiler and log watch the same call, so that no rank has to issue another one where
        only one of them reports it; the log is that of rank 0 of each communicator.
        """
        run = partial(prepared.run, 0)
        has_log = self._role is not None and self._role.rank == 0
        return joined(*profiled(lambda: logged(self._nccl, os.environ, run) if has_log else run()))

    def device_state(self) -> DeviceState | None:
        """See Backend; from NVML, None where it is not there."""
        if self._nvml is None or self._nvml_device is None:
            return None
        clock_mhz = self._nvml.clock_mhz(self._nvml_device, CLOCK_SM)
        bits = self._nvml.clock_limit_bits(self._nvml_device)
        return None if clock_mhz is None else DeviceState(clock_mhz, bits or 0)

    def memory_report(self) -> dict[str, int]:
        """GPU memory in bytes, by differences of what was free: ``buffers``, ``communicator``,
        ``registration``, and ``calls``, what NCCL took for all calls so far. Buffers of managed and host
        memory may not show. Another process on the GPU spoils it.
        """
        return {**self._taken, "calls": self._free_bytes - self._driver.memory_info()[0]}

    def _note_memory(self, step: str) -> None:
        """What the step has taken of the GPU's free memory."""
        free_bytes = self._driver.memory_info()[0]
        self._taken[step], self._free_bytes = self._free_bytes - free_bytes, free_bytes

    def load(self, neighbour: Neighbour) -> Load:
        """What runs on this rank's GPU beside its collectives."""
        load = device_load(neighbour, self._driver, self._device)
        return replace(load, errors=self._connected().errors)

    def barrier_call(self) -> core.Call:
        """A call after which all ranks have entered it: an all_reduce of one float of our own, since NCCL has
        no barrier. Close it before the backend.
        """
        channel = self._connected()
        return nccl_call(channel, barrier_spec(channel, self._own_role(), self._barrier_word))

    def close(self) -> None:
        """Take registration and communicator down, then give back memory and stream. All cases are closed."""
        self._leave()
        if self._world_comm:
            self._nccl.comm_destroy(self._world_comm)
            self._world_comm = 0
        self.pair.release()
        self._driver.mem_free(self._barrier_word)
        self._driver.stream_destroy(self._stream)

    def _join(self, comm: int) -> None:
        """Take the communicator of this rank's group, if it has one, and register the buffers with it."""
        if comm:
            self._channel = self._open_channel(comm)
            self._registration = Registration(self._nccl, comm, self.pair, self._options.register)
            self._facts["registration"] = self._registration.how
            self._barrier = self.barrier_call()

    def _leave(self) -> None:
        """Take down the group's communicator, unless it is the world's, and what stands on it."""
        if self._barrier is not None:
            self._barrier.close()
        if self._registration is not None:
            self._registration.close()
        if self._channel is not None and self._channel.comm != self._world_comm:
            self._nccl.comm_destroy(self._channel.comm)
        self._barrier = self._registration = self._channel = self._warm_for = None

    def _renew(self) -> None:
        """Another communicator of the same ranks, which knows of no registration yet. Collective over the
        group; nothing is under way, and no graph is left: the old communicator would wait for it.
        """
        old = self._connected().comm
        comm = self._nccl.comm_split(old, 0, self._own_role().rank)
        if old == self._world_comm:
            self._world_comm = comm
        self._leave()
        self._join(comm)

    def _connected(self) -> Channel:
        assert self._channel is not None, "asked once connected"
        return self._channel

    def _own_role(self) -> Role:
        """In the group that communicates; only asked for where this rank belongs to one."""
        assert self._role is not None, "a rank that sits out prepares no calls"
        return self._role

    def _communicator(self, world: World, unique_id: bytes = b"") -> int:
        """That of this rank's group, split from the world's, which is made first; 0 where it has none.
        Collective over the world.
        """
        if not self._world_comm:
            self._world_comm = self._nccl.comm_init(world.size, unique_id, world.rank)
        role = self._role
        if not self._plan.groups:
            return self._world_comm
        colour, key = (None, 0) if role is None else (role.group, role.rank)
        return self._nccl.comm_split(self._world_comm, colour, key)

    def _prepare(self, case: Case, *, aggregate: int, graph: bool) -> NcclCase:
        if self._registration is not None:
            # What NCCL registered for graphs cannot be deregistered from here, only left behind.
            if self._options.graph and self._registration.hangs(case.collective):
                self._renew()
            self._registration.before(case.collective)
        channel, whole = self._connected(), self._laid_out(case)
        op, element = case.reduce_op.number if case.reduce_op is not None else 0, self._support.element(case)
        at_close: Callable[[], None] | None = None
        if case.op == "mulsum":  # made for the case: NCCL has none until each rank names its scalar
            scalar = core.premul_scalar(case.data_type.number, self._own_role().rank)
            op = self._nccl.premul_sum_create(channel.comm, scalar, element.datatype)
            at_close = partial(self._nccl.reduction_destroy, channel.comm, op)
        if case.collective == "barrier":
            specs = [barrier_spec(channel, whole.role, self._barrier_word)]
        else:
            specs = [case_spec(channel, part, element, op) for part in whole.parts]
        return NcclCase(
            channel, whole, specs, aggregate=aggregate, graph=graph, barrier=self._barrier, at_close=at_close
        )

    def _open_channel(self, comm: int) -> Channel:
        nccl_table = core.NcclTable.of(self._nccl.address, LATE_FUNCTIONS.keys() - self._support.functions)
        cuda_table = core.CudaTable.of(self._driver.address)
        timed_stream = core.Stream(
            cuda=ctypes.pointer(cuda_table),
            nccl=ctypes.pointer(nccl_table),
            comm=comm,
            stream=self._stream,
            events=self._events,
            timeout_ns=round(self._options.timeout_s * 1e9),
        )
        errors = CallErrors(self._driver, self._nccl, self._options.timeout_s)
        return Channel(
            self._driver, self._nccl, nccl_table, cuda_table, comm, self._stream, timed_stream, errors
        )

    def _event_cost_ns(self, world: World) -> float:
        """Time that one event adds to a call: an all-reduce with an event after every call against one event
        every 25, alternated; the median over rounds. A call that is too slow for that gets what is assumed.
        """
        size = min(_PROBE_BYTES, self.pair.size_bytes // 8 * 8)
        case = float_case("all_reduce", size, "sum")
        probe = IdleCase() if self._role is None else self._prepare(case, aggregate=1, graph=False)
        rounds = _rounds_of(probe, world)
        costs = np.empty(rounds)
        for i in range(-1, rounds) if rounds else ():  # round -1 warms up
            world.barrier()
            every = probe.time(_PROBE_K, _PROBE_CALLS, 1).elapsed_ns
            seldom = probe.time(_PROBE_K, _PROBE_CALLS // _PROBE_K, _PROBE_K).elapsed_ns
            if i >= 0:
                costs[i] = every.mean() - seldom.mean() / _PROBE_K
        probe.close()
        return max(float(np.median(costs)), _LEAST_EVENT_COST_NS) if rounds else _ASSUMED_EVENT_COST_NS

    def _identify(self) -> Identity:
        driver, device = self._driver, self._device
        return Identity(
            library="NCCL",
            version=self._nccl.version,
            path=self._nccl.path,
            device=driver.device_name(device),
            device_uuid=driver.device_uuid(device),
            facts={
                "pci_bus_id": driver.device_pci_bus_id(device),
                "cuda_driver_version": driver.driver_version(),
                "cuda_driver_path": driver.path,
                **self._facts,
            },
        )


def _rounds_of(probe: PreparedCase, world: World) -> int:
    """How many rounds of the probe fit; 0 where too few do. The same on every rank."""
    probe.time(0, 1, 1)  # NCCL connects
    world.barrier()
    call_ns = world.max(np.array([float(probe.time(0, 1, 1).elapsed_ns[0])]))[0]
    rounds = int(_PROBE_SECONDS * 1e9 / (2 * (_PROBE_K + _PROBE_CALLS) * max(call_ns, 1.0)))
    return min(rounds, _PROBE_ROUNDS) if rounds >= _LEAST_ROUNDS else 0


def _require_memory(driver: CudaDriver, plan: Plan) -> None:
    buffer_bytes = plan.buffer_bytes
    free, total = driver.memory_info()
    needed = 2 * buffer_bytes + RESERVE_BYTES
    if needed > free:
        fits = max(0, (free - RESERVE_BYTES) // 2)
        raise SiteError(
            f"too little GPU memory: send and receive buffers of {format_size(buffer_bytes)} and"
            f" {format_size(RESERVE_BYTES)} for NCCL need {format_size(needed)}, {free / 2**30:.1f} GiB of"
            f" {total / 2**30:.1f} GiB are free",
            hint=hint_of_size(fits, has_gaps=plan.has_gaps),
        )
