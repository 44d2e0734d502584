"""How a launch ended, and which rank is to blame: decided here for every engine. Pure.

Whoever follows a launch gathers a ``Story``, and ``judge`` makes the ``Verdict`` of it. What launchers print
is read in ``launcher_words``, what ranks that stand still show in ``stall``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
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
    srun_aborted,
    srun_deaths,
    srun_end,
    survivors,
)
from busbw.launch.stall import differing_event, rank_numbers, stalled_event
from busbw.launch.story import Story
from busbw.model.event import Event, error_event
from busbw.model.record import RunStatus

_LOOK: Final = "look at log/ in the run folder"
_KILLED: Final = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second as shells have it


def _where_to_look(code: int | None) -> str:
    """For what ended a process with ``code``: the OOM killer sends SIGKILL, and nothing else."""
    return f"{_LOOK}, and for that host's OOM killer" if code in _KILLED else _LOOK


@dataclass(frozen=True)
class Verdict:
    """The exit code, and the one error to show."""

    code: ExitCode
    error: Event | None = None


def judge(story: Story) -> Verdict:
    """The verdict of the first rule that has one.

    What a rank says of itself counts more than what its engine knows, that more than how processes ended, and
    that more than what other ranks saw of it.
    """
    rules: tuple[Callable[[Story], Verdict | None], ...] = (
        _went_well,  # most launches: there is nothing to look into
        _not_started,  # the engine cannot start it, or did not in time
        _interrupted,  # somebody wanted its end: whatever ranks said on their way out
        _stalled,  # nothing moved; what ranks did then is of that
        _unequal,  # ranks did not make the same call: the library may abort any of them
        _setup_script,  # failed on a node before any rank was there
        _out_of_time,  # busbw ended it after its own limit
        _all_wait,  # in a round of a hunt: nobody is stopped, so there is nobody to name
        _lost_launcher,  # what its ranks did then is of that
        _own_words,  # a rank failed, and said so
        _silent_rank,  # the others wait for it
        _some_wait,  # too few to say for whom
        _lost_connection,  # a survivor felt a rank go, and nobody knows better
        _command,  # of the user's: as it ended
        _cancelled_elsewhere,  # ranks died of that
        _engine_knows,  # who failed, or that time ran out
        _dead_rank,  # by its connection, its launcher's words, or its exit code
        _words_of_others,  # they lost a rank
        _own_end,  # rank 0 said how it ended
    )
    lost = RankFailed("the ranks ended without a result", hint=_LOOK)
    verdict = next((found for rule in rules if (found := rule(story)) is not None), _failed(lost))
    if verdict.error is None or story.connected:
        return verdict
    return replace(verdict, error=with_remedy(verdict.error, story.output))


def _failed(error: BusbwError) -> Verdict:
    return Verdict(error.exit_code, error_event(error))


# ---- before any rank worked ----------------------------------------------------------------------------

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


def with_remedy(error: Event, output: Sequence[str]) -> Event:
    """The error with what to try where a host lacks what starts the ranks."""
    text = "\n".join(output)
    hints = (hint for words, hint in _REMEDIES.items() if all(word in text for word in words))
    return {**error, "hint": next(hints, error.get("hint", ""))}


def _went_well(story: Story) -> Verdict | None:
    """Rank 0 came to its end, and nobody saw or heard anything else."""
    end = story.end
    is_whole = end is not None and end["status"] == RunStatus.COMPLETE and not story.is_command
    said = (story.errors, story.still, story.left, story.given_up, story.interrupted)
    seen = (story.someone_ended, story.lost_launcher, any(story.exits.values()), story.state.why)
    if end is None or not is_whole or any(said) or any(seen) or story.state.cancelled:
        return None
    return _own_end(story)


def _not_started(story: Story) -> Verdict | None:
    return _failed(story.given_up) if story.given_up is not None and not story.connected else None


def _interrupted(story: Story) -> Verdict | None:
    return Verdict(ExitCode.INTERRUPTED) if story.interrupted else None


def _stalled(story: Story) -> Verdict | None:
    return Verdict(ExitCode.RANK_FAILED, stalled_event(story.still, story.hello)) if story.still else None


def _unequal(story: Story) -> Verdict | None:
    """What ranks were in when one ended decides; the one whose library found it may be a victim."""
    if (event := differing_event(story.left, story.hello)) is not None:
        return Verdict(ExitCode.RANK_FAILED, event)
    words = [*story.output, *(str(error["message"]) for error in story.errors)]
    if not cut_a_message(words):
        return None
    unequal = RankFailed(
        "the ranks did not make the same call: MPI received a longer message than one of them expected",
        hint=f"{_LOOK}: that rank's own words are there, and another one may be the cause",
    )
    return _failed(unequal)


def _setup_script(story: Story) -> Verdict | None:
    failure = setup_failure(story.output)
    if story.connected or story.state.cancelled or not failure:
        return None
    return _failed(
        SiteError(failure, hint="try it on that node; its own words are in log/ of the run folder")
    )


def _out_of_time(story: Story) -> Verdict | None:
    """Its ranks did not end in time, or only since they were told to."""
    was_through = story.end is not None and int(story.end["exit_code"]) != ExitCode.INTERRUPTED
    if story.out_of_time_s is None or was_through:
        return None
    late = RankFailed(
        f"the launch had not ended after {story.out_of_time_s:g} s: {_progress(story)}",
        hint=f"{_LOOK}, or give it more time",
    )
    return Verdict(late.exit_code, {**error_event(late), "last_words": list(story.last_words)})


def _progress(story: Story) -> str:
    """How far it was: what hangs while starting is looked for elsewhere than what hangs in an operation."""
    if story.finished:
        return f"{story.finished} cases had ended"
    if story.connected:
        return "its ranks were connected, and no case had ended"
    if story.hello:
        return f"{len(story.hello)} ranks had started, and were not ready to measure"
    return "no rank had said anything"


# ---- what this host's kernel shows ---------------------------------------------------------------------


def _lost_launcher(story: Story) -> Verdict | None:
    if not story.lost_launcher:
        return None
    code = next((code for code in story.exits.values() if code < 0), None)
    how = f"was {describe(code)}" if code is not None else "ended before them"
    lost = RankFailed(
        f"{story.lost_launcher} on {story.host}, which starts the ranks, {how}",
        hint=_where_to_look(code),
        host=story.host,
    )
    return _failed(lost)


# ---- what ranks say ------------------------------------------------------------------------------------


def _all_wait(story: Story) -> Verdict | None:
    waiting = story.waiting
    if not waiting or not story.places or story.places.keys() - waiting.keys():
        return None
    first = next(iter(waiting.values()))
    who = f"all {len(waiting)} ranks waited: " if len(waiting) > 1 else ""
    error = {**first, "message": f"{who}{first['message']}", "rank": None, "host": "", "peer_lost": False}
    return Verdict(ExitCode(int(first["exit_code"])), error)


def _own_words(story: Story) -> Verdict | None:
    """What a rank says of itself."""
    own = (error for error in story.errors if not error.get("peer_lost"))
    return next((Verdict(ExitCode(int(error["exit_code"])), error) for error in own), None)


def _silent_rank(story: Story) -> Verdict | None:
    """Where ranks say that they wait, the one that hangs is the one that says nothing."""
    waiting = story.waiting
    silent = {rank: host for rank, host in story.places.items() if rank not in waiting}
    if not waiting or not silent or len(silent) > len(waiting):
        return None
    hosts = list(dict.fromkeys(silent.values()))
    first = next(iter(waiting))
    is_one_host = len(hosts) == 1
    hangs = RankFailed(
        f"{rank_numbers(sorted(silent))} on {', '.join(hosts)} said nothing"
        f" while {len(waiting)} others waited: rank {first} in {waiting[first]['message']}",
        hint="look at that host: a stopped process, a hung driver or a cut network",
        rank=min(silent) if is_one_host else None,
        host=hosts[0] if is_one_host else "",
    )
    return _failed(hangs)


def _some_wait(story: Story) -> Verdict | None:
    """The end of a rank that waited says nothing; that of another one is the cause."""
    waiting = story.waiting
    if not waiting:
        return None
    death = _find_death(story)
    if death is not None and death.rank not in waiting and death.code != ExitCode.RANK_FAILED:
        return _of_death(death, story)
    some = RankFailed(
        f"only {rank_numbers(sorted(waiting))} waited: {next(iter(waiting.values()))['message']}",
        hint=f"{_LOOK} for what ended the others",
    )
    return _failed(some)


def _words_of_others(story: Story) -> Verdict | None:
    return next((Verdict(ExitCode(int(error["exit_code"])), error) for error in story.errors), None)


def _own_end(story: Story) -> Verdict | None:
    return Verdict(ExitCode(int(story.end["exit_code"]))) if story.end is not None else None


# ---- what the engine knows -----------------------------------------------------------------------------

# What shells end with where they cannot start a program.
_SHELL_HINTS: Final = {
    126: "name a program that the nodes may execute",
    127: "name a program that the nodes have, by its full path or with PATH in --env or --setup-script",
}


def _lost_connection(story: Story) -> Verdict | None:
    """The rank whose end the others felt first: a launcher takes a survivor that aborts over it for the
    cause.
    """
    host, death = read_lost_peer(story.output), _find_death(story)
    if host is None or story.state.knows_cause or (death is not None and death.rank is not None):
        return None
    ranks = ranks_on(host, story.hello)
    who = f"rank {ranks[0]}" if len(ranks) == 1 else "a rank"
    ended = RankFailed(
        f"{who} on {host} ended: the other ranks lost their connection to it",
        hint=_LOOK,
        rank=ranks[0] if len(ranks) == 1 else None,
        host=host,
    )
    return _failed(ended)


def _command(story: Story) -> Verdict | None:
    """The end of a user's command: busbw has no opinion of it but whether it ended well."""
    state = story.state
    if not story.is_command:
        return None
    if state.code == 0:
        return Verdict(ExitCode.OK)
    if state.cancelled:  # elsewhere: what the command ended with is of that
        return Verdict(ExitCode.INTERRUPTED)
    how = state.why or (
        f"exit code {state.code}" if state.code is not None else "its engine does not report it"
    )
    end = "the command failed" if state.code is not None else "the command's exit code is not known"
    hint = state.hint or _SHELL_HINTS.get(state.code or 0, "")
    return _failed(RankFailed(f"{end}: {how}", hint=hint, rank=state.rank, host=state.host))


