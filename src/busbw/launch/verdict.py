"""How a launch ended, and which rank is to blame: decided here for every engine. Pure.

Whoever follows a launch gathers a ``Story``, and ``judge`` makes the ``Verdict`` of it. What launchers print
is read in ``launcher_words``, what ranks that stand still show in ``stall``.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from busbw.errors import BusbwError, ExitCode, RankFailed, SiteError
from busbw.launch.command import setup_failure
from busbw.launch.launcher_words import (
    Death,
    cut_a_message,
    describe,
    first_complaint,
    last_words,
    ranks_on,
    read_death,
    read_lost_peer,
    srun_deaths,
    survivors,
)
from busbw.launch.observed import Story
from busbw.launch.stall import differing_event, rank_numbers, stalled_event
from busbw.model.event import Event, error_event
from busbw.model.record import RunStatus

_LOOK: Final = "look at log/ in the run folder"
_KILLED: Final = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second as shells have it
_OTHER_PYTHON: Final = "give --python PATH of a Python that is there, or another --image"
# What a Python without busbw says, what shells and container runtimes say where there is no Python, and what
# MPI libraries are known to do while they start: a rank of Open MPI 5.0 that still waits in MPI_Init crashes
# where a message reaches it (https://github.com/open-mpi/ompi/issues/12495; one wait less, and it cannot).
_REMEDIES: Final = {
    ("No module named busbw",): "give --bring to copy busbw there, or --python PATH of a Python that has it",
    ('python3": executable file not found',): "give --python PATH of the image's Python, or another --image",
    ("python3: not found",): _OTHER_PYTHON,
    ("python3: command not found",): _OTHER_PYTHON,
    ("(mca_pml_ob1_recv_frag_callback_match+", "(ompi_mpi_init+"): (
        "Open MPI is known to crash so now and then while it starts; run it again, or give --env "
        "OMPI_MCA_pmix_base_async_modex=1 --env OMPI_MCA_pmix_base_collect_data=0"
    ),
}
# What shells end with where they cannot start a program.
_SHELL_HINTS: Final = {
    126: "name a program that the nodes may execute",
    127: "name a program that the nodes have, by its full path or with PATH in --env or --setup-script",
}


@dataclass(frozen=True)
class Verdict:
    """The exit code, and the one error to show."""

    code: ExitCode
    error: Event | None = None


# How a launch ended: an exit code without an error, an error of our own, or what a rank said.
_End = ExitCode | BusbwError | Event


def judge(story: Story) -> Verdict:
    """The verdict of the first rule that has one.

    What a rank says of itself counts more than what its engine knows, that more than how processes ended, and
    that more than what other ranks saw of it.
    """
    rules = (
        *(_well, _from_outside, _of_waiting, _in_own_words),
        *(_lost_connection, _of_command, _of_engine, _of_the_dead),
    )
    found = next((end for rule in rules if (end := rule(story)) is not None), None)
    if found is None:
        found = RankFailed("the ranks ended without a result", hint=_LOOK)
    if isinstance(found, ExitCode):
        return Verdict(found)
    error = error_event(found) if isinstance(found, BusbwError) else found
    shown = error if story.connected else _with_remedy(error, story.output)
    return Verdict(ExitCode(int(error["exit_code"])), shown)


def _with_remedy(error: Event, output: Sequence[str]) -> Event:
    """The error with what to try where a host lacks what starts the ranks."""
    text = "\n".join(output)
    hints = (hint for words, hint in _REMEDIES.items() if all(word in text for word in words))
    return {**error, "hint": next(hints, error.get("hint", ""))}


def _well(story: Story) -> _End | None:
    """Rank 0 came to its end, and nobody saw or heard anything else, as in most launches."""
    end, state = story.end, story.state
    if end is None or end["status"] != RunStatus.COMPLETE or story.is_command or state.cancelled:
        return None
    said = (story.errors, story.still, story.left, story.given_up, story.interrupted)
    seen = (story.someone_ended, story.lost_launcher, any(story.exits.values()), state.why)
    return None if any(said) or any(seen) else ExitCode(int(end["exit_code"]))


def _from_outside(story: Story) -> _End | None:
    """What ended or held up all ranks: whatever they said on their way out is of that."""
    end = story.end
    if story.given_up is not None and not story.connected:  # the engine cannot start it, or did not in time
        return story.given_up
    if story.interrupted:
        return ExitCode.INTERRUPTED
    if story.still:
        return stalled_event(story.still, story.hello)
    # What ranks were in when one ended decides; the one whose library found it may be a victim.
    if (event := differing_event(story.left, story.hello)) is not None:
        return event
    if cut_a_message([*story.output, *(str(error["message"]) for error in story.errors)]):
        return RankFailed(
            "the ranks did not make the same call: MPI received a longer message than one of them expected",
            hint=f"{_LOOK}: that rank's own words are there, and another one may be the cause",
        )
    failure = setup_failure(story.output)  # on a node, before any rank was there
    if failure and not story.connected and not story.state.cancelled:
        return SiteError(failure, hint="try it on that node; its own words are in log/ of the run folder")
    # Its ranks did not end in time, or only since they were told to.
    if story.out_of_time_s is not None and (end is None or int(end["exit_code"]) == ExitCode.INTERRUPTED):
        message = f"the launch had not ended after {story.out_of_time_s:g} s: {_progress(story)}"
        late = RankFailed(message, hint=f"{_LOOK}, or give it more time")
        return {**error_event(late), "last_words": list(story.last_words)}
    return None


def _progress(story: Story) -> str:
    """How far it was: what hangs while starting is looked for elsewhere than what hangs in an operation."""
    if story.finished:
        return f"{story.finished} cases had ended"
    if story.connected:
        return "its ranks were connected, and no case had ended"
    if story.hello:
        return f"{len(story.hello)} ranks had started, and were not ready to measure"
    return "no rank had said anything"


def _of_waiting(story: Story) -> _End | None:
    """In a round of a hunt, ranks that wait say so, and the one that hangs is the one that says nothing.
    Where all wait nobody is stopped, so there is nobody to name; where few do, nobody knows for whom.
    """
    waiting = story.waiting
    if not waiting:
        return None
    silent = {rank: host for rank, host in story.places.items() if rank not in waiting}
    first, said = next(iter(waiting.items()))
    if story.places and not silent:
        who = f"all {len(waiting)} ranks waited: " if len(waiting) > 1 else ""
        return {**said, "message": f"{who}{said['message']}", "rank": None, "host": "", "peer_lost": False}
    if story.lost_launcher or _own_error(story) is not None:
        return None
    if silent and len(silent) <= len(waiting):
        hosts = list(dict.fromkeys(silent.values()))
        is_one_host = len(hosts) == 1
        return RankFailed(
            f"{rank_numbers(sorted(silent))} on {', '.join(hosts)} said nothing"
            f" while {len(waiting)} others waited: rank {first} in {said['message']}",
            hint="look at that host: a stopped process, a hung driver or a cut network",
            rank=min(silent) if is_one_host else None,
            host=hosts[0] if is_one_host else "",
        )
    # The end of a rank that waited says nothing; that of another one is the cause.
    death = _find_death(story)
    if death is not None and death.rank not in waiting and death.code != ExitCode.RANK_FAILED:
        return _of_death(death, story)
    some = f"only {rank_numbers(sorted(waiting))} waited: {said['message']}"
    return RankFailed(some, hint=f"{_LOOK} for what ended the others")


def _own_error(story: Story) -> Event | None:
    """What a rank says of itself."""
    return next((error for error in story.errors if not error.get("peer_lost")), None)


def _in_own_words(story: Story) -> _End | None:
    """A rank failed, and said so; where a launcher ended before its ranks, that is the cause of it."""
    if not story.lost_launcher:
        return _own_error(story)
    code = next((code for code in story.exits.values() if code < 0), None)
    how = f"was {describe(code)}" if code is not None else "ended before them"
    message = f"{story.lost_launcher} on {story.host}, which starts the ranks, {how}"
    return RankFailed(message, hint=_where_to_look(code), host=story.host)


def _lost_connection(story: Story) -> _End | None:
    """A rank whose end the others felt, where nobody knows better: a launcher takes a survivor that aborts
    over it for the cause.
    """
    host = read_lost_peer(story.output)
    if host is None or story.state.knows_cause or story.first_dead is not None:
        return None
    deaths = (read_death(story.output), _find_death(story))
    if any(death is not None and death.rank is not None for death in deaths):
        return None
    ranks = ranks_on(host, story.hello)
    rank = ranks[0] if len(ranks) == 1 else None
    who = "a rank" if rank is None else f"rank {rank}"
    message = f"{who} on {host} ended: the other ranks lost their connection to it"
    return RankFailed(message, hint=_LOOK, rank=rank, host=host)


def _of_command(story: Story) -> _End | None:
    """The end of a user's command: busbw has no opinion of it but whether it ended well."""
    state = story.state
    if not story.is_command:
        return None
    if state.code == 0:
        return ExitCode.OK
    if state.cancelled:  # elsewhere: what the command ended with is of that
        return ExitCode.INTERRUPTED
    is_known = state.code is not None
    end = "the command failed" if is_known else "the command's exit code is not known"
    how = state.why or (f"exit code {state.code}" if is_known else "its engine does not report it")
    hint = state.hint or _SHELL_HINTS.get(state.code or 0, "")
    return RankFailed(f"{end}: {how}", hint=hint, rank=state.rank, host=state.host)


