"""Who a job that hangs waits for: from NCCL's own counts, from PyTorch's flight recorder, and from what the
kernel says of processes. Pure.

A rank is named for what is seen of it: it does not answer, or it has launched less than the others of its
communicator and nothing moves. Of several communicators the one counts whose late rank waits nowhere else:
a rank that waits in another communicator is late for that reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.machine.seen import of_ranks, process_words
from busbw.model.hang import (
    Communicator,
    Group,
    HangAnswer,
    HostSeen,
    JobSeen,
    ProcessSeen,
    RankSeen,
    RankState,
    Recorded,
)
from busbw.units import counted, first_of

Hosts = Mapping[str, HostSeen]
"""By name, as RAS tells it."""

RAS_UNSEEN: Final = (
    "NCCL counts only AllReduce, AllGather, ReduceScatter, Broadcast and Reduce that the host launches: not"
    " sends, alltoall, gather, scatter, graphs that are replayed, and symmetric kernels before 2.31"
)
_RECORDER_UNSEEN: Final = "the recorder has each rank's last collectives, no sends, no replayed graphs"
_OF_GPU: Final = "look at the GPUs (`nvidia-smi`: power, Xid errors) and the links (`busbw preflight`)"
# Their sizes are alike on all ranks.
_EVEN: Final = frozenset({"all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"})
_PYTORCH: Final = "/torch/"
_MOST_NAMED: Final = 4
# Of a process that does not go on; by the letter of proc(5).
_STATES: Final = {"T": "stopped", "t": "stopped by a debugger", "Z": "ended", "X": "ended", "": "gone"}
_BUSY: Final = {"R": "runs", "D": "waits in the kernel"}
_ENDS: Final = {"stopped": "is", "stopped by a debugger": "is", "ended": "has", "gone": "is"}


@dataclass(frozen=True)
class _Late:
    """A rank that others wait for, and in what: ``launched`` of ``operation``, of which others have ``most``;
    of a rank that does not answer there is no count.
    """

    communicator: Communicator
    rank: RankSeen
    operation: str = ""
    launched: int = 0
    most: int = 0

    @property
    def awaited(self) -> str:
        """The call that others wait in."""
        return f"{self.operation} {self.most:,}" if self.operation else ""

    @property
    def last(self) -> str:
        """The call that it launched last."""
        return f"{self.operation} {self.launched:,}" if self.operation else "not reported"


# ---- NCCL's RAS ----------------------------------------------------------------------------------------


def suspects(first: JobSeen, second: JobSeen) -> tuple[RankSeen, ...]:
    """The ranks whose processes are to be looked at: those that others wait for; all of a job that stands
    still where nobody is late.
    """
    found, has_moved = _late_ranks(first, second)
    late = [late.rank for late in found]
    if not late and not has_moved:
        late = [rank for each in second.communicators for rank in each.ranks]
    return tuple({rank.process: rank for rank in late}.values())


def judge_counts(first: JobSeen, second: JobSeen, hosts: Hosts, waited_s: float) -> HangAnswer:
    """What two looks at a job say, so long one after the other, and the hosts of ``suspects``."""
    asked = f"NCCL {second.nccl}'s RAS was asked twice, {waited_s:g} s apart"
    late, has_moved = _late_ranks(first, second)
    if late:
        return _named(late, hosts, asked)
    size = max((each.size for each in second.communicators), default=0)
    all_told = f"{counted(len(second.communicators), 'communicator')}, of up to {counted(size, 'rank')}"
    if has_moved:
        answer = f"no hang: operations are being launched ({all_told})"
        return HangAnswer(is_hung=False, answer=answer, evidence=(asked,), unseen=RAS_UNSEEN)
    if not second.has_counts:
        answer = "no rank is behind another; this version of NCCL does not show whether the job moves"
    elif not second.communicators:
        answer = "NCCL knows no communicator"
    else:
        answer = (
            f"all ranks have launched the same operations, and none in the last {waited_s:g} s ({all_told})"
        )
    why = "the job computes, or it waits for a GPU or the network: NCCL does not show which"
    ranks = {rank.process: rank.rank for rank in suspects(first, second)}
    return HangAnswer(
        is_hung=None,
        answer=answer,
        evidence=(asked, why, *of_ranks(hosts, ranks)) if second.communicators else (asked,),
        unseen=RAS_UNSEEN,
        next=f"{_OF_GPU}, or give PyTorch's dumps to --flight-recorder",
    )


def _late_ranks(first: JobSeen, second: JobSeen) -> tuple[list[_Late], bool]:
    """Ranks that others wait for, those first that do not wait themselves; empty where nothing stands still.
    And whether any communicator goes on.

    A communicator stands still where no count of its ranks has changed between the looks. A process that
    launches in another communicator goes on, and is late nowhere.
    """

    def counts(communicator: Communicator) -> dict[int, Mapping[str, int]]:
        return {rank.rank: rank.counts for rank in communicator.ranks}

    before = {each.name: counts(each) for each in first.communicators}
    still = [each for each in second.communicators if counts(each) == before.get(each.name)]
    moving = {
        rank.process
        for each in second.communicators
        for rank in each.ranks
        if rank.counts != before.get(each.name, {}).get(rank.rank)
    }
    silent = [_Late(each, rank) for each in still for rank in each.ranks if rank.is_missing]
    behind = [late for each in still for late in _behind(each) if late.rank.process not in moving]
    gone = {late.rank.process for late in silent}
    waiting = {rank.process for each in still for rank in _ahead(each)}
    roots = [late for late in behind if late.rank.process not in waiting | gone]
    return silent or roots or behind, len(still) < len(second.communicators)


def _most(communicator: Communicator) -> Counter[str]:
    """Of each operation the largest number that a rank has launched."""
    most: Counter[str] = Counter()
    others = ({name: count} for name, count, _ in communicator.others)
    for counts in (*(rank.counts for rank in communicator.ranks), *others):
        most |= Counter(counts)
    return most


def _behind(communicator: Communicator) -> Iterator[_Late]:
    most = _most(communicator)
    for rank in communicator.ranks:
        lags = {name: most[name] - count for name, count in rank.counts.items()}
        name = max(lags, key=lambda each: lags[each], default="")
        if name and lags[name] > 0:
            yield _Late(communicator, rank, name, rank.counts[name], most[name])


def _ahead(communicator: Communicator) -> Iterator[RankSeen]:
    """The ranks that wait for those behind, and are behind nobody."""
    late = {each.rank.rank for each in _behind(communicator)}
    if late or any(rank.is_missing for rank in communicator.ranks):
        yield from (rank for rank in communicator.ranks if rank.rank not in late and not rank.is_missing)


def _named(late: Sequence[_Late], hosts: Hosts, asked: str) -> HangAnswer:
    worst = late[0].communicator
    of_worst = [each for each in late if each.communicator is worst]
    rows = _states((each.rank.rank, (_where(each.rank), _state(each, hosts), each.last)) for each in of_worst)
    # The others wait in what a late rank has not launched; else in the last that one of them has launched,
    # where only one kind is in use.
    used = [f"{name} {count:,}" for name, count in _most(worst).items() if count]
    awaited = of_worst[0].awaited or (used[0] if len(used) == 1 else "")
    waiting = tuple(rank.rank for rank in _ahead(worst))
    if waiting:
        rows.append(RankState(waiting, "", "waits", awaited))
    others = worst.size - len(of_worst)
    number = f" in {awaited}" if awaited else ""
    does = "waits" if others == 1 else "wait"
    answer = f"{_who(of_worst, hosts)}; {counted(others, 'other rank')} {does}{number}"
    named = {each.rank.process: each.rank.rank for each in of_worst[:_MOST_NAMED]}
    first = of_worst[0].rank
    return HangAnswer(
        is_hung=True,
        answer=answer,
        states=tuple(rows),
        evidence=(f"{asked}; no count of that communicator changed", *of_ranks(hosts, named)),
        unseen=RAS_UNSEEN,
        next=_next(first.pid, first.host, _process(first, hosts)),
    )


def _states(told: Iterable[tuple[int, tuple[str, str, str]]]) -> list[RankState]:
    """Ranks of one place, state and last operation together."""
    alike: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for rank, words in told:
        alike[words].append(rank)
    return [RankState(tuple(ranks), *words) for words, ranks in alike.items()]


def _who(late: Sequence[_Late], hosts: Hosts) -> str:
    is_one = len(late) == 1
    answer = first_of((f"rank {each.rank.rank} ({_where(each.rank)})" for each in late), _MOST_NAMED)
    if late[0].operation:
        answer += f" {'has' if is_one else 'have'} not entered {late[0].awaited}"
    else:
        answer += f" {'does' if is_one else 'do'} not answer"
    states = {_state(each, hosts) for each in late}
    state = states.pop() if len(states) == 1 else ""
    return f"{answer}: the process {_ENDS[state]} {state}" if state in _ENDS and is_one else answer


def _where(rank: RankSeen) -> str:
    return f"pid {rank.pid} on {rank.host}" if rank.host else "place not reported"


def _state(late: _Late, hosts: Hosts) -> str:
    seen, process = "not entered" if late.operation else "no answer", _process(late.rank, hosts)
    if process is None:
        return seen
    return _STATES.get(process.state) or f"{seen}, {_BUSY.get(process.state, 'sleeps')}"


def _process(rank: RankSeen, hosts: Hosts) -> ProcessSeen | None:
    return hosts[rank.host].processes.get(rank.pid) if rank.host in hosts else None


def _next(pid: int, host: str, process: ProcessSeen | None) -> str:
    if process is None:
        return f"look at process {pid} on {host}: `busbw hang --host {host}` does so over SSH"
    if process.state in {"T", "t"}:
        return f"`kill -CONT {pid}` on {host} lets it go on; find out who stopped it"
    if process.state in {"", "Z", "X"}:
        return f"look why it ended: its log, and `dmesg` on {host} (out of memory, Xid)"
    if process.stack:
        return "that is where its program is: look why it does not come to the collective"
    return f"`py-spy dump --pid {pid}` (Python) or `gdb -p {pid}` on {host} shows where its program is"


def judge_process(pid: int, host: str, process: ProcessSeen, silent: str) -> HangAnswer:
    """What the kernel alone says of a process; ``silent``: who else was asked, and did not answer."""
    state = _STATES.get(process.state)
    does = f"{_ENDS[state]} {state}" if state else _BUSY.get(process.state, "sleeps")
    unknown = "" if state else "; which rank of its job is behind is not known"
    return HangAnswer(
        is_hung=True if state else None,
        answer=f"process {pid} on {host} {does}{unknown}",
        evidence=(silent, *process_words(f"process {pid}", process)),
        next=_next(pid, host, process),
    )


# ---- PyTorch's flight recorder -------------------------------------------------------------------------


def judge_records(groups: Sequence[Group]) -> HangAnswer:
    """What the dumps of a job's ranks say: of each group its first collective that is not over everywhere."""
    found = [answer for answer in (_judge_group(group) for group in groups) if answer is not None]
    named = [answer for answer in found if answer.is_hung]
    if found:
        return (named or found)[0]
    dumps = max((len(group.entries) for group in groups), default=0)
    return HangAnswer(
        is_hung=False,
        answer="no hang: every collective that was recorded is over on all ranks",
        evidence=(f"dumps of {counted(dumps, 'rank')}, {counted(len(groups), 'group')}",),
        unseen=_RECORDER_UNSEEN,
    )