def _cancelled_elsewhere(story: Story) -> Verdict | None:
    state = story.state
    is_all = state.cancelled and not state.knows_cause and not state.host and story.end is None
    return Verdict(ExitCode.INTERRUPTED) if is_all else None


def _engine_knows(story: Story) -> Verdict | None:
    """What ended the job in the engine's words. Ranks that reached an end know better, but for what they do
    not see: that the engine reported them to end, and why; which rank it was that the others lost.
    """
    state = story.state
    knows_place = state.knows_cause or bool(state.host)
    if story.end is None:
        speaks = knows_place or not story.output
    else:
        is_told = int(story.end["exit_code"]) == ExitCode.INTERRUPTED
        speaks = _is_for_another(story.end) and (knows_place if is_told else state.knows_cause)
    death = _find_death(story)
    is_launchers = state.code is not None and state.rank is None  # its own end says less than its words
    if not speaks or not state.why or (is_launchers and death is not None and death.rank is not None):
        return None
    others = _dead_rank(story) or _words_of_others(story)
    is_sentence = state.rank is not None and state.why.startswith(f"rank {state.rank} on {state.host} ")
    failed = RankFailed(
        state.why if is_sentence else f"job {story.job} ended: {state.why}",
        hint=state.hint or (others.error["hint"] if others is not None and others.error else _LOOK),
        rank=state.rank,
        host=state.host,
    )
    return _failed(failed)


