"""Why a launch stands still: which ranks the others wait for, from the pages that all ranks publish and from
what the kernel shows of their processes. Pure.

A rank is named for what is seen of itself: it is gone, or stopped, or it waits for nobody while the others
wait. Where all wait, nobody is named.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Final

from busbw.errors import RankFailed, UndecidedError
from busbw.machine.nccl_ras import read_answer
from busbw.machine.seen import host_words, process_words
from busbw.model.event import Event, error_event
from busbw.model.hang import HangAnswer, HostSeen, RankState
from busbw.model.progress import PHASE_WORDS, CallMode, HostStill, Page, Phase, RankHere
from busbw.units import counted, first_of

_MOST_NAMED: Final = 4
_STOPPED: Final = frozenset("Tt")
# Of the time in which nothing moved. A rank that looks for its messages uses more, asleep or not.
_ASLEEP_SHARE: Final = 0.005
_TIMER: Final = "nanosleep"
_FABRIC: Final = (
    "look at the links and GPUs (`busbw preflight`, `nvidia-smi`: Xid errors); NCCL_DEBUG=INFO names the"
    " transport"
)
_UNLIKE: Final = (
    "all ranks have one plan: compare the versions of busbw and of the library on these hosts, and look at"
    " log/ in the run folder"
)


class State(StrEnum):
    """What a rank was seen in; the worst first."""

    GONE = "gone"
    STOPPED = "stopped"
    NOT_STARTED = "never started"
    DIFFERENT = "different call"
    NOT_JOINED = "not joined"
    ASLEEP = "entered, asleep"
    NOT_ENTERED = "not entered"
    NOT_ENQUEUED = "entered, not enqueued"
    UNSEEN = "not seen"
    NOT_RETURNED = "entered, not returned"
    NOT_COMPLETED = "enqueued, not completed"
    WAITS = "waits"


# Ranks in these are the cause of what the others are in.
_CAUSES: Final = tuple(State)[: tuple(State).index(State.UNSEEN)]


@dataclass(frozen=True)
class _Rank:
    host: str
    quiet_s: float
    seen: RankHere

    @property
    def page(self) -> Page:
        return self.seen.page


def _ranks_of(hosts: Sequence[HostStill]) -> list[_Rank]:
    return [_Rank(host.host, host.quiet_s, each) for host in hosts for each in host.ranks]


def differing_event(left: Sequence[HostStill], started: Mapping[int, str]) -> Event | None:
    """The error of ranks that waited in different calls when one ended; None where they waited in the same,
    or nobody saw them. What ranks publish between calls may be half written, so those do not count.
    ``started``: see ``explain``.
    """
    waiting = [
        replace(host, ranks=found)
        for host in left
        if (found := tuple(each for each in host.ranks if each.page.waits))
    ]
    ranks = _ranks_of(waiting)
    return stalled_event(waiting, started) if ranks and _mixed(_calls(ranks)) else None


def stalled_event(still: Sequence[HostStill], started: Mapping[int, str] | None = None) -> Event:
    """The error of a launch that stands still, with its ``hang`` beside. ``started``: see ``explain``."""
    answer = explain(still, started)
    worst = answer.states[0]
    is_named = worst.state in _CAUSES
    hosts = [(host.host, each.page.rank) for host in still for each in host.ranks]
    error = RankFailed(
        answer.answer,
        hint=answer.next,
        rank=worst.ranks[0] if is_named and len(worst.ranks) == 1 else None,
        host=next((host for host, rank in hosts if is_named and rank in worst.ranks), ""),
    )
    return {**error_event(error), "hang": asdict(answer)}


def explain(still: Sequence[HostStill], started: Mapping[int, str] | None) -> HangAnswer:
    """What the ranks of hosts that stand still come to; ``started`` has the hosts of those that said so, by
    rank, None where nobody heard them.
    """
    ranks = sorted(_ranks_of(still), key=lambda each: each.page.rank)
    missing = set(range(max(each.page.ranks for each in ranks))) - {each.page.rank for each in ranks}
    mixed = _mixed(_calls(ranks))
    states = _states(ranks, is_mixed=bool(mixed))
    causes = {each.page.rank for each in ranks if states[each.page.rank] in _CAUSES}
    latest = max(each.page.phase for each in ranks)
    is_start = started is not None and latest <= Phase.JOINING
    absent = {rank: State.NOT_STARTED for rank in missing if is_start and rank not in (started or ())}
    absent |= {rank: State.UNSEEN for rank in missing if rank not in absent}
    worst = min({*states.values(), *absent.values()}, key=tuple(State).index)
    named = [each for each in ranks if states[each.page.rank] is worst]
    waiting = [each for each in ranks if each.page.rank not in causes and each.page.waits]
    awaited = _awaited(waiting or ranks)
    is_open = bool(mixed) and worst not in _CAUSES
    unseen = _absent(absent, started or {})
    answer = mixed if is_open else _answer(worst, named, unseen, waiting, awaited, len(ranks))
    if worst not in _CAUSES and not mixed and (cut := _cut(ranks)):
        heard = f"; nothing is heard of {unseen}" if unseen else ""
        wait = f"{counted(len(waiting), 'rank')} {'waits' if len(waiting) == 1 else 'wait'}"
        answer = f"the network: {cut}{heard}; {wait} in {awaited}"
    return HangAnswer(
        is_hung=True,
        answer=answer,
        states=_rows(ranks, states, absent),
        evidence=tuple(_evidence(still, worst, named, absent, started)),
        next=_UNLIKE if mixed else _next(worst, named),
    )


# ---- the state of each rank ----------------------------------------------------------------------------


def _states(ranks: Sequence[_Rank], *, is_mixed: bool) -> dict[int, State]:
    """By rank. Where they do not measure the same, what follows is of that. Else what is certain of a process
    comes first; then who waits for nobody while others wait; then who is behind where all wait.
    """
    rules = (_different,) if is_mixed else (_ended, _busy, _short, _asleep, _in_library)
    causes = next((found for rule in rules if (found := rule(ranks))), {})
    return {each.page.rank: causes.get(each.page.rank) or _waiting(each.page) for each in ranks}


def _ended(ranks: Sequence[_Rank]) -> dict[int, State]:
    """Beside a stopped rank, those that are gone have left because it did not answer."""
    stopped = {each.page.rank: State.STOPPED for each in ranks if each.seen.process.state in _STOPPED}
    return stopped or {each.page.rank: State.GONE for each in ranks if each.seen.is_gone}


def _calls(ranks: Sequence[_Rank]) -> dict[int, str]:
    """What the ranks measure that have come to the last case."""
    last = max(each.page.visit for each in ranks)
    return {each.page.rank: each.page.what for each in ranks if each.page.visit == last}


def _different(ranks: Sequence[_Rank]) -> dict[int, State]:
    """Of these, those that measure something else than most."""
    calls = _calls(ranks)
    usual, number = Counter(calls.values()).most_common(1)[0]
    if 2 * number <= len(calls):
        return {}  # nobody knows which call is right
    return {rank: State.DIFFERENT for rank, what in calls.items() if what != usual}


def _busy(ranks: Sequence[_Rank]) -> dict[int, State]:
    """Who waits for nobody, where others wait."""
    busy = [each.page for each in ranks if not each.page.waits and each.page.phase is not Phase.END]
    if len(busy) == len(ranks):
        return {}
    return {
        page.rank: State.NOT_JOINED if page.phase is Phase.STARTING else State.NOT_ENTERED for page in busy
    }


def _short(ranks: Sequence[_Rank]) -> dict[int, State]:
    """Who waits in a later control message than others have come to, with fewer calls of the same case."""
    last = max(each.page.visit for each in ranks)
    pages = [each.page for each in ranks if each.page.visit == last]
    in_call = [(page.entered, page.asked) for page in pages if page.in_call]
    return {
        page.rank: State.NOT_ENTERED
        for page in pages
        if not page.in_call
        and any(page.entered < entered and page.asked > asked for entered, asked in in_call)
    }


def _asleep(ranks: Sequence[_Rank]) -> dict[int, State]:
    """Who sleeps for a time of its own choice: who waits for others wakes up now and then. Where most do,
    that is how the library waits.
    """
    found = {
        each.page.rank: State.ASLEEP
        for each in ranks
        if each.seen.process.state == "S"
        and each.seen.cpu_s <= _ASLEEP_SHARE * each.quiet_s
        and _TIMER in each.seen.process.waits_in
    }
    return found if 2 * len(found) <= len(ranks) else {}


def _in_library(ranks: Sequence[_Rank]) -> dict[int, State]:
    """Whose call has not returned to enqueue what others have enqueued."""
    pages = [each.page for each in ranks]
    if any(page.mode is CallMode.BLOCKS for page in pages):
        return {}
    first = min(page.enqueued for page in pages)
    late = [page for page in pages if page.enqueued == first and page.entered > first]
    is_ahead = any(page.enqueued > first for page in pages)
    return {page.rank: State.NOT_ENQUEUED for page in late} if is_ahead else {}


def _waiting(page: Page) -> State:
    if page.in_call:
        return State.NOT_RETURNED if page.entered > page.enqueued else State.NOT_COMPLETED
    return State.WAITS


# ---- words ---------------------------------------------------------------------------------------------


def _call(page: Page) -> str:
    """The call that it waits in, or comes to next; all that it waits for, of a stream's."""
    if page.in_call and page.enqueued > page.done + 1:
        return f"{page.what}, calls {page.done + 1:,} to {page.enqueued:,}"
    return f"{page.what}, call {page.done + 1:,}"


