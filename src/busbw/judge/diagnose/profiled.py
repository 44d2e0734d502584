"""What exports of a profiler say to four of the questions. Times under a profiler are evidence of how kernels
differ from each other, never of how fast a run is: no answer of a run's own samples is changed by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from busbw.judge.diagnose.concluded import concluded
from busbw.judge.diagnose.subject import Subject
from busbw.judge.traffic import STARVED, WORTH_NAMING, byte_paths, odd_one
from busbw.model.conclusion import Answer, Conclusion, Fact
from busbw.model.profile import Join, KernelName, NicRate, Profile
from busbw.stats.percentile import nearest_rank
from busbw.units import NS_PER_US, first_of, format_share, format_size, format_time

PERCENTS: Final = (1, 5, 25, 75, 90, 95, 99)
_FAR_MAD: Final = 5.0  # as for modes: beyond so many median absolute deviations a value stands apart


@dataclass(frozen=True)
class KernelTimes:
    """Times in ns. ``cv`` is sd / mean, ``sd`` of a sample (n - 1); percentiles are nearest ranks.
    ``outliers`` are further than 5 MAD from the median.
    """

    n: int
    mean: float
    median: float
    sd: float
    cv: float
    low: float
    high: float
    percentiles: tuple[float, ...]  # of PERCENTS
    outliers: int

    @classmethod
    def of(cls, durations_ns: Sequence[int]) -> KernelTimes:
        """Of at least one duration."""
        values = np.sort(np.asarray(durations_ns, np.float64))
        mean, middle = float(values.mean()), float(np.median(values))
        sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        away = np.abs(values - middle)
        mad = float(np.median(away))
        return cls(
            n=len(values),
            mean=mean,
            median=middle,
            sd=sd,
            cv=sd / mean if mean else 0.0,
            low=float(values[0]),
            high=float(values[-1]),
            percentiles=tuple(nearest_rank(values, percent) for percent in PERCENTS),
            outliers=int((away > _FAR_MAD * mad).sum()) if mad else 0,
        )


@dataclass(frozen=True)
class OfSize:
    """One operation at one message size, by rank. ``ranks`` has None where a kernel's rank is not known."""

    collective: str
    size_bytes: int | None
    placement: str
    ranks: Mapping[int | None, KernelTimes]

    @property
    def apart(self) -> float | None:
        """(largest - smallest) / median of the ranks' medians; None below two known ranks."""
        medians = [spread.median for rank, spread in self.ranks.items() if rank is not None]
        middle = float(np.median(medians)) if medians else 0.0
        return (max(medians) - min(medians)) / middle if len(medians) > 1 and middle else None

    @property
    def worst(self) -> KernelTimes:
        """Of the rank whose durations vary most."""
        return max(self.ranks.values(), key=lambda spread: spread.cv)


