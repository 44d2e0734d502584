"""What exports of a profiler say to four of the questions. Times under a profiler are evidence of how kernels
differ from each other, never of how fast a run is: no answer of a run's own samples is changed by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from busbw.analysis.kernel_times import PERCENTS, OfSize, Spread, by_size
from busbw.diagnosis.subject import Subject
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.finding import Severity
from busbw.model.profile import Join, KernelName, NicRate, Profile
from busbw.units import NS_PER_US, format_size

_SHOWN: Final = 4
_UNTRUSTED: Final = "under a profiler: not to be compared with times of a run"
_JOINED: Final = {
    Join.LAUNCH: "sizes by the range of each kernel's launch",
    Join.ORDER: "sizes by order: as many ranges as kernels",
    Join.NONE: "sizes not known",
}
_SENT: Final = ("sent", "tx_", "send_", "rdma_write_bytes", "rdma_read_resp")


def links(subject: Subject) -> Iterator[Conclusion]:
    """Which NICs carried traffic while the profiler sampled them."""
    nics = [nic for profile in subject.profiles for nic in profile.nics]
    if not nics:
        if subject.profiles:
            yield _unseen(subject, Question.LINKS, "links.profiled", "NIC", "no NIC was sampled")
        return
    by_host: dict[str, list[NicRate]] = defaultdict(list)
    for nic in nics:
        by_host[nic.host].append(nic)
    for host, own in sorted(by_host.items()):
        yield _nics_of(host, own)


def _nics_of(host: str, nics: Sequence[NicRate]) -> Conclusion:
    """A NIC that carried less in all than the busiest did in one interval carried nothing of the run."""
    totals: dict[str, float] = defaultdict(float)
    most = 0.0
    for nic in nics:
        totals[nic.device] = max(totals[nic.device], sum(nic.gb_per_s))
        busiest = sum(nic.gb_per_s) / max(1, sum(rate > 0 for rate in nic.gb_per_s))
        most = max(most, busiest)
    silent = sorted(device for device, total in totals.items() if total < most or total == 0)
    used = len(totals) - len(silent)
    counted = {nic.counter for nic in nics}
    claim = (
        f"{used} of {len(totals)} NICs carried traffic" + (f" on {host}" if host else "")
        if silent
        else f"all {len(totals)} NICs carried traffic" + (f" on {host}" if host else "")
    )
    return Conclusion(
        Severity.WARNING if silent else Severity.INFO,
        claim + (f": nothing on {', '.join(silent[:_SHOWN])}" if silent else ""),
        evidence=f"Nsight Systems' samples of {', '.join(sorted(counted))}",
        hint="measure with --evidence counters, which tells what each link must have carried"
        if silent
        else "",
        host=host if silent else "",
        check="links.profiled",
        question=Question.LINKS,
        answer=Answer.NO if silent else Answer.YES,
        facts=tuple(_rates(nic) for nic in nics),
    )


def _rates(nic: NicRate) -> Fact:
    """The mean of the intervals in which something flowed: the others are before and after."""
    busy = [rate for rate in nic.gb_per_s if rate > 0]
    mean = sum(busy) / len(busy) if busy else 0.0
    direction = "sent" if any(word in nic.counter.lower() for word in _SENT) else "received"
    return Fact(f"{nic.host} {nic.device} {nic.counter}".strip(), round(mean, 4), "GB/s", direction)


def algorithm(subject: Subject) -> Iterator[Conclusion]:
    """What kernels' names tell, which is not the algorithm."""
    names = {each.name for profile in subject.profiles for each in profile.kernels}
    for name in sorted(names, key=lambda each: (each.collective, each.type_class, str(each.is_tree))):
        yield Conclusion(
            Severity.INFO,
            f"a kernel's name tells {_words(name)}; neither reduction nor protocol nor another algorithm",
            evidence="NCCL names every reduction kernel Sum and LL, and RING what is not a tree",
            hint="measure with --evidence algorithm, or with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING",
            check="algorithm.kernels",
            question=Question.ALGORITHM,
            facts=(
                Fact("collective", name.collective, source="kernel's name"),
                Fact("type class", name.type_class or "none", source="kernel's name"),
                Fact("tree", _TREE[name.is_tree], source="kernel's name"),
            ),
        )


_TREE: Final = {True: "yes", False: "no", None: "not told"}