def _place(page: Page) -> str:
    """Where a rank is."""
    if page.in_call:
        return _call(page)
    if not page.what:
        return PHASE_WORDS[page.phase]
    if page.in_control:
        return f"the next barrier ({PHASE_WORDS[page.phase]} of {page.what})"
    return f"{page.what}, after call {page.done:,}"


def _awaited(waiting: Sequence[_Rank]) -> str:
    """What most of those wait in that wait."""
    in_call = [each.page for each in waiting if each.page.in_call]
    pages = in_call or [each.page for each in waiting]
    return Counter(map(_place, pages)).most_common(1)[0][0]


def _answer(
    worst: State, named: Sequence[_Rank], absent: str, waiting: Sequence[_Rank], awaited: str, ranks: int
) -> str:
    wait = "waits" if len(waiting) == 1 else "wait"
    others = f"{counted(len(waiting), 'other')} {wait} in"
    if worst is State.NOT_STARTED:
        return f"{absent} never started; {others} {awaited}"
    if worst is State.UNSEEN:
        return f"nothing is heard of {absent}; {others} {awaited}"
    if worst not in _CAUSES:
        who = f"all {ranks} ranks" if len(named) == ranks else f"{len(named)} of {ranks} ranks"
        if worst is State.NOT_RETURNED:
            return f"{who} entered {awaited}, and it does not return: the network, or the library"
        if worst is State.NOT_COMPLETED:
            return f"{who} enqueued {awaited}, and it does not complete: a GPU, or the network"
        return f"{who} wait in {awaited}, and no rank is behind: the network between them, or the launcher"
    first = named[0].page
    who = f"rank {first.rank} on {named[0].host} (pid {first.pid})"
    be, has, its = "is", "has", "its process is"
    if len(named) > 1:
        hosts = first_of(dict.fromkeys(each.host for each in named), _MOST_NAMED)
        who = f"{rank_numbers([each.page.rank for each in named])} on {hosts}"
        be, has, its = "are", "have", "their processes are"
    if worst is State.DIFFERENT:
        does = f"{be} in {_place(first)}"
    elif first.in_call:
        does = f"{be} in {_call(first)}"
    elif first.phase <= Phase.JOINING:
        does = f"{has} not joined the others"
    else:
        is_in_same = bool(first.what) and awaited.startswith(f"{first.what}, call")
        does = f"{has} not entered {_call(first) if is_in_same else awaited}"
    cause = {
        State.GONE: f"; {its} gone",
        State.STOPPED: f"; {its} stopped",
        State.ASLEEP: f"; {its} asleep, and does not look for messages",
        State.NOT_ENQUEUED: ", and the library has not enqueued it",
    }.get(worst, "")
    beside = f"; {others} {'it' if awaited in does else awaited}" if waiting else ""
    return f"{who} {does}{beside}{cause}"