def _judge_group(group: Group) -> HangAnswer | None:
    """None where all is over."""
    last = {rank: max(entries, default=0) for rank, entries in group.entries.items()}
    every = [(number, each) for entries in group.entries.values() for number, each in entries.items()]
    number = min((number for number, each in every if not each.is_over), default=None)
    if number is None:
        return None
    there = {rank: entries[number] for rank, entries in group.entries.items() if number in entries}
    absent = [rank for rank in group.entries if last[rank] < number]
    silent = [rank for rank in group.members if rank not in group.entries]
    odd = _different(there)
    usual = ((rank, each) for rank, each in there.items() if rank not in odd)
    rows = (
        *_states((rank, ("", "not entered", _last_of(group, rank))) for rank in absent),
        *_states((rank, ("", "no dump", "not reported")) for rank in silent),
        *(RankState((rank,), "", "different call", _call(there[rank])) for rank in odd),
        *_states((rank, ("", each.state, f"{each.operation} {each.number:,}")) for rank, each in usual),
    )
    evidence = [f"dumps of {len(group.entries)} of {counted(len(group.members), 'rank')}"]
    # Where the call was made, of one rank of each kind: the places outside PyTorch.
    called = (*odd[:1], *[rank for rank in there if rank not in odd][:1])
    places = {rank: [each for each in there[rank].frames if _PYTORCH not in each] for rank in called}
    evidence += [f"rank {rank} called it in {first_of(own, 3, ' < ')}" for rank, own in places.items() if own]
    answer, following = _words_of(group, there, absent, silent, odd)
    return HangAnswer(
        is_hung=True if absent or odd else None,
        answer=answer,
        states=rows,
        evidence=tuple(evidence),
        unseen=_RECORDER_UNSEEN,
        next=following,
    )