def _words(name: KernelName) -> str:
    shape = {True: ", a tree", False: ", no tree (a ring, NVLS or CollNet)", None: ""}[name.is_tree]
    return f"{name.collective}{f' of {name.type_class}' if name.type_class else ''}{shape}"


def variance(subject: Subject) -> Iterator[Conclusion]:
    """How kernels of one size vary on one rank."""
    found = [each for each in by_size(subject.profiles) if each.size_bytes is not None]
    if not found:
        if subject.profiles:
            text = (
                "kernels have no message sizes" if _any_kernels(subject) else "no kernel of NCCL was traced"
            )
            yield _unseen(subject, Question.VARIANCE, "variance.kernels", "", text)
        return
    worst = max(found, key=lambda each: each.worst.cv)
    spread = worst.worst
    yield Conclusion(
        Severity.INFO,
        f"kernels of {_what(worst)} vary most: CV {spread.cv:.1%} over {spread.n},"
        f" {spread.low / NS_PER_US:.4g} to {spread.high / NS_PER_US:.4g} us around"
        f" {spread.median / NS_PER_US:.4g} us",
        evidence=f"{_joined(subject)}; {_UNTRUSTED}",
        check="variance.kernels",
        question=Question.VARIANCE,
        # A log has nothing better; a run has its own samples, which decide.
        answer=Answer.NOT_OBSERVABLE if len(subject.samples) else Answer.UNDECIDED,
        facts=tuple(fact for each in found for fact in _facts(each)),
    )


def ranks(subject: Subject) -> Iterator[Conclusion]:
    """How far the ranks' kernels are apart, and which rank's are shortest: the others wait inside theirs."""
    known = [(each.apart, each) for each in by_size(subject.profiles) if each.apart is not None]
    if not known:
        if subject.profiles:
            text = "kernels of two ranks or more are needed"
            yield _unseen(subject, Question.RANKS, "ranks.kernels", "", text)
        return
    apart, worst = max(known, key=lambda pair: pair[0] or 0.0)
    medians = {rank: spread.median for rank, spread in worst.ranks.items() if rank is not None}
    shortest, longest = min(medians, key=lambda r: medians[r]), max(medians, key=lambda r: medians[r])
    yield Conclusion(
        Severity.INFO,
        f"ranks' kernels differ by {apart:.1%} at most, at {_what(worst)}: rank {shortest} has the shortest,"
        f" {medians[shortest] / NS_PER_US:.4g} us, rank {longest} the longest,"
        f" {medians[longest] / NS_PER_US:.4g} us",
        evidence="(largest - smallest) / median, of the ranks' medians; a kernel waits for the last rank,"
        f" whose own is shortest; {_UNTRUSTED}",
        check="ranks.kernels",
        question=Question.RANKS,
        answer=Answer.NOT_OBSERVABLE if len(subject.digests) else Answer.UNDECIDED,
        facts=tuple(
            Fact(f"rank {rank} {_what(each)}", round(spread.median / NS_PER_US, 3), "us", "median kernel")
            for _, each in known
            for rank, spread in each.ranks.items()
        ),
    )


def _unseen(subject: Subject, question: Question, check: str, about: str, text: str) -> Conclusion:
    """What the exports lack, in their readers' words."""
    notes = [note for profile in subject.profiles for note in profile.notes]
    own = [note for note in notes if ("NIC" in note) == (about == "NIC")]
    return Conclusion(
        Severity.INFO,
        f"the exports of Nsight Systems do not tell: {text}",
        hint=own[0].rpartition(": ")[2] if own else "",
        evidence=own[0].rpartition(": ")[0] if own else "",
        check=check,
        question=question,
    )


def _any_kernels(subject: Subject) -> bool:
    return any(profile.kernels for profile in subject.profiles)


def _joined(subject: Subject) -> str:
    return "; ".join(sorted({_JOINED[each.join] for each in subject.profiles if _has_kernels(each)}))


def _has_kernels(profile: Profile) -> bool:
    return bool(profile.kernels)


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


def _values(spread: Spread) -> dict[str, float]:
    named = {"mean": spread.mean, "median": spread.median, "sd": spread.sd, "min": spread.low}
    percents = {f"p{p}": value for p, value in zip(PERCENTS, spread.percentiles, strict=True)}
    return {**named, **percents, "max": spread.high}