def _absent(ranks: Collection[int], hosts: Mapping[int, str]) -> str:
    """Ranks of which nobody sees anything, and the hosts from which they were heard; empty for none."""
    if not ranks:
        return ""
    places = first_of(dict.fromkeys(hosts[rank] for rank in sorted(ranks) if rank in hosts), _MOST_NAMED)
    return rank_numbers(sorted(ranks)) + (f" on {places}" if places else "")


def _cut(ranks: Sequence[_Rank]) -> str:
    """The connections on which nothing is acknowledged; empty where there are none."""
    found = ((each.host, to) for each in ranks for to in each.seen.process.unanswered)
    pairs = dict.fromkeys(f"{host} sends to {to} and gets no answer" for host, to in found)
    return first_of(pairs, _MOST_NAMED)


def _mixed(calls: Mapping[int, str]) -> str:
    """That ranks measure different things, and nobody knows which is right; empty where all are alike."""
    found = dict.fromkeys(calls.values())
    if len(found) < 2:
        return ""
    places = (f"{what} on {rank_numbers([rank for rank in calls if calls[rank] == what])}" for what in found)
    return f"the ranks are in different calls: {first_of(places, _MOST_NAMED)}"


def rank_numbers(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 1, 2``."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {first_of(map(str, ranks), _MOST_NAMED)}"


def _rows(
    ranks: Sequence[_Rank], states: Mapping[int, State], absent: Mapping[int, State]
) -> tuple[RankState, ...]:
    """The like folded, the worst first."""
    alike: dict[tuple[State, str, str], list[int]] = defaultdict(list)
    for each in ranks:
        state = states[each.page.rank]
        where = f"pid {each.page.pid} on {each.host}" if state in _CAUSES else ""
        alike[state, where, _place(each.page)].append(each.page.rank)
    for rank, state in absent.items():
        alike[state, "", ""].append(rank)
    order = sorted(alike, key=lambda key: (tuple(State).index(key[0]), alike[key]))
    return tuple(RankState(tuple(alike[key]), key[1], key[0].value, key[2]) for key in order)


def _evidence(
    still: Sequence[HostStill],
    worst: State,
    named: Sequence[_Rank],
    absent: Mapping[int, State],
    started: Mapping[int, str] | None,
) -> Iterator[str]:
    hosts = first_of((host.host for host in still), _MOST_NAMED)
    quiet = sorted(host.quiet_s for host in still)  # what ranks are at decides how long each host waits
    longer = f" to {quiet[-1]:g}" if quiet[-1] >= quiet[0] + 1 else ""
    yield (
        f"no rank on {hosts} moved for {quiet[0]:g}{longer} s"
        if quiet[-1]
        else f"seen on {hosts} when a rank ended"
    )
    for each in named[: _MOST_NAMED if worst in _CAUSES else 1]:
        process = each.seen.process
        if process.state and not each.seen.is_gone:
            is_known = bool(process.kernel) and not process.stack  # the whole stack follows
            where = f" in the kernel's {process.waits_in}" if process.waits_in and not is_known else ""
            used = f"{each.seen.cpu_s:g} s of CPU time in the {each.quiet_s:g} s"
            yield f"rank {each.page.rank}: process state {process.state}{where}, {used}"
            yield from process_words(f"rank {each.page.rank}", process)
    yield from _of_ras(still)
    for host in still[:_MOST_NAMED]:
        links = () if worst in _CAUSES else host.links  # they stand still because a rank does
        yield from host_words(host.host, HostSeen(links=links, log=host.log))
    if absent and started is None:
        yield "this host sees its own ranks only: the others' watchers report on their own"


def _of_ras(still: Sequence[HostStill]) -> Iterator[str]:
    """What NCCL says itself, of the first host where it did."""
    from busbw.judge.hang import judge_counts  # ranks and pods get by without

    for text in (text for host in still for text in host.ras):
        with contextlib.suppress(UndecidedError):
            job = read_answer(text)
            yield f"NCCL {job.nccl}'s RAS: {judge_counts(job, job, {}, 0).answer}"
            return


def _next(worst: State, named: Sequence[_Rank]) -> str:
    if worst in (State.NOT_STARTED, State.UNSEEN):
        return "look at its host: whether it is up, and what log/ in the run folder has of it"
    if worst not in _CAUSES:
        return _FABRIC
    first = named[0]
    pid, host = first.page.pid, first.host
    if worst is State.STOPPED:
        return f"find out who stopped it; with --stall off, `kill -CONT {pid}` on {host} lets it go on"
    if worst is State.GONE:
        return f"look why it ended: log/ in the run folder, and `dmesg` on {host} (out of memory, Xid)"
    return f"run it with --stall off: then `py-spy dump --native --pid PID` on {host} shows where it is"
