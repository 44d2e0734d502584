"""What exports of a profiler say to four of the questions. Times under a profiler are evidence of how kernels
differ from each other, never of how fast a run is: no answer of a run's own samples is changed by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from busbw.judge.diagnose.subject import Subject, concluded
from busbw.judge.traffic import STARVED, WORTH_NAMING, byte_paths, odd_one
from busbw.model.conclusion import Answer, Conclusion, Fact
from busbw.model.profile import Join, Kernels, NicRate
from busbw.stats.percentile import nearest_rank
from busbw.units import NS_PER_US, first_of, format_share, format_size, format_time

_PERCENTS: Final = (1, 5, 25, 75, 90, 95, 99)
_FAR_MAD: Final = 5.0  # as for modes: beyond so many median absolute deviations a value stands apart
# Statistics that are no times, and how they come about.
_NO_TIMES: Final = {"n": "", "CV": "sd / mean", "outliers": "further than 5 MAD from the median"}


def _statistics(durations_ns: Sequence[int]) -> dict[str, float]:
    """Of at least one duration, by name, times in ns. ``sd`` is of a sample (n - 1), ``CV`` sd / mean;
    percentiles are nearest ranks.
    """
    values = np.sort(np.asarray(durations_ns, np.float64))
    mean, middle = float(values.mean()), float(np.median(values))
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    away = np.abs(values - middle)
    mad = float(np.median(away))
    return {
        "n": len(values),
        "mean": mean,
        "median": middle,
        "sd": sd,
        "min": float(values[0]),
        **{f"p{percent}": nearest_rank(values, percent) for percent in _PERCENTS},
        "max": float(values[-1]),
        "CV": sd / mean if mean else 0.0,
        "outliers": int((away > _FAR_MAD * mad).sum()) if mad else 0,
    }


@dataclass(frozen=True)
class _OfSize:
    """One operation at one message size, in ``words``: statistics of its kernels by rank, None where a
    kernel's rank is not known.
    """

    words: str
    has_size: bool
    ranks: Mapping[int | None, Mapping[str, float]]

    @property
    def medians(self) -> dict[int, float]:
        """Of the known ranks."""
        return {rank: found["median"] for rank, found in self.ranks.items() if rank is not None}

    @property
    def apart(self) -> float | None:
        """(largest - smallest) / median of the ranks' medians; None below two known ranks."""
        medians = list(self.medians.values())
        middle = float(np.median(medians)) if medians else 0.0
        return (max(medians) - min(medians)) / middle if len(medians) > 1 and middle else None

    @property
    def worst(self) -> Mapping[str, float]:
        """Of the rank whose durations vary most."""
        return max(self.ranks.values(), key=lambda found: found["CV"])