def _of_engine(story: Story) -> _End | None:
    """What ended the job in the engine's words. Ranks that reached an end know better, but for what they do
    not see: that the engine reported them to end, and why; which rank it was that the others lost.
    """
    state, end = story.state, story.end
    knows_place = state.knows_cause or bool(state.host)
    if end is None and state.cancelled and not knows_place:  # elsewhere: ranks died of that
        return ExitCode.INTERRUPTED
    if end is None:
        speaks = knows_place or not story.output
    else:
        is_told = int(end["exit_code"]) == ExitCode.INTERRUPTED
        speaks = _is_for_another(end) and (knows_place if is_told else state.knows_cause)
    death = _find_death(story)
    is_launchers = state.code is not None and state.rank is None  # its own end says less than its words
    if not speaks or not state.why or (is_launchers and death is not None and death.rank is not None):
        return None
    others = next((error["hint"] for error in story.errors), _LOOK)
    hint = others if death is None else _of_death(death, story).hint
    is_sentence = state.rank is not None and state.why.startswith(f"rank {state.rank} on {state.host} ")
    message = state.why if is_sentence else f"job {story.job} ended: {state.why}"
    return RankFailed(message, hint=state.hint or hint, rank=state.rank, host=state.host)


def _is_for_another(end: Event) -> bool:
    """Whether rank 0 ended as it does where another one was lost: by itself, or told to."""
    return int(end["exit_code"]) in (ExitCode.INTERRUPTED, ExitCode.RANK_FAILED)


