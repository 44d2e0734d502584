"""How the end of a launch is judged: a story goes in, the exit code and the one error come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from busbw.errors import ExitCode, RankFailed, SiteError, UndecidedError
from busbw.launch.engine import JobState, Phase, SeenRanks
from busbw.launch.launcher_words import Death
from busbw.launch.observed import Story
from busbw.launch.verdict import Verdict, first_of_srun, judge
from busbw.model.event import Event, EventKind, error_event, event

HYDRA = [
    "=" * 80,
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "=   PID 500 RUNNING AT node7",
    "=   EXIT CODE: 9",
    "=" * 80,
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
]
OWN = error_event(SiteError("no such device", hint="look", rank=2, host="node7"))
SEEN = error_event(SiteError("rank 2 on node7: the process ended", rank=2, host="node7"), peer_lost=True)
FELT = error_event(RankFailed("MPI call failed", rank=1, host="here"), peer_lost=True)
FIRST = "ended first, and the launcher ended the others"


def end(code: int, status: str = "complete") -> Event:
    return event(EventKind.END, exit_code=int(code), status=status)


def local(**seen: Any) -> Story:
    """Of ranks on this host under a launcher."""
    return Story(host="here", **seen)


def processes(**seen: Any) -> Story:
    """Of ranks on this host that are processes of ours."""
    return local(process_is_rank=True, **seen)


def failure(story: Story, code: ExitCode = ExitCode.RANK_FAILED) -> Event:
    """The error of a story that ends with this code."""
    verdict = judge(story)
    assert verdict.code is code
    assert verdict.error is not None
    return verdict.error


# ---- ranks on this host --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "verdict"),
    [
        (processes(end=end(0), exits={0: 0, 1: 0, 2: 0}), Verdict(ExitCode.OK)),
        (processes(end=end(1), exits={0: 0, 1: 0, 2: 0}), Verdict(ExitCode.BAD_VERDICT)),
        # Whatever the ranks said on their way out.
        (processes(interrupted=True, errors=[SEEN], exits={0: -15}), Verdict(ExitCode.INTERRUPTED)),
        # What a rank says of itself comes first; what others saw, last.
        (processes(errors=[SEEN, OWN], exits={2: -9}), Verdict(ExitCode.ENVIRONMENT, OWN)),
        (local(errors=[SEEN]), Verdict(ExitCode.ENVIRONMENT, SEEN)),
        # A rank that is killed after its goodbye costs nothing, nor a limit that comes with the end.
        (local(end=end(0), all_left=True, exits={0: 9}, output=HYDRA), Verdict(ExitCode.OK)),
        (local(end=end(0), out_of_time_s=15.0), Verdict(ExitCode.OK)),
    ],
)
def test_how_a_run_ended(story: Story, verdict: Verdict) -> None:
    assert judge(story) == verdict


@pytest.mark.parametrize(
    ("story", "message", "rank"),
    [
        # A signal says more than the codes of those that left for it.
        (processes(errors=[SEEN], exits={0: 5, 1: 5, 2: -11}), "rank 2 on here was killed by SIGSEGV", 2),
        (processes(exits={1: 1}), "rank 1 on here ended with exit code 1", 1),
        (processes(exits={0: 0, 1: 0}), "the ranks ended without a result", None),
        # The launcher knows how the first to end was ended, and the rank where the host is.
        (
            local(hello={1: "node7.example"}, pids={500: 1}, output=HYDRA, first_dead=1),
            "rank 1 on node7.example was killed by SIGKILL",
            1,
        ),
        # It names one that it killed itself.
        (
            local(hello={0: "node7"}, pids={500: 0}, output=HYDRA, first_dead=2, exits={0: 9}),
            f"rank 2 on node7 {FIRST}",
            2,
        ),
        # A rank that had not started may be the one.
        (
            local(hello={0: "node7"}, pids={500: 0}, output=HYDRA, first_dead=0, missing=(1, 2)),
            f"rank 0 on node7, or one that had not started yet (1, 2), {FIRST}",
            None,
        ),
        # It died before it said anything: its process is known.
        (
            local(output=HYDRA, exits={0: 9}, first_dead=2, pids={500: 2}),
            "rank 2 on node7 was killed by SIGKILL",
            2,
        ),
        (  # All others were seen, and live on.
            local(pids={501: 0, 502: 1}, output=HYDRA, missing=(2,)),
            "rank 2 on node7 was killed by SIGKILL",
            2,
        ),
        # No name where it is not certain.
        (local(output=HYDRA, someone_ended=True), "a rank on node7 was killed by SIGKILL", None),
        (local(output=HYDRA, places={0: "node7", 1: "node7"}), "a rank on node7 was killed by SIGKILL", None),
        (  # the only one there, and pods have the same process ids
            local(output=HYDRA, places={0: "node6", 1: "node7.example"}),
            "rank 1 on node7.example was killed by SIGKILL",
            1,
        ),
        # Its launcher does not miss it; a rank that lost it is not the cause.
        (local(errors=[FELT], connected=True, first_dead=2, exits={0: 5}), f"rank 2 on here {FIRST}", 2),
    ],
)
def test_the_rank_that_died_is_named(story: Story, message: str, rank: int | None) -> None:
    error = failure(story)
    assert (error["message"], error["rank"]) == (message, rank)


def test_last_words_are_the_hint() -> None:
    error = failure(processes(exits={1: 1}, output=["Traceback", "ImportError: no numpy"]))
    assert error["hint"] == "its last words: ImportError: no numpy"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            (
                "[mpiexec@h1] match_arg (lib/utils/args.c:166): unrecognized argument bogus",
                "[mpiexec@h1] HYDU_parse_array (lib/utils/args.c:181): argument matching returned error",
            ),
            "its last words: unrecognized argument bogus",
        ),
        (
            ("-" * 60, 'mpirun: Error: unknown option "-bogus"', "-" * 60),
            'mpirun: Error: unknown option "-bogus"',
        ),
        (("ssh: connect to host h2 port 22: Connection refused",), "Connection refused"),
        ((), "look at log/"),
    ],
)
def test_a_launcher_that_gives_up_before_any_rank_says_why(said: tuple[str, ...], words: str) -> None:
    error = failure(local(exits={0: 255}, output=said), ExitCode.ENVIRONMENT)
    assert error["message"] == "the launch on here ended with exit code 255 before any rank reported"
    assert words in error["hint"]
    failure(local(exits={0: 255}, output=said, connected=True))


# ---- a round of a hunt that does not end ---------------------------------------------------------------


LONGER = "give a smaller -b or a longer --round-timeout"


def waiting(rank: int) -> Event:
    said = UndecidedError("round 2 with c: no end within 30 s", hint=LONGER, rank=rank, host="abc"[rank])
    return {**error_event(said, peer_lost=True), "waits": True}


PLACES = {0: "a", 1: "b", 2: "c"}
# The engine sees ranks end that waited, and one of them first.
SEEN_FIRST = JobState(Phase.ENDED, f"rank 1 on b {FIRST}", code=5, rank=1, host="b")


@pytest.mark.parametrize("state", [JobState(Phase.ENDED), SEEN_FIRST])
def test_who_says_nothing_while_others_wait_is_what_hangs(state: JobState) -> None:
    errors = [waiting(0), waiting(1)]
    error = failure(local(errors=errors, places=PLACES, exits={0: 5}, output=HYDRA, state=state))
    assert (error["rank"], error["host"]) == (2, "c")
    said = "rank 2 on c said nothing while 2 others waited: rank 0 in round 2 with c"
    assert error["message"].startswith(said)


@pytest.mark.parametrize("state", [JobState(Phase.ENDED), SEEN_FIRST])
def test_nobody_is_named_where_all_wait(state: JobState) -> None:
    """Whoever left first, and whatever one of them said of a wait that it gave up."""
    own = error_event(RankFailed("no completion within 30 s", rank=1, host="b"))
    everybody = [waiting(0), waiting(1), waiting(2)]
    for errors in (everybody, [*everybody, own]):
        seen = {"exits": {0: 5}, "output": HYDRA, "first_dead": 0, "state": state}
        error = failure(local(errors=errors, places=PLACES, **seen), ExitCode.UNDECIDED)
        assert (error["rank"], error["host"]) == (None, "")
        assert error["message"].startswith("all 3 ranks waited: round 2 with c: no end within 30 s")
        assert error["hint"].startswith("give a smaller -b or a longer --round-timeout")


def test_a_launcher_that_ended_before_its_ranks_is_the_cause() -> None:
    error = failure(local(lost_launcher="mpiexec", first_dead=1, exits={0: -9}))
    assert error["message"] == "mpiexec on here, which starts the ranks, was killed by SIGKILL"
    assert error["hint"].endswith("OOM killer")
    error = failure(local(lost_launcher="hydra_pmi_proxy", exits={0: 1}))
    assert error["message"] == "hydra_pmi_proxy on here, which starts the ranks, ended before them"
    assert error["rank"] is None


def test_the_oom_killer_is_named_for_sigkill_alone() -> None:
    for code, is_named in ((-9, True), (137, True), (-11, False), (-6, False), (1, False)):
        hint = failure(processes(exits={0: code}))["hint"]
        assert hint.endswith("OOM killer") == is_named, code


def test_who_waited_is_not_what_died() -> None:
    """Of three ranks one waits and leaves first: that says nothing of it, and little of the others."""
    for seen in ({"first_dead": 0}, {"exits": {0: 5}}):
        error = failure(local(errors=[waiting(0)], places=PLACES, **seen))
        assert (error["rank"], error["host"]) == (None, "")
        assert error["message"].startswith("only rank 0 waited: round 2 with c")
    seen = {"output": HYDRA, "hello": {2: "c"}, "pids": {500: 2}, "first_dead": 2}
    error = failure(local(errors=[waiting(0)], places=PLACES, **seen))
    assert error["message"] == "rank 2 on c was killed by SIGKILL"


# ---- busbw's own limit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no rank had said anything"),
        ({"hello": {0: "a", 1: "a"}}, "2 ranks had started, and were not ready to measure"),
        ({"connected": True, "hello": {0: "a"}}, "its ranks were connected, and no case had ended"),
        ({"connected": True, "finished": 3}, "3 cases had ended"),
        # What they say when they are told to end does not hide the limit.
        ({"end": end(130, "interrupted"), "exits": {0: -15}}, "no rank had said anything"),
    ],
)
def test_a_launch_that_took_too_long_says_how_far_it_had_come(fields: dict[str, Any], words: str) -> None:
    error = failure(local(out_of_time_s=15.0, last_words=("a",), **fields))
    assert error["message"] == f"the launch had not ended after 15 s: {words}"
    assert error["last_words"] == ["a"]


# ---- jobs on engines -----------------------------------------------------------------------------------

# What was left of a run whose rank 1 on h3 was killed: mpirun of Open MPI 5.0.11 blames a survivor, and the
# watcher of rank 0's host says what it saw.
WORDS = (
    "[h1:00163] plm:ssh: Warning: setpgid(168,168) failed in parent with errno=Permission denied(13)",
    "[h2:00000] *** An error occurred in Socket closed",
    "[h2:00000] ***    and MPI will try to terminate your MPI job as well)",
    "-" * 74,
    "prterun has exited due to process rank 0 with PID 0 on node h2 calling",
    '"abort". This may have caused other processes in the application to be',
)
WATCHER = event(
    EventKind.ERROR, message="a rank ended", hint="", rank=None, host="h2", exit_code=5, peer_lost=True
)


def job(state: JobState, **seen: Any) -> Story:
    """Of a job that ended so."""
    exits = {} if state.code is None else {0: state.code}
    return Story(**{"job": "17", "host": state.host, "exits": exits, "state": state, **seen})


def killed(state: JobState, **seen: Any) -> Story:
    return job(state, **{"connected": True, "errors": [WATCHER], "output": WORDS, **seen})


def ended(why: str = "", **known: Any) -> JobState:
    return JobState(Phase.ENDED, why, **known)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        # No host is blamed that nobody named; a rank is that the engine saw end.
        (ended(code=14), "the launch ended with exit code 14"),
        (ended(f"rank 1 on h3 {FIRST}", hint="look", code=14, rank=1, host="h3"), f"rank 1 on h3 {FIRST}"),
    ],
)
def test_who_was_killed_by_what_the_engine_knows(state: JobState, message: str) -> None:
    error = failure(killed(state))
    assert (error["message"], error["rank"], error["host"]) == (message, state.rank, state.host)
    assert error["hint"] == (state.hint or "look at log/ in the run folder")


def test_the_rank_that_a_launcher_names_counts_more_than_the_pod_of_the_launcher() -> None:
    state = ended("pod a-launcher exited with code 255: process manager error", code=255, host="node1")
    lost = "[mpiexec@a] main (mpiexec.c:270): process manager error waiting for completion"
    places = {0: "a-worker-0", 1: "node7"}
    error = failure(killed(state, output=[*HYDRA[:4], lost], places=places))
    how = "ended with 9 (an exit code, or a signal's number: hydra prints both alike)"
    assert (error["message"], error["rank"], error["host"]) == (f"rank 1 on node7 {how}", 1, "node7")


# What a survivor prints at times.
PEER = ("An MPI communication peer process has unexpectedly disconnected.  This", "  Peer host:  h3")


def test_words_of_a_lost_connection_count_where_nothing_better_is_known() -> None:
    left = {"end": end(0), "all_left": True, "exits": {0: 139}, "hello": {1: "h3", 0: "h2"}}
    mpirun = ("mpirun noticed that process rank 1 with PID 7 on node h3 exited on signal 11.", *PEER)
    assert judge(local(output=mpirun, **left)) == Verdict(ExitCode.OK)
    own = {"first_dead": 1, "end": end(5, "failed"), "errors": [FELT], "hello": {1: "h3", 0: "h2"}}
    assert failure(local(output=PEER, **own)) == FELT


def test_the_rank_that_others_lost_is_named_where_nobody_knows_better() -> None:
    seen = {"output": [*WORDS, *PEER], "hello": {1: "h3", 0: "h2"}}
    error = failure(killed(ended(code=14), **seen))
    assert error["message"] == "rank 1 on h3 ended: the other ranks lost their connection to it"
    known = ended("killed by SIGKILL", code=14, rank=2, host="h1")
    assert failure(killed(known, **seen))["message"] == "job 17 ended: killed by SIGKILL"


@pytest.mark.parametrize(
    "said",
    [
        {"errors": (), "end": end(130, "interrupted")},
        # They are ended one by one: the last may have seen another go.
        {
            "errors": [error_event(RankFailed("rank 1 on h1: the connection ended", rank=1), peer_lost=True)],
            "end": end(5, "failed"),
        },
    ],
)
def test_a_time_limit_is_reported_where_the_ranks_only_know_that_they_were_ended(
    said: dict[str, Any],
) -> None:
    why = "DeadlineExceeded: Job was active longer than specified deadline"
    error = failure(killed(ended(why, hint="give --time-limit more", out_of_time=True), **said))
    assert (error["message"], error["hint"]) == (f"job 17 ended: {why}", "give --time-limit more")


@pytest.mark.parametrize(
    ("story", "code"),
    [
        # The user's command, cancelled elsewhere; ended with the same code of its own; through before.
        (job(ended("it was cancelled", code=143, cancelled=True), is_command=True), ExitCode.INTERRUPTED),
        (job(ended(code=143), is_command=True), ExitCode.RANK_FAILED),
        (job(ended(code=0, cancelled=True), is_command=True), ExitCode.OK),
        # Ranks that were killed before they said a word, while the launcher reported each.
        (
            job(
                ended("it was cancelled", code=143, cancelled=True),
                output=["srun: error: h1: task 0: Terminated"],
            ),
            ExitCode.INTERRUPTED,
        ),
        (job(ended(code=143), output=["srun: error: h1: task 0: Terminated"]), ExitCode.RANK_FAILED),
        # Through before it was cancelled.
        (job(ended("it was cancelled", cancelled=True), connected=True, end=end(1)), ExitCode.BAD_VERDICT),
        # Nobody waits for it any more.
        (job(JobState(Phase.PENDING), given_up=SiteError("it cannot start")), ExitCode.ENVIRONMENT),
    ],
)
def test_the_exit_code_of_a_job(story: Story, code: ExitCode) -> None:
    assert judge(story).code is code


@pytest.mark.parametrize(
    ("state", "message", "hint"),
    [
        (ended(code=3), "the command failed: exit code 3", ""),
        (ended(code=127), "the command failed: exit code 127", "name a program that the nodes have"),
        (ended("node h2 failed"), "the command's exit code is not known: node h2 failed", ""),
        (
            ended("it reached its time limit", hint="give --time-limit more", out_of_time=True),
            "the command's exit code is not known: it reached its time limit",
            "give --time-limit more",
        ),
    ],
)
def test_the_end_of_a_users_command(state: JobState, message: str, hint: str) -> None:
    error = failure(job(state, is_command=True))
    assert error["message"] == message
    assert error["hint"].startswith(hint)


@pytest.mark.parametrize("is_command", [False, True])
def test_a_setup_script_that_failed_is_named(is_command: bool) -> None:
    """The ranks, or the command, never started there."""
    said = [*WORDS, "busbw: the setup script ended with exit code 7 on h3"]
    story = job(ended(code=7, rank=2, host="h3"), output=said, is_command=is_command)
    assert failure(story, ExitCode.ENVIRONMENT)["message"] == said[-1].removeprefix("busbw: ")


# As Open MPI 5.0.11 prints its crash; elsewhere than in MPI_Init it is not known.
CRASH = "[h1:00393] [ 1] /lib/libmpi.so.40(mca_pml_ob1_recv_frag_callback_match+0x95)[0x7f59c2a78f25]"
IN_START = "[h1:00393] [ 9] /lib/libmpi.so.40(ompi_mpi_init+0x425)[0x7f59c2891215]"


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (("/usr/bin/python3: No module named busbw",), "--bring"),
        (('exec: "python3": executable file not found in $PATH',), "--python"),
        (("sh: 1: python3: not found",), "--python"),
        ((CRASH, IN_START), "OMPI_MCA_pmix_base_async_modex=1"),
        ((CRASH,), "its last words: [h1:00393] [ 1]"),
    ],
)
def test_what_a_host_lacks_and_known_crashes_have_a_remedy(lines: tuple[str, ...], word: str) -> None:
    story = job(ended(code=1), output=["other", *lines])
    assert word in failure(story, ExitCode.ENVIRONMENT)["hint"]


# ---- what srun prints: the texts are those of a real 22.05 ---------------------------------------------

KILLED = """\
srun: error: h3: task 2: Killed
srun: launch/slurm: _step_signal: Terminating StepId=9.0
slurmstepd: error: *** STEP 9.0 ON h1 CANCELLED AT 2026-11-22T00:49:33 ***
srun: error: h2: task 1: Exited with exit code 5
srun: error: h[1,4]: tasks 0,3: Terminated
""".splitlines()

# A rank of MPICH that was killed, and what became of the others.
CRASHED_FOR_IT = """\
srun: error: h3: task 2: Killed
srun: launch/slurm: _step_signal: Terminating StepId=77.0
srun: error: h2: task 1: Segmentation fault
0: slurmstepd-h1: error: *** STEP 77.0 ON h1 CANCELLED AT 2026-11-27T03:25:14 ***
srun: error: h1: task 0: Segmentation fault
srun: error: h4: task 3: Exited with exit code 130
""".splitlines()

# A rank of Open MPI that crashed: of those that srun killed for it, it may hear first.
CRASHED = """\
srun: Job step aborted: Waiting up to 22 seconds for job step to finish.
srun: error: h2: task 1: Killed
srun: launch/slurm: _step_signal: Terminating StepId=22.0
srun: error: h4: task 3: Killed
srun: error: h1: task 0: Segmentation fault
srun: error: h3: task 2: Terminated
""".splitlines()


@pytest.mark.parametrize(
    ("lines", "death"),
    [
        (KILLED, Death("h3", rank=2, code=-9)),
        (CRASHED_FOR_IT, Death("h3", rank=2, code=-9)),
        (CRASHED, Death("h1", rank=0, code=-11)),
        (CRASHED[:4], None),
        (CRASHED[:2], Death("h2", rank=1, code=-9)),
        ([CRASHED[0], "srun: error: h1: tasks 0-3: Killed"], None),
        (["srun: error: h1: task 0: Out Of Memory", *CRASHED[:2]], Death("h1", rank=0, code=-125)),
        (["srun: error: h2: task 1: Exited with exit code 5", *CRASHED[::4]], Death("h1", rank=0, code=-11)),
        (
            ["srun: error: h2: task 1: Exited with exit code 3", *CRASHED_FOR_IT[3:]],
            Death("h2", rank=1, code=3),
        ),
        ([*CRASHED, "srun: error: h3: task 2: Aborted"], None),
        (KILLED[3:] + KILLED[:1], Death("h3", rank=2, code=-9)),
        (KILLED[2:3] + KILLED[:1], None),
        (["srun: error: h1: tasks 0-7: Exited with exit code 4"], Death("h1", rank=0, code=4)),
        (["srun: error: h2: task 9: Segmentation fault (core dumped)"], Death("h2", rank=9, code=-11)),
        (["some: srun: error: h2: task 9: Killed"], None),
    ],
)
def test_the_first_death_that_srun_reports(lines: list[str], death: Death | None) -> None:
    assert first_of_srun(lines) == death


FAILED = (
    "srun: error: h3: task 2: Exited with exit code 9",
    "srun: error: h1: task 0: Killed",
    "slurmstepd: error: *** STEP 5.0 ON h1 CANCELLED AT 2026-11-22T10:00:00 ***",
    "srun: error: h2: task 1: Exited with exit code 143",
)
# A rank of Open MPI that called MPI_Abort: it may be reported last.
CALLED_ABORT = [*CRASHED[:4], "srun: error: h1: task 0: Exited with exit code 7", CRASHED[5]]
# One that called abort() and one that lost it.
SURVIVOR = "srun: error: h4: task 3: Exited with exit code 14"
ABORTED = [SURVIVOR, "srun: error: h2: task 1: Aborted", CRASHED[0], "srun: error: h3: task 2: Killed"]


@pytest.mark.parametrize(
    ("lines", "death"),
    [
        (FAILED, Death("h3", rank=2, code=9)),
        (FAILED[2:], None),
        (CRASHED, Death("h1", rank=0, code=-11)),
        (CALLED_ABORT, Death("h1", rank=0, code=7)),
        (ABORTED, Death("h2", rank=1, code=-6)),
        ([SURVIVOR, CRASHED[0], *CRASHED[3:4], CRASHED[1]], None),
    ],
)
def test_the_first_death_of_a_users_command(lines: list[str], death: Death | None) -> None:
    assert first_of_srun(lines, is_busbw=False) == death


# ---- what agents on hosts see --------------------------------------------------------------------------

# What a rank and mpirun of Open MPI 5.0.11 printed, rank 1 having been killed.
CLOSED, ABORT = WORDS[1:2], WORDS[-2:]


Ends = tuple[tuple[int, bool], ...]


def gone(rank: int, *, said: bool = False, swept: bool = False) -> tuple[int, bool]:
    """An end, and whether it was a death."""
    return rank, not said and not swept


def on(hosts: Sequence[str], ends: Ends = (), words: dict[int, Sequence[str]] | None = None) -> SeenRanks:
    ended, died = (tuple(rank for rank, dead in ends if dead or every) for every in (True, False))
    return SeenRanks(hosts, words or {}, ended, died)


@pytest.mark.parametrize(
    ("ends", "words", "rank"),
    [
        # A survivor that aborts is not the cause, though its abort was heard first.
        ((gone(0), gone(1), gone(2, said=True)), {0: CLOSED}, 1),
        ((gone(0), gone(1), gone(2)), {0: CLOSED}, 1),  # a third was killed before it could say anything
        ((gone(2), gone(0), gone(1)), {2: PEER}, 1),
        ((gone(2, swept=True), gone(0), gone(1)), {0: CLOSED}, 1),
        # One that aborts by itself is.
        ((gone(0), gone(1, said=True), gone(2, said=True)), {1: ("other words",)}, 0),
        # The order decides where nobody says more.
        ((gone(2), gone(0), gone(1)), {}, 2),
        # No name where one was not seen to end, nor where all took their leave.
        ((gone(0), gone(2)), {}, None),
        ((gone(0, said=True), gone(1, said=True), gone(2, swept=True)), {}, None),
    ],
)
def test_the_first_dead_that_agents_saw(
    ends: Ends, words: dict[int, Sequence[str]], rank: int | None
) -> None:
    seen = on(("h1", "h2", "h3"), ends, words)
    error = failure(job(ended(code=14, seen=seen), connected=True, output=ABORT))
    assert (error["rank"], error["host"]) == ((rank, seen.hosts[rank]) if rank is not None else (None, ""))


SIGNAL = [line.replace("node7", "h2") for line in HYDRA]
TWO_ENDS = (gone(2), gone(1), gone(0))


@pytest.mark.parametrize(
    ("seen", "message", "rank"),
    [
        # Hydra names host and process of the rank that died, or of one that it killed then.
        (on(("h1", "h2"), TWO_ENDS[1:]), "rank 1 on h2 was killed by SIGKILL", 1),
        (on(("h2", "h2"), TWO_ENDS[1:]), f"rank 1 on h2 {FIRST}", 1),
        (on(("h2", "h2", "h1"), TWO_ENDS), f"rank 1 on h2 {FIRST}", 1),
        (on(("h2", "h2")), "a rank on h2 was killed by SIGKILL", None),
    ],
)
@pytest.mark.parametrize("end_of_first", [None, end(130, "interrupted"), end(5, "failed")])
def test_the_rank_that_died_on_hosts(
    seen: SeenRanks, message: str, rank: int | None, end_of_first: Event | None
) -> None:
    error = failure(job(ended(code=9, seen=seen), output=SIGNAL, end=end_of_first))
    assert (error["message"], error["rank"]) == (message, rank)


def test_hydra_has_hosts_as_they_were_given_to_it() -> None:
    """By which ranks need not call them."""
    given = on(("h1", "h1", "h2", "h2"), (gone(0), gone(3)))
    places = {0: "n1", 1: "n1", 2: "n2", 3: "n2"}
    error = failure(job(ended(code=9, seen=given), output=SIGNAL, places=places))
    assert error["rank"] is None  # the end of rank 2 was not seen
    given = on(("h1", "h1", "h2", "h2"), (gone(0), gone(3), gone(2, swept=True)))
    error = failure(job(ended(code=9, seen=given), output=SIGNAL, places=places))
    assert error["message"] == f"rank 3 on n2 {FIRST}"
    alone = failure(job(ended(code=9, seen=on(("h1", "h2"))), output=SIGNAL, places={0: "n1", 1: "n2"}))
    assert alone["message"] == "rank 1 on n2 was killed by SIGKILL"


def test_a_rank_that_dies_on_hosts_after_the_end_is_named() -> None:
    seen = on(("h1", "h2"), TWO_ENDS[1:])
    error = failure(job(ended(code=9, seen=seen), output=SIGNAL, end=end(0)))
    assert error["message"] == "rank 1 on h2 was killed by SIGKILL"


def test_the_words_of_the_rank_that_died_on_hosts_are_the_hint() -> None:
    seen = on(("h1", "h2"), TWO_ENDS[1:], {0: ("mine",), 1: ("others", "")})
    assert failure(job(ended(code=9, seen=seen), output=SIGNAL))["hint"] == "its last words: others"


def test_a_launcher_that_ended_well_names_nobody() -> None:
    good = ended(code=0, seen=on(("h1",)))
    assert judge(job(good, output=SIGNAL, end=end(0))) == Verdict(ExitCode.OK)
