"""A plan: everything the ranks need to know before they measure, as one plain value."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from busbw.model.case import Case
from busbw.model.choice import CHOICE_WORDS
from busbw.model.collective import Role
from busbw.model.counts import CountTable, table_of
from busbw.model.hunt import Hunt
from busbw.model.neighbour import Neighbour
from busbw.model.plain import from_plain
from busbw.model.soak import Soak

PLAN_VERSION = 1
RAW_RANKS: Final = 16
# What a stream may have other than the plan.
OF_A_STREAM: Final = ("checks", "data", "seed", "save_wrong", "rotate", "unique_buffers")


@dataclass(frozen=True)
class Limits:
    """When to stop, and what is not counted.

    ``calls`` fixes the number of timed calls (then nothing is adaptive; 0 only checks); None samples until
    the interval of the median is narrower than +-``precision`` (``small_precision`` below ``small_ns``), or a
    cap is reached: ``max_samples``, in several passes ``small_samples`` below ``small_ns``, where what the
    passes differ by is the interval. ``budget_seconds`` is for the whole sweep, shared out over the cases
    that are left. Untimed calls come first: at least ``warmup_calls`` of them, for at least
    ``warmup_seconds``; without either, until they are steady, for 3 calls or 20 ms at most.
    ``outer_iters`` repetitions of warm-up and timed calls come behind ``outer_warmup_iters`` untimed ones; 0
    where nothing is repeated.
    """

    calls: int | None = None
    warmup_calls: int | None = None
    warmup_seconds: float | None = None
    precision: float = 0.01
    small_precision: float = 0.025
    small_ns: float = 50_000.0
    max_samples: int = 1000
    small_samples: int = 90
    case_seconds: float = 0.5
    budget_seconds: float | None = None
    outer_iters: int = 0
    outer_warmup_iters: int = 0


@dataclass(frozen=True)
class Timing:
    """What a time is. ``mode`` throughput: k back-to-back calls a sample; latency: one call a sample, behind
    a barrier unless ``barrier`` is off. ``time`` is how a sample comes from those of the ranks (``TIMES``);
    ``arrival`` delays ranks on purpose (``model.arrival``), latency only; ``trace_ns`` are the delays of a
    trace, a row a call and a number a rank.
    """

    mode: str = "throughput"
    time: str = "max"
    arrival: str = "none"
    barrier: bool = True
    trace_ns: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class CallOptions:
    """How calls are issued and where their buffers lie; the same for every case of a plan.

    ``aggregate`` calls form one group (nccl-tests -m); ``graph`` is 0, or how often a captured CUDA graph is
    launched under -n (-G); ``register`` 0 none, 1 ncclCommRegister, 2 symmetric windows (-R); ``unalign`` is
    the index of the first element used in both buffers (-u); ``memory`` is device, nccl, managed or host, of
    GPU ranks; ``timeout_s`` ends a wait for the GPU, 0 never does (-T).
    """

    aggregate: int = 1
    graph: int = 0
    register: int = 0
    unalign: int = 0
    memory: str = "device"
    timeout_s: float = 0.0


@dataclass(frozen=True)
class Stream:
    """One of the operations that run at once (--streams): who takes part in it, and with what; the fields are
    those of Plan.

    ``calls`` is how many of its calls make up an iteration, of which every stream begins one at the same
    time; 0 where the ranks find out how many take as long as one call of the slowest stream.

    ``iters`` and ``warmup_iters`` are how many iterations of it are timed and untimed: Limits' ``calls`` and
    ``warmup_calls``. From ``iters`` on, what is None (or an empty ``data``) is as the plan has it.
    """

    collective: str
    buffer_bytes: int
    calls: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    counts: tuple[CountTable, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    iters: int | None = None
    warmup_iters: int | None = None
    checks: int | None = None
    data: str = ""
    seed: int | None = None
    save_wrong: bool | None = None
    rotate: bool | None = None
    unique_buffers: bool | None = None

    @property
    def own(self) -> dict[str, Any]:
        """The fields of the plan that this stream has another value for, but limits."""
        return {name: value for name in OF_A_STREAM if (value := getattr(self, name)) not in (None, "")}

    def limits(self, limits: Limits) -> Limits:
        """Those of the plan, with this stream's iterations."""
        calls = limits.calls if self.iters is None else self.iters
        warmup = limits.warmup_calls if self.warmup_iters is None else self.warmup_iters
        return replace(limits, calls=calls, warmup_calls=warmup)


@dataclass(frozen=True)
class Preflight:
    """What the ranks check before they measure.

    ``level`` is off, run (and measure then), only (make the communicator, and stop) or deep (copies and
    tools too, and stop). ``strict``: warnings end a run as errors do. ``ranks`` and ``nodes`` are how many
    were asked for, 0 where that was not said; ``expects`` what NCCL must be seen to use (net=ofi);
    ``folder`` is the front process's run folder, which nodes should see.
    """

    level: str = "off"
    strict: bool = False
    ranks: int = 0
    nodes: int = 0
    expects: tuple[str, ...] = ()
    folder: str = ""

    @property
    def stops(self) -> bool:
        """Whether nothing is to be measured."""
        return self.level in ("only", "deep")