# ---- how processes ended -------------------------------------------------------------------------------


def _of_the_dead(story: Story) -> _End | None:
    """A rank that died, else what others saw who lost one, else how rank 0 ended."""
    if (death := _find_death(story)) is not None:
        return _of_death(death, story)
    if story.errors:
        return story.errors[0]
    return ExitCode(int(story.end["exit_code"])) if story.end is not None else None


def _find_death(story: Story) -> Death | None:
    """The rank that died: which one is known from its connection, how it ended from its launcher or its own
    exit.
    """
    if story.all_left and story.end is not None and story.end["status"] == RunStatus.COMPLETE:
        return None  # nothing was missing by then
    places = story.places or dict(enumerate(story.state.seen.hosts))
    reported = read_death(story.output)
    # Hydra has hosts as they were given to it, which need not be what their ranks call them.
    given = dict(enumerate(story.state.seen.hosts)) or places
    near = ranks_on(reported.host, given) if reported is not None else []
    first = story.first_dead
    if first is None and (reported is None or reported.rank is None):  # mpirun knows the signal, too
        first = _first_on_hosts(near, story)
    if reported is not None and (first is None or len(near) == 1):
        # Hydra's process may be one that it killed itself, on the host of the dead. Where all that were seen
        # live on, it is the one that was not.
        unseen = story.missing if reported.pid not in story.pids else ()
        rank = near[0] if len(near) == 1 else unseen[0] if len(unseen) == 1 else reported.rank
        host = places.get(near[0], reported.host) if near else reported.host
        return replace(reported, rank=rank, host=host)
    if first is not None and reported is not None:
        named = story.pids.get(reported.pid or 0)
        is_it = not story.missing and first in (named, reported.rank)
        place = places.get(first, story.hello.get(first, reported.host))
        return Death(place, reported.pid, first, reported.code if is_it else None)
    # Rank 0 may have been ended for it, by a launcher on hosts, or have lost it.
    is_for_it = bool(story.state.seen.hosts) and story.end is not None and _is_for_another(story.end)
    if first is not None and (story.end is None or is_for_it):
        code = story.exits.get(first) if story.process_is_rank else None
        if not _left_for_another(code, story):
            return Death(places.get(first, story.host), rank=first, code=code)
    # A signal is the cause; a rank that left with a code may have left because another died.
    for process, code in sorted(story.exits.items(), key=lambda item: item[1]):
        if code < 0 or (code != 0 and story.end is None and not _left_for_another(code, story)):
            return Death(story.host, rank=process if story.process_is_rank else None, code=code)
    return None