def _words_of(
    group: Group,
    there: Mapping[int, Recorded],
    absent: Sequence[int],
    silent: Sequence[int],
    odd: Sequence[int],
) -> tuple[str, str]:
    """The answer, and what to do next."""
    operation, number = Counter((each.operation, each.number) for each in there.values()).most_common(1)[0][0]
    call = f"{operation} {number:,} of group {group.name}"
    waits = len([rank for rank, each in there.items() if not each.is_over and rank not in odd])
    wait = f"{counted(waits, 'rank')} {'waits' if waits == 1 else 'wait'} in"
    if absent:
        has = "has" if len(absent) == 1 else "have"
        following = f"look what {_some(absent[:1])} did after {_last_of(group, absent[0])}"
        return f"{_some(absent)} {has} not entered {call}; {wait} it", following
    if odd:
        usual = _call(next(each for rank, each in there.items() if rank not in odd))
        following = "compare the two places in the program that the evidence names"
        return f"{_some(odd)} called {_call(there[odd[0]])} where others called {usual} ({call})", following
    if silent:
        following = f"look whether the process of {_some(silent[:1])} lives"
        return f"{_some(silent)} left no dump; {wait} {call}", following
    return f"all {len(there)} ranks were in {call}, and it did not end: a GPU or the network", _OF_GPU


def _different(there: Mapping[int, Recorded]) -> list[int]:
    """The ranks, fewer than the others, that called something else: another operation, or another size of one
    whose sizes are alike on all ranks.
    """
    kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for rank, each in there.items():
        is_even = each.operation in _EVEN
        kinds[each.operation, (each.sizes, each.types) if is_even else ()].append(rank)
    usual = max(kinds.values(), key=len)
    return sorted(rank for ranks in kinds.values() if ranks is not usual for rank in ranks)


def _call(each: Recorded) -> str:
    sizes = " ".join("x".join(map(str, size)) for size in each.sizes)
    return " ".join(word for word in (each.operation, sizes, *each.types[:1]) if word)


def _last_of(group: Group, rank: int) -> str:
    entries = group.entries[rank]
    return f"{entries[max(entries)].operation} {max(entries):,}" if entries else "nothing in this group"


def _some(ranks: Sequence[int]) -> str:
    words = "rank" if len(ranks) == 1 else "ranks"
    return f"{words} {first_of(map(str, ranks), _MOST_NAMED)}"