def by_size(profiles: Iterable[Profile]) -> tuple[OfSize, ...]:
    """All kernels of all exports, small sizes first. Kernels that have only one rank's part as size are left
    out: it is another size.
    """
    found: dict[tuple[str, int | None, str], dict[int | None, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in (each for profile in profiles for each in profile.kernels if not each.is_part):
        found[each.name.collective, each.size_bytes, each.placement][each.rank] += each.durations_ns
    ordered = sorted(found.items(), key=lambda item: (item[0][0], item[0][1] or 0, item[0][2]))
    return tuple(
        OfSize(*key, {rank: KernelTimes.of(times) for rank, times in ranks.items()}) for key, ranks in ordered
    )


_SHOWN: Final = 4
# With fewer samples, a NIC that carried little looks like one that was sampled at the end of the burst.
_TELLING: Final = 10
_UNTRUSTED: Final = "under a profiler: not to be compared with times of a run"
_JOINED: Final = {
    Join.LAUNCH: "sizes by the range of each kernel's launch",
    Join.NONE: "sizes not known",
}
_PORT: Final = "port 1"  # exports do not say it
_SENT: Final = ("sent", "tx_", "send_", "rdma_write_bytes", "rdma_read_resp")


def links(subject: Subject) -> Iterator[Conclusion]:
    """Which NICs carried traffic while the profiler sampled them."""
    by_host: dict[tuple[str, int], list[NicRate]] = defaultdict(list)
    for number, profile in enumerate(subject.profiles):
        for nic in profile.nics:
            # Exports that name no host may be of as many: their NICs have the same names.
            by_host[nic.host, 0 if nic.host else number].append(nic)
    if subject.profiles and not by_host:
        yield _unseen(subject, "links.profiled", "no NIC was sampled")
    for (host, _), own in sorted(by_host.items()):
        yield _nics_of(subject, host, own)


class _Nic(NamedTuple):
    """What one NIC carried over all samples of its busiest counter (GB/s times samples), and its mean in
    those in which something flowed.
    """

    device: str
    total: float
    gb_per_s: float
    samples: int


def _nics_of(subject: Subject, host: str, nics: Sequence[NicRate]) -> Conclusion:
    """Totals over the samples are compared: all NICs of a host were sampled alike."""
    clear = {nic.device for nic in nics if nic.gb_per_s}
    if unclear := [nic for nic in nics if nic.device not in clear]:
        return _unclear(host, unclear)
    nics = [nic for nic in nics if nic.gb_per_s]
    ways = byte_paths(subject.record)
    meant = [nic for nic in nics if ways.allows_port(_kind(nic.device), nic.device, _PORT)] or nics
    own = _each(meant)
    left_out = sorted({nic.device for nic in nics} - {nic.device for nic in meant})
    busiest = max(own, key=lambda each: each.total)
    # What another NIC's one sample can hold is what the ends of a burst leave.
    noise = busiest.total / busiest.samples if busiest.samples >= _TELLING else 0.0
    silent = [each.device for each in own if not each.total or each.total < noise]
    used = [each for each in own if each.device not in silent]
    where = f" on {host}" if host else ""
    odd = _unlike(used) if len(used) > 1 else ""
    claim = f"{len(used)} of {len(own)}" if silent else f"all {len(own)}"
    claim += f" NICs carried traffic{where}"
    claim += f": nothing on {', '.join(silent[:_SHOWN])}" if silent else ""
    claim += f"; {odd}" if odd else ""
    bad = bool(silent or odd)
    return concluded(
        claim + (f" ({_flow(subject, used, len(own))})" if used else ""),
        evidence=f"Nsight Systems' samples of {', '.join(sorted({nic.counter for nic in nics}))}"
        + (f"; {ways.choosing} leaves out {', '.join(left_out[:_SHOWN])}" if left_out else "")
        + _beside_algbw(subject, used),
        hint="measure with --evidence counters, which shows what each link must have carried" if bad else "",
        host=host if bad else "",
        check="links.profiled",
        answer=Answer.NO if bad else Answer.YES,
        facts=tuple(_rates(nic) for nic in nics),
    )


def _unclear(host: str, nics: Sequence[NicRate]) -> Conclusion:
    """Few samples that never fall can be rates and counts."""
    counters = ", ".join(sorted({nic.counter for nic in nics}))
    return concluded(
        f"which NICs carried traffic cannot be decided{f' on {host}' if host else ''}: samples of"
        f" {first_of(sorted({nic.device for nic in nics}), _SHOWN)} never fall",
        evidence=f"{counters}: rates that never fell, or counts that rose less than four times",
        hint="profile longer, from before the operation on, or measure with --evidence counters",
        host=host,
        check="links.profiled",
        answer=Answer.UNDECIDED,
    )


def _kind(device: str) -> str:
    """Exports have names only: Linux calls EFA's devices rdmap... or efa_N, and no others so."""
    return "efa" if device.startswith(("rdmap", "efa")) else "rdma"


def _each(nics: Sequence[NicRate]) -> list[_Nic]:
    found: dict[str, _Nic] = {}
    for nic in nics:
        busy = [rate for rate in nic.gb_per_s if rate > 0]
        new = _Nic(nic.device, sum(busy), sum(busy) / max(1, len(busy)), len(busy))
        found[nic.device] = max(found.get(nic.device, new), new, key=lambda each: each.total)
    return list(found.values())


def _unlike(used: Sequence[_Nic]) -> str:
    """The NIC that is least like the middle one, where that costs more than a sample at an end of the burst
    would; empty where they are alike.
    """
    totals = [each.total for each in used]
    mean = sum(totals) / len(totals)
    noise = max(WORTH_NAMING, 1 / max(1, *(each.samples for each in used)))
    if max(totals) / mean - 1 <= noise and min(totals) >= STARVED * mean:
        return ""
    odd, words, _ = odd_one(totals, "NIC")
    return f"{used[odd].device} {words}"


def _flow(subject: Subject, used: Sequence[_Nic], nics: int) -> str:
    """The rates of NICs, and their share of the line rate where that is known of as many."""
    rates = [f"{each.gb_per_s:.3g}" for each in used]
    words = f"{len(rates)} x {rates[0]}" if len(set(rates)) == 1 else ", ".join(rates[: 2 * _SHOWN])
    words += f" and {len(rates) - 2 * _SHOWN} more" if len(set(rates)) > 1 and len(rates) > 2 * _SHOWN else ""
    line = subject.wires.network_gb_per_s
    share = sum(each.gb_per_s for each in used) / line if line and subject.wires.nics == nics else None
    return f"{words} GB/s" + (
        f", {format_share(share, decimals=0)} of {nics} lines' {line:.3g} GB/s" if share is not None else ""
    )


def _beside_algbw(subject: Subject, used: Sequence[_Nic]) -> str:
    """What a host's NICs carried together beside the largest algbw of what was profiled, which is what two
    nodes exchange; nothing where no size in the exports is one of the run's.
    """
    kernels = [each for profile in subject.profiles for each in profile.kernels]
    sizes = {each.size_bytes for each in kernels}
    timed = [
        pair
        for pair in subject.timed
        if pair[1].algbw_gb_per_s and (not kernels or pair[0].size_bytes in sizes)
    ]
    if not timed or not used:
        return ""
    large = max(timed, key=lambda pair: pair[1].algbw_gb_per_s or 0.0)
    total = sum(each.gb_per_s for each in used)
    return (
        f"; {total:.3g} GB/s together, where the algbw of {format_size(large[0].size_bytes)} is"
        f" {large[1].algbw_gb_per_s:.3g} GB/s"
    )


def _rates(nic: NicRate) -> Fact:
    """The mean of the intervals in which something flowed: the others are before and after."""
    busy = [rate for rate in nic.gb_per_s if rate > 0]
    mean = sum(busy) / len(busy) if busy else 0.0
    direction = "sent" if any(word in nic.counter.lower() for word in _SENT) else "received"
    return Fact(f"{nic.host} {nic.device} {nic.counter}".strip(), round(mean, 4), "GB/s", direction)


def algorithm(subject: Subject) -> Iterator[Conclusion]:
    """What kernels' names show, which is not the algorithm."""
    names = {each.name for profile in subject.profiles for each in profile.kernels}
    for name in sorted(names, key=lambda each: (each.collective, each.type_class, str(each.is_tree))):
        yield concluded(
            f"a kernel's name shows {_words(name)}; it does not show reduction, protocol or algorithm",
            evidence="NCCL names every reduction kernel Sum and LL, and RING what is not a tree",
            hint="measure with --evidence algorithm, or with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING",
            check="algorithm.kernels",
            facts=(
                Fact("collective", name.collective, source="kernel's name"),
                Fact("type class", name.type_class or "none", source="kernel's name"),
                Fact("tree", _TREE[name.is_tree], source="kernel's name"),
            ),
        )


_TREE: Final = {True: "yes", False: "no", None: "not known"}


def _words(name: KernelName) -> str:
    shape = {True: ", a tree", False: ", no tree (a ring, NVLS or CollNet)", None: ""}[name.is_tree]
    return f"{name.collective}{f' of {name.type_class}' if name.type_class else ''}{shape}"


def variance(subject: Subject) -> Iterator[Conclusion]:
    """How kernels of one size vary on one rank."""
    found = [each for each in by_size(subject.profiles) if each.size_bytes is not None]
    if not found:
        if subject.profiles:
            traced = any(profile.kernels for profile in subject.profiles)
            text = "kernels have no message sizes" if traced else "no kernel of NCCL was traced"
            yield _unseen(subject, "variance.kernels", text)
        return
    worst = max(found, key=lambda each: each.worst.cv)
    spread = worst.worst
    yield concluded(
        f"kernels of {_what(worst)} vary most: CV {format_share(spread.cv)} over {spread.n},"
        f" {format_time(spread.low, 4)} to {format_time(spread.high, 4)} around"
        f" {format_time(spread.median, 4)}",
        evidence=f"{_joined(subject)}; {_UNTRUSTED}",
        check="variance.kernels",
        answer=_beside(subject, len(subject.samples)),
        facts=tuple(fact for each in found for fact in _facts(each)),
    )


def ranks(subject: Subject) -> Iterator[Conclusion]:
    """How far the ranks' kernels are apart, and which rank's are shortest: the others wait inside theirs."""
    known = [(each.apart, each) for each in by_size(subject.profiles) if each.apart is not None]
    if not known:
        if subject.profiles:
            yield _unseen(subject, "ranks.kernels", "kernels of two ranks or more are needed")
        return
    apart, worst = max(known, key=lambda pair: pair[0] or 0.0)
    medians = {rank: spread.median for rank, spread in worst.ranks.items() if rank is not None}
    shortest, longest = min(medians, key=lambda r: medians[r]), max(medians, key=lambda r: medians[r])
    yield concluded(
        f"ranks' kernels differ by {format_share(apart)} at most, at {_what(worst)}: rank {shortest} has the"
        " shortest,"
        f" {format_time(medians[shortest], 4)}, rank {longest} the longest,"
        f" {format_time(medians[longest], 4)}",
        evidence="(largest - smallest) / median, of the ranks' medians; a kernel waits for the last rank,"
        f" whose own is shortest; {_UNTRUSTED}",
        check="ranks.kernels",
        answer=_beside(subject, len(subject.digests)),
        facts=tuple(
            Fact(f"rank {rank} {_what(each)}", round(spread.median / NS_PER_US, 3), "us", "median kernel")
            for _, each in known
            for rank, spread in each.ranks.items()
        ),
    )


def _beside(subject: Subject, own: int) -> Answer:
    """A run has its own samples, which decide, unless they were profiled too; a log has nothing better."""
    return Answer.NOT_OBSERVABLE if own and not subject.record.profiled else Answer.UNDECIDED


def untrusted(check: str) -> Conclusion:
    """What a run's own times say of a question where ranks ran under a profiler."""
    return concluded(
        "a profiler was attached: its own work is in the samples, so they are not judged",
        hint="measure without --profile, and without nsys around it",
        check=check,
    )


def _unseen(subject: Subject, check: str, text: str) -> Conclusion:
    """What the exports lack, in their readers' words."""
    notes = [note for profile in subject.profiles for note in profile.notes]
    own = [note for note in notes if ("NIC" in note) == (check == "links.profiled")]
    return concluded(
        f"the exports of Nsight Systems do not show it: {text}",
        hint=own[0].rpartition(": ")[2] if own else "",
        evidence=own[0].rpartition(": ")[0] if own else "",
        check=check,
    )


def _joined(subject: Subject) -> str:
    return "; ".join(sorted({_JOINED[each.join] for each in subject.profiles if each.kernels}))


def _what(each: OfSize) -> str:
    size = "" if each.size_bytes is None else f" {format_size(each.size_bytes)}"
    return f"{each.collective}{size}{f' {each.placement}' if each.placement else ''}"


def _facts(each: OfSize) -> Iterator[Fact]:
    """Everything about each rank's kernels of one size."""
    for rank, spread in each.ranks.items():
        name = f"{_what(each)} rank {'?' if rank is None else rank}"
        yield Fact(f"{name} n", spread.n)
        for word, value in _values(spread).items():
            yield Fact(f"{name} {word}", round(value / NS_PER_US, 3), "us")
        yield Fact(f"{name} CV", round(spread.cv, 5), source="sd / mean")
        yield Fact(f"{name} outliers", spread.outliers, source="further than 5 MAD from the median")


def _values(spread: KernelTimes) -> dict[str, float]:
    named = {"mean": spread.mean, "median": spread.median, "sd": spread.sd, "min": spread.low}
    percents = {f"p{p}": value for p, value in zip(PERCENTS, spread.percentiles, strict=True)}
    return {**named, **percents, "max": spread.high}