# ---- how processes ended -------------------------------------------------------------------------------


def _dead_rank(story: Story) -> Verdict | None:
    death = _find_death(story)
    return None if death is None else _of_death(death, story)


def _find_death(story: Story) -> Death | None:
    """The rank that died: which one is known from its connection, how it ended from its launcher or its own
    exit.
    """
    if story.all_left and story.end is not None and story.end["status"] == RunStatus.COMPLETE:
        return None  # nothing was missing by then
    places = story.places or dict(enumerate(story.state.seen.hosts))
    reported = read_death(story.output)
    near = ranks_on(reported.host, places) if reported is not None else []
    first = story.first_dead
    if first is None and (reported is None or reported.rank is None):  # mpirun knows the signal, too
        first = _first_on_hosts(near, story)
    if reported is not None and (first is None or len(near) == 1):
        # Hydra's process may be one that it killed itself, on the host of the dead. Where all that were seen
        # live on, it is the one that was not.
        unseen = story.missing if reported.pid not in story.pids else ()
        rank = near[0] if len(near) == 1 else unseen[0] if len(unseen) == 1 else reported.rank
        return replace(reported, rank=rank, host=places[near[0]] if near else reported.host)
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
    if not set(ranks) <= {end.rank for end in seen.ends}:
        return None
    left = survivors(seen.words, story.output)
    found = (end.rank for end in seen.ends if not (end.said or end.swept or end.rank in left))
    return next((rank for rank in found if rank in ranks), None)