def _by_size(subject: Subject) -> list[_OfSize]:
    """All kernels of all exports, small sizes first. Kernels that have only one rank's part as size are left
    out: it is another size.
    """
    times: dict[tuple[str, int | None, str], dict[int | None, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in _kernels(subject):
        if not each.is_part:
            times[each.name.collective, each.size_bytes, each.placement][each.rank] += each.durations_ns
    found = []
    for key, ranks in sorted(times.items(), key=lambda item: (item[0][0], item[0][1] or 0, item[0][2])):
        collective, size_bytes, placement = key
        size = "" if size_bytes is None else format_size(size_bytes)
        words = " ".join(filter(None, (collective, size, placement)))
        statistics = {rank: _statistics(durations) for rank, durations in ranks.items()}
        found.append(_OfSize(words, size_bytes is not None, statistics))
    return found


def _kernels(subject: Subject) -> list[Kernels]:
    return [each for profile in subject.profiles for each in profile.kernels]


_SHOWN: Final = 4
# With fewer samples, a NIC that carried little looks like one that was sampled at the end of the burst.
_TELLING: Final = 10
_UNTRUSTED: Final = "under a profiler: not to be compared with times of a run"
_JOINED: Final = {Join.LAUNCH: "sizes by the range of each kernel's launch", Join.NONE: "sizes not known"}
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
    """What one NIC carried over all samples of a counter (GB/s times samples), and its mean in those in which
    something flowed: the others are before and after.
    """

    device: str
    total: float
    gb_per_s: float
    samples: int

    @classmethod
    def of(cls, nic: NicRate) -> _Nic:
        """By one of its counters."""
        busy = [rate for rate in nic.gb_per_s if rate > 0]
        return cls(nic.device, sum(busy), sum(busy) / max(1, len(busy)), len(busy))


def _nics_of(subject: Subject, host: str, nics: Sequence[NicRate]) -> Conclusion:
    """Totals over the samples are compared: all NICs of a host were sampled alike."""
    clear = {nic.device for nic in nics if nic.gb_per_s}
    if unclear := [nic for nic in nics if nic.device not in clear]:
        return _unclear(host, unclear)
    nics = [nic for nic in nics if nic.gb_per_s]
    ways = byte_paths(subject.record)
    meant = [nic for nic in nics if ways.allows_port(_kind(nic.device), nic.device, _PORT)] or nics
    by_device: dict[str, _Nic] = {}  # each NIC by its busiest counter
    for each in map(_Nic.of, meant):
        by_device[each.device] = max(by_device.get(each.device, each), each, key=lambda one: one.total)
    own = list(by_device.values())
    left_out = sorted({nic.device for nic in nics} - by_device.keys())
    busiest = max(own, key=lambda each: each.total)
    # What another NIC's one sample can hold is what the ends of a burst leave.
    noise = busiest.total / busiest.samples if busiest.samples >= _TELLING else 0.0
    silent = [each.device for each in own if not each.total or each.total < noise]
    used = [each for each in own if each.device not in silent]
    odd = _unlike(used) if len(used) > 1 else ""
    claim = f"{len(used)} of {len(own)}" if silent else f"all {len(own)}"
    claim += f" NICs carried traffic{f' on {host}' if host else ''}"
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
        facts=tuple(map(_rate, nics)),
    )


def _kind(device: str) -> str:
    """Exports have names only: Linux calls EFA's devices rdmap... or efa_N, and no others so."""
    return "efa" if device.startswith(("rdmap", "efa")) else "rdma"


def _rate(nic: NicRate) -> Fact:
    way = "sent" if any(word in nic.counter.lower() for word in _SENT) else "received"
    name = f"{nic.host} {nic.device} {nic.counter}".strip()
    return Fact(name, round(_Nic.of(nic).gb_per_s, 4), "GB/s", way)


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
    is_one_rate = len(set(rates)) == 1
    words = f"{len(rates)} x {rates[0]} GB/s" if is_one_rate else f"{first_of(rates, 2 * _SHOWN)} GB/s"
    line = subject.wires.network_gb_per_s
    if not line or subject.wires.nics != nics:
        return words
    share = format_share(sum(each.gb_per_s for each in used) / line, decimals=0)
    return f"{words}, {share} of {nics} lines' {line:.3g} GB/s"


def _beside_algbw(subject: Subject, used: Sequence[_Nic]) -> str:
    """What a host's NICs carried together beside the largest algbw of what was profiled, which is what two
    nodes exchange; nothing where no size in the exports is one of the run's.
    """
    sizes = {each.size_bytes for each in _kernels(subject)}
    timed = [
        (result.algbw_gb_per_s, case.size_bytes)
        for case, result in subject.record.timed
        if result.algbw_gb_per_s and (not sizes or case.size_bytes in sizes)
    ]
    if not timed or not used:
        return ""
    algbw, size_bytes = max(timed, key=lambda pair: pair[0])
    total = sum(each.gb_per_s for each in used)
    return f"; {total:.3g} GB/s together, where the algbw of {format_size(size_bytes)} is {algbw:.3g} GB/s"


def algorithm(subject: Subject) -> Iterator[Conclusion]:
    """What kernels' names show, which is not the algorithm."""
    names = {each.name for each in _kernels(subject)}
    for name in sorted(names, key=lambda each: (each.collective, each.type_class, str(each.is_tree))):
        tree, shape = _TREE[name.is_tree]
        words = f"{name.collective}{f' of {name.type_class}' if name.type_class else ''}{shape}"
        yield concluded(
            f"a kernel's name shows {words}; it does not show reduction, protocol or algorithm",
            evidence="NCCL names every reduction kernel Sum and LL, and RING what is not a tree",
            hint="measure with --evidence algorithm, or with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING",
            check="algorithm.kernels",
            facts=(
                Fact("collective", name.collective, source="kernel's name"),
                Fact("type class", name.type_class or "none", source="kernel's name"),
                Fact("tree", tree, source="kernel's name"),
            ),
        )


_TREE: Final = {
    True: ("yes", ", a tree"),
    False: ("no", ", no tree (a ring, NVLS or CollNet)"),
    None: ("not known", ""),
}


def variance(subject: Subject) -> Iterator[Conclusion]:
    """How kernels of one size vary on one rank."""
    found = [each for each in _by_size(subject) if each.has_size]
    if not found:
        if subject.profiles:
            traced = _kernels(subject)
            text = "kernels have no message sizes" if traced else "no kernel of NCCL was traced"
            yield _unseen(subject, "variance.kernels", text)
        return
    worst = max(found, key=lambda each: each.worst["CV"])
    spread = worst.worst
    joined = sorted({_JOINED[each.join] for each in subject.profiles if each.kernels})
    yield concluded(
        f"kernels of {worst.words} vary most: CV {format_share(spread['CV'])} over {spread['n']},"
        f" {format_time(spread['min'], 4)} to {format_time(spread['max'], 4)} around"
        f" {format_time(spread['median'], 4)}",
        evidence="; ".join((*joined, _UNTRUSTED)),
        check="variance.kernels",
        answer=_beside(subject, len(subject.samples)),
        facts=tuple(
            Fact(f"{each.words} rank {'?' if rank is None else rank} {word}", *_shown(word, value))
            for each in found
            for rank, statistics in each.ranks.items()
            for word, value in statistics.items()
        ),
    )


def _shown(word: str, value: float) -> tuple[float, str, str]:
    """Value, unit and source of a statistic."""
    if word in _NO_TIMES:
        return round(value, 5), "", _NO_TIMES[word]
    return round(value / NS_PER_US, 3), "us", ""


def ranks(subject: Subject) -> Iterator[Conclusion]:
    """How far the ranks' kernels are apart, and which rank's are shortest: the others wait inside theirs."""
    known = [(each.apart, each) for each in _by_size(subject) if each.apart is not None]
    if not known:
        if subject.profiles:
            yield _unseen(subject, "ranks.kernels", "kernels of two ranks or more are needed")
        return
    apart, worst = max(known, key=lambda pair: pair[0])
    medians = worst.medians
    shortest, longest = min(medians, key=lambda r: medians[r]), max(medians, key=lambda r: medians[r])
    yield concluded(
        f"ranks' kernels differ by {format_share(apart)} at most, at {worst.words}: rank {shortest} has the"
        f" shortest, {format_time(medians[shortest], 4)}, rank {longest} the longest,"
        f" {format_time(medians[longest], 4)}",
        evidence="(largest - smallest) / median, of the ranks' medians; a kernel waits for the last rank,"
        f" whose own is shortest; {_UNTRUSTED}",
        check="ranks.kernels",
        answer=_beside(subject, len(subject.digests)),
        facts=tuple(
            Fact(f"rank {rank} {each.words}", round(found["median"] / NS_PER_US, 3), "us", "median kernel")
            for _, each in known
            for rank, found in each.ranks.items()
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