def _first_on_hosts(near: Sequence[int], story: Story) -> int | None:
    """The first of the ranks of a host (else of all) that its agent saw end without a goodbye, and that did
    not leave because it had lost another: a survivor of Open MPI whose connection closes may abort before
    mpirun knows of the death that closed it.

    None where the end of a rank was not seen, which may be the cause; or where nobody died.
    """
    seen = story.state.seen
    ranks = near or range(len(seen.hosts))
    if not set(ranks) <= set(seen.ended):
        return None
    left = survivors(seen.words, story.output)
    return next((rank for rank in seen.died if rank in ranks and rank not in left), None)


def _left_for_another(code: int | None, story: Story) -> bool:
    """A rank that lost another one says so, or leaves that to rank 0, and leaves with this code."""
    return code == ExitCode.RANK_FAILED and bool(story.errors)


def _of_death(death: Death, story: Story) -> BusbwError:
    rank, where = death.rank, f" on {death.host}" if death.host else ""
    # It gave up before any rank was heard: its place is to blame then, in its own words. Not where a process
    # was killed: shells and srun report that by 128 and the signal's number.
    is_heard = story.connected or story.hello or story.someone_ended or rank is not None
    code = death.code or 0
    if not is_heard and death.pid is None and code > 0 and not 128 < code <= 128 + signal.NSIG:
        words = last_words(story.output) or first_complaint(story.output)
        hint = f"its last words: {words}" if words else _LOOK
        message = f"the launch{where} {death.how} before any rank reported"
        return SiteError(message, hint=hint, host=death.host)
    who = f"rank {rank}" if rank is not None else "a rank" if where else "the launch"  # its end says no more
    if rank is not None and story.missing not in ((), (rank,)):
        where += f", or one that had not started yet ({', '.join(map(str, story.missing))}),"
        rank = None
    words = _last_words(death.rank, story)
    hint = f"its last words: {words}" if words else _where_to_look(death.code)
    return RankFailed(f"{who}{where} {death.how}", hint=hint, rank=rank, host=death.host)


def _last_words(rank: int | None, story: Story) -> str:
    """A rank's own, where they are known apart; else those of any."""
    seen = story.state.seen
    if rank is None or not seen.hosts:
        return last_words(story.output)
    return next((line.strip() for line in reversed(seen.words.get(rank, ())) if line.strip()), "")


def _where_to_look(code: int | None) -> str:
    """For what ended a process with ``code``: the OOM killer sends SIGKILL, and nothing else."""
    return f"{_LOOK}, and for that host's OOM killer" if code in _KILLED else _LOOK


# ---- Slurm: what srun prints of its tasks --------------------------------------------------------------

# SIGTERM: itself, as a shell reports it, and busbw's own exit code for it.
_TOLD_TO_END: Final = (-15, 143, 130)
# What a rank of Open MPI (5.0, which srun starts over PMIx) leaves with that lost another one.
_LOST_ANOTHER: Final = 14
# Signals that a rank meets by its own fault: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS.
_FAULTS: Final = (-11, -7, -4, -8, -6, -5, -31)


def first_of_srun(lines: Sequence[str], *, is_busbw: bool = True) -> Death | None:
    """The rank that died first, by what srun printed; None where none died, or nobody can tell which.

    Before srun or Slurm begins to end the step, a task that is reported died by itself. Of busbw's own, a
    signal says more than a code: ranks leave with one when they lose another. From then on ranks are told to
    end, and those that do not are killed; some crash over it (MPICH 5.0). But a PMIx server that felt a
    rank's end has srun end the step before srun has heard of that rank: there the one that met a fault is it,
    or the one that left with a code (a user's command alone), or the one that was killed.
    """
    before, later = srun_deaths(lines)
    of_others = _TOLD_TO_END if later is None else (*_TOLD_TO_END, _LOST_ANOTHER)
    dead = [(death, death.code or 0) for death in before if death.code not in of_others]
    ended = [(death, death.code or 0) for death in later or () if death.code not in of_others]
    faults = [death for death, code in ended if code in _FAULTS]
    if dead and not (is_busbw and len(faults) == 1 and all(code > 0 for _, code in dead)):
        return min(dead, key=lambda found: is_busbw and found[1] > 0)[0]
    codes = [death for death, code in ended if code > 0 and not is_busbw]
    killed = [death for death, code in ended if code == -signal.SIGKILL]
    likely = faults or codes or killed
    return likely[0] if len(likely) == 1 else None