def _is_for_another(end: Event) -> bool:
    return int(end["exit_code"]) in (ExitCode.INTERRUPTED, ExitCode.RANK_FAILED)


def _left_for_another(code: int | None, story: Story) -> bool:
    """A rank that lost another one says so, or leaves that to rank 0, and leaves with this code."""
    return code == ExitCode.RANK_FAILED and bool(story.errors)


def _of_death(death: Death, story: Story) -> Verdict:
    if _is_unstarted(death, story):
        where = f" on {death.host}" if death.host else ""
        words = last_words(story.output) or first_complaint(story.output)
        unstarted = SiteError(
            f"the launch{where} {death.how} before any rank reported",
            hint=f"its last words: {words}" if words else _LOOK,
            host=death.host,
        )
        return _failed(unstarted)
    who = f"rank {death.rank}" if death.rank is not None else "a rank"
    if death.host:
        who += f" on {death.host}"
    elif death.rank is None:
        who = "the launch"  # its own end says no more
    words = _last_words(death.rank, story)
    hint = f"its last words: {words}" if words else _where_to_look(death.code)
    rank = death.rank
    if rank is not None and story.missing not in ((), (rank,)):
        who += f", or one that had not started yet ({', '.join(map(str, story.missing))}),"
        rank = None
    return _failed(RankFailed(f"{who} {death.how}", hint=hint, rank=rank, host=death.host))


def _last_words(rank: int | None, story: Story) -> str:
    """A rank's own, where they are known apart; else those of any."""
    seen = story.state.seen
    if rank is None or not seen.hosts:
        return last_words(story.output)
    return next((line.strip() for line in reversed(seen.words.get(rank, ())) if line.strip()), "")


def _is_unstarted(death: Death, story: Story) -> bool:
    """Whether the launch gave up before any rank was heard: its place is to blame then, in its own words. Not
    where a process was killed: shells and srun report that by 128 and the signal's number.
    """
    heard = story.connected or story.hello or story.someone_ended or death.rank is not None
    code = death.code or 0
    return not heard and death.pid is None and code > 0 and not 128 < code <= 128 + signal.NSIG


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
    is_aborted, began = srun_aborted(lines), srun_end(lines)
    of_others = (*_TOLD_TO_END, _LOST_ANOTHER) if is_aborted else _TOLD_TO_END
    before, later = (
        [(death, death.code or 0) for death in srun_deaths(part) if death.code not in of_others]
        for part in (lines[:began], lines[began:] if is_aborted else [])
    )
    faults = [death for death, code in later if code in _FAULTS]
    if before and not (is_busbw and len(faults) == 1 and all(code > 0 for _, code in before)):
        return min(before, key=lambda found: is_busbw and found[1] > 0)[0]
    codes = [death for death, code in later if code > 0 and not is_busbw]
    killed = [death for death, code in later if code == -signal.SIGKILL]
    likely = faults or codes or killed
    return likely[0] if len(likely) == 1 else None
