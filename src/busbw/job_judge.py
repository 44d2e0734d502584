"""How a job on an engine ended: what its ranks said, what the engine knows, what launchers print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from busbw import session
from busbw.errors import ExitCode, RankFailed, SiteError
from busbw.launchers.deaths import read_death, read_lost_peer
from busbw.launchers.engine import JobState
from busbw.launchers.setup_script import failure
from busbw.model.event import Event
from busbw.worker.lead import error_event

if TYPE_CHECKING:
    from busbw.job_session import Following

# What shells end with where they cannot start a program.
_SHELL_HINTS: Final = {
    126: "name a program that the nodes may execute",
    127: "name a program that the nodes have, by its full path or with PATH in --env or --setup-script",
}
# What a Python without busbw says, what shells and container runtimes say where there is no Python, and what
# MPI libraries are known to do while they start: a rank of Open MPI 5.0 that still waits in MPI_Init crashes
# where a message reaches it (https://github.com/open-mpi/ompi/issues/12495; one wait less, and it cannot).
_REMEDIES: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (
        ("No module named busbw",),
        "give --bring to copy busbw there, or --python PATH of a Python that has it",
    ),
    (
        ('python3": executable file not found',),
        "give --python PATH of the image's Python, or another --image",
    ),
    (("python3: not found",), "give --python PATH of a Python that is there, or another --image"),
    (("python3: command not found",), "give --python PATH of a Python that is there, or another --image"),
    (
        ("(mca_pml_ob1_recv_frag_callback_match+", "(ompi_mpi_init+"),
        (
            "Open MPI is known to crash so now and then while it starts; run it again, or give --env "
            "OMPI_MCA_pmix_base_async_modex=1 --env OMPI_MCA_pmix_base_collect_data=0"
        ),
    ),
)


def judge(following: Following) -> tuple[ExitCode, Event | None]:
    """How the job ended. What a rank said about itself tells most, then what the engine knows of who failed,
    then what launchers print and exit codes tell.
    """
    story, state = following.story, following.state
    if following.given_up is not None and not story.connected:
        return following.given_up.exit_code, error_event(following.given_up)
    is_ended = story.interrupted or state.cancelled
    if not story.connected and not is_ended and (failed_script := failure(story.output)):
        unready = SiteError(
            failed_script, hint="try it on that node; its own words are in log/ of the run folder"
        )
        return unready.exit_code, error_event(unready)
    if session.is_out_of_time(story) and not story.interrupted:
        return session.judge(story, state.host)  # what the engine says is of our cancelling
    if story.waiting and not story.interrupted:
        return session.judge(story, state.host)  # what engine and launcher know is who of them left first
    if (failed := _lost_peer(following)) is not None:
        return failed.exit_code, error_event(failed)
    code, error = session.judge(story, state.host)  # this host, where the front is, has no rank to blame
    own = any(not item.get("peer_lost") for item in story.errors)
    knows_more = state.knows_cause or bool(state.host)
    # The engine ended the ranks because of one that died, or of a limit: they were told no more than to end.
    told_to_end = code is ExitCode.INTERRUPTED and knows_more
    # It knows which rank died, or that all were ended; the others' last words only that one had gone first.
    knows_why = code is ExitCode.RANK_FAILED and state.knows_cause
    if story.interrupted or own or (story.end is not None and not told_to_end and not knows_why):
        return code, error
    if following.is_command:
        return _of_command(state)
    if state.cancelled and not knows_more and story.end is None:  # elsewhere: the ranks' deaths are of that
        return ExitCode.INTERRUPTED, None
    if state.why and (knows_more or error is None or not story.output):
        is_said = state.rank is not None and state.why.startswith(f"rank {state.rank} on {state.host} ")
        failed = RankFailed(
            state.why if is_said else f"job {following.handle.id} ended: {state.why}",
            hint=state.hint or (str(error["hint"]) if error is not None else ""),
            rank=state.rank,
            host=state.host,
        )
        return failed.exit_code, error_event(failed)
    return code, error


def with_remedy(error: Event, output: Sequence[str]) -> Event:
    """The error with what to try where the ranks have not what starts them."""
    text = "\n".join(output)
    hints = (hint for words, hint in _REMEDIES if all(word in text for word in words))
    return {**error, "hint": next(hints, error.get("hint", ""))}


def _lost_peer(following: Following) -> RankFailed | None:
    """The rank whose end the others felt first, where nobody knows better: a survivor that aborts over it is
    taken for the cause by the launcher.
    """
    story = following.story
    told = read_death(story.output)
    # A signal, which only the victim had, or its own words.
    is_known = (told is not None and told.rank is not None) or any(
        not item.get("peer_lost") for item in story.errors
    )
    host = read_lost_peer(story.output)
    if host is None or is_known or story.interrupted or following.state.knows_cause:
        return None
    ranks = [rank for rank, place in story.hello.values() if place == host]
    who = f"rank {ranks[0]}" if len(ranks) == 1 else "a rank"
    return RankFailed(
        f"{who} on {host} ended: the other ranks lost their connection to it",
        hint="look at log/ in the run folder, and for that host's OOM killer",
        rank=ranks[0] if len(ranks) == 1 else None,
        host=host,
    )


def _of_command(state: JobState) -> tuple[ExitCode, Event | None]:
    """The end of a user's command: busbw has no opinion of it but whether it ended well."""
    if state.code == 0:
        return ExitCode.OK, None
    if state.cancelled:  # elsewhere: what the command ended with is of that
        return ExitCode.INTERRUPTED, None
    how = state.why or (f"exit code {state.code}" if state.code is not None else "its engine tells none")
    hint = state.hint or _SHELL_HINTS.get(state.code or 0, "")
    end = "the command failed" if state.code is not None else "the command's exit code is not known"
    failed = RankFailed(f"{end}: {how}", hint=hint, rank=state.rank, host=state.host)
    return failed.exit_code, error_event(failed)