@dataclass(frozen=True)
class Plan:
    """What to measure, in order, and how.

    ``buffer_bytes`` is the size of each of the two buffers of a rank (send, receive): the largest size of
    the sweep, as in nccl-tests, so that smaller sizes rotate through it. ``show`` are words of extra columns.

    ``groups`` are the ranks of each group of the world, in the order of their numbers in it; empty where the
    world is one. ``counts`` has a table for each collective whose counts are not even, or several, which
    a sweep takes in turn; ``pairs`` the (source, target) of permute, empty for the ring. ``data`` is what is
    moved and checked (``backends.values``).

    Where operations run at once, ``streams`` has each of them, and ``buffer_bytes`` is the sum of theirs.
    Cases then come in steps: one of every stream, in the streams' order.
    """

    backend: str
    cases: tuple[Case, ...]
    buffer_bytes: int
    limits: Limits
    checks: int
    seed: int
    rotate: bool = True
    nccl_path: str = ""
    options: CallOptions = CallOptions()
    timing: Timing = Timing()
    show: tuple[str, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    counts: tuple[CountTable, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    data: str = "exact"
    save_wrong: bool = False
    nccl_topology: bool = False  # NCCL's topology and graphs are kept
    pin: bool = False
    streams: tuple[Stream, ...] = ()
    preflight: Preflight = Preflight()
    evidence: tuple[str, ...] = ()  # passes behind the timed one: counters, algorithm
    profile: str = ""  # the profiler that ranks run under
    hunt: Hunt | None = None  # instead of cases
    unique_buffers: bool = False  # of every call, instead of rotating
    tuner_table: str = ""  # what NCCL is to choose, as a tuner's file has it
    raw_ranks: int = RAW_RANKS  # up to so many ranks all samples of every rank are kept
    soak: Soak | None = None  # the cases are measured again and again
    beside: tuple[Neighbour, ...] = ()  # each case is measured alone and beside each of them, in turn

    @property
    def has_gaps(self) -> bool:
        """Whether displacements reach further than the counts beside them: buffers are larger than sizes."""
        return any(table.extent > table.whole for table in self.counts)

    @property
    def steps(self) -> tuple[tuple[Case, ...], ...]:
        """The cases by what runs at once, in order."""
        width = max(1, len(self.streams))
        return tuple(self.cases[first : first + width] for first in range(0, len(self.cases), width))

    @property
    def places(self) -> str:
        """Where the buffers of a call lie, in words; of each stream where they differ."""
        found = [self.of_stream(number) for number in range(len(self.streams))] or [self]
        words = [
            "a place of its own for every call"
            if own.unique_buffers
            else "rotating through the largest size"
            if own.rotate
            else "one place (hot)"
            for own in found
        ]
        if len(set(words)) == 1:
            return words[0]
        return "; ".join(f"stream {number}: {text}" for number, text in enumerate(words))

    def of_stream(self, number: int) -> Plan:
        """What one stream is by itself, on a communicator and buffers of its own. Cases keep their places."""
        stream = self.streams[number]
        return replace(
            self,
            **stream.own,
            limits=stream.limits(self.limits),
            buffer_bytes=stream.buffer_bytes,
            groups=stream.groups,
            counts=stream.counts,
            pairs=stream.pairs,
            streams=(stream,),
        )

    def of_neighbour(self, neighbour: Neighbour) -> Plan:
        """What an operation beside the cases is by itself, on a communicator and buffers of its own."""
        groups = (neighbour.ranks,) if neighbour.ranks else ()
        size_bytes = neighbour.size_bytes or self.buffer_bytes
        return replace(self, buffer_bytes=size_bytes, groups=groups, counts=(), pairs=())

    @property
    def runs_at_once(self) -> bool:
        """Whether a rank has several operations under way."""
        return bool(self.streams) or any(each.is_operation and not each.ranks for each in self.beside)

    def of_case(self, case: Case) -> Plan:
        """The plan by which the case runs: that of its stream, where it has one."""
        return self.of_stream(case.stream) if len(self.streams) > case.stream >= 0 else self

    def group_of(self, rank: int, ranks: int) -> Role | None:
        """The group that a rank of the world belongs to, and its number in it; None where it sits out."""
        if not self.groups:
            return Role(rank, ranks)
        for number, members in enumerate(self.groups):
            if rank in members:
                return Role(members.index(rank), len(members), group=number)
        return None

    def role(self, case: Case, group: Role) -> Role:
        """The part that a rank plays in a case, in its group."""
        pairs = self.pairs if case.collective == "permute" else ()
        return replace(group, root=max(case.root, 0), counts=self.table(case), pairs=pairs)

    def table(self, case: Case) -> CountTable | None:
        """Who sends how much to whom in a case; None where counts are even, or there are none."""
        return table_of(self.counts, case.collective, case.cycle, even=case.even)

    def rank_bytes(self, case: Case, rank: int, ranks: int) -> tuple[int, int]:
        """Bytes in the send and in the receive buffer of one rank of the world; 0, 0 where it sits out."""
        plan = self.of_case(case)
        group = plan.group_of(rank, ranks)
        if group is None:
            return 0, 0
        role, type_bytes = plan.role(case, group), case.data_type.size_bytes
        sent = received = 0
        for part in case.parts:
            shape = part.shape_for(role)
            sent += sum(region.count for region in case.row.sends(shape, role))
            received += sum(region.count for region in case.row.receives(shape, role))
        return sent * type_bytes, received * type_bytes

    @property
    def tunes(self) -> bool:
        """Whether NCCL is told how to do calls, by this library as its tuner."""
        return bool(self.tuner_table) or any(case.arm for case in self.cases)

    @property
    def watches(self) -> bool:
        """Whether the library is watched during one untimed call of each case: what does it choose?"""
        return not CHOICE_WORDS.isdisjoint((*self.show, *self.evidence))

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({"version": PLAN_VERSION, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """The inverse of to_json."""
        fields = json.loads(text)
        if fields.pop("version") != PLAN_VERSION:
            raise ValueError("the plan was made by another version of busbw")
        return from_plain(cls, fields)
