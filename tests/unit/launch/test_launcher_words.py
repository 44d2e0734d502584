"""What launchers print, read back."""

from __future__ import annotations

import pytest

from busbw.launch.launcher_words import (
    Death,
    describe,
    last_words,
    read_death,
    read_lost_peer,
    words_of_ranks,
)

BANNER = "=" * 83

# What mpiexec of MPICH 5.0.2 printed over an exit code, and below it over a signal.
HYDRA_CODE = f"""
{BANNER}
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 25684 RUNNING AT node7
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
{BANNER}
"""
HYDRA_SIGNAL = f"""{HYDRA_CODE}YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""
# What mpirun of Open MPI 4.1 and 5.0 prints.
OPEN_MPI_4 = """
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 0 on node node7 exited on signal 11 (Segmentation fault).
--------------------------------------------------------------------------
"""
OPEN_MPI_5 = """
--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 4242 on node node7 exited on
signal 9 (Killed).
--------------------------------------------------------------------------
"""


@pytest.mark.parametrize(
    ("text", "death"),
    [
        (HYDRA_SIGNAL, Death("node7", 25684, None, -9)),
        (HYDRA_CODE, Death("node7", 25684, None, 9)),
        (OPEN_MPI_4, Death("node7", 0, 1, -11)),
        (OPEN_MPI_5, Death("node7", 4242, 1, -9)),
        ("a rank's own words\nsignal 9\n", None),
    ],
)
def test_what_launchers_print(text: str, death: Death | None) -> None:
    assert read_death(text.splitlines()) == death


@pytest.mark.parametrize(
    ("number", "last", "said"),
    [
        (11, "Segmentation fault (signal 11)", {"code": -11}),
        (7, "Terminated (signal 15)", {"code": -7}),
        (3, "Killed (signal 9)", {"code": 3}),
        (1, "Killed (signal 9)", {"number": 1}),
        (3, "Terminated (signal 15)", {"number": 3}),
    ],
)
def test_the_last_line_of_hydra_is_of_all_ranks(number: int, last: str, said: dict[str, int]) -> None:
    """MPICH 5.0.2 ors the statuses of all ranks, and kills those that are left: 6 | 9 is 15."""
    text = HYDRA_SIGNAL.replace("EXIT CODE: 9", f"EXIT CODE: {number}").replace("Killed (signal 9)", last)
    assert read_death(text.splitlines()) == Death("node7", 25684, **said)


def test_last_words_come_before_the_launcher_speaks() -> None:
    lines = ["Traceback (most recent call last):", "ImportError: no numpy", "", *HYDRA_CODE.splitlines()]
    assert last_words(lines) == "ImportError: no numpy"
    assert words_of_ranks(lines) == lines[:2]
    assert last_words(HYDRA_CODE.splitlines()) == ""
    assert last_words([]) == ""


@pytest.mark.parametrize("host", ["", "127.0.0.99: "])
def test_hydra_s_own_source_says_less_than_ssh(host: str) -> None:
    """MPICH 5.0 over a host that refuses connections."""
    lines = [
        f"{host}ssh: connect to host 127.0.0.99 port 22: Connection refused",
        f"{host}[mpiexec@vm] ui_cmd_cb (/mpich-5.0.2/src/pm/hydra/mpiexec/pmiserv_pmci.c:51): failed.",
        f"{host}[mpiexec@vm] main (/mpich-5.0.2/src/pm/hydra/mpiexec/mpiexec.c:270): process manager error",
    ]
    assert last_words(lines) == lines[0]


def test_the_peer_that_survivors_lost_is_read() -> None:
    lines = [
        "An MPI communication peer process has unexpectedly disconnected.  This",
        "usually indicates a failure in the peer process (e.g., a crash or",
        "  Local host: h2",
        "  Local PID:  367",
        "  Peer host:  h3",
    ]
    assert read_lost_peer(lines) == "h3"
    assert read_lost_peer(lines[:-1]) is None
    assert read_death(lines) is None
    of_daemon = ["  Local host:    h1", "  Remote host:   h3", "  Daemon exit status: 255"]
    assert read_lost_peer(of_daemon) == "h3"
    assert read_lost_peer(of_daemon[:-1]) is None


# What a rank of Open MPI 5.0.11 that crashed, and srun, printed.
CRASH = """\
[h1:00393] *** Process received signal ***
[h1:00393] Signal: Segmentation fault (11)
[h1:00393] Signal code: Address not mapped (1)
[h1:00393] Failing at address: 0xe0
[h1:00393] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x3c050)[0x7f59cbe5a050]
[h1:00393] [ 1] /lib/libmpi.so.40(mca_pml_ob1_recv_frag_callback_match+0x95)[0x7f59c2a78f25]
[h1:00393] [ 2] /lib/libopen-pal.so.80(+0xdba28)[0x7f59c2d4ba28]
[h1:00393] [23] /lib/libpython3.11.so.1.0(PyEval_EvalCode+0x224)[0x7f59cc2508e4]
[h1:00393] *** End of error message ***
srun: error: h2: task 1: Killed
  1: srun: error: h3: task 2: Terminated
  0: slurmstepd-h1: error: *** STEP 22.0 ON h1 CANCELLED AT 2026-11-27T02:47:06 ***
"""


def test_the_function_of_a_crash_is_its_last_word() -> None:
    lines = CRASH.splitlines()
    assert last_words(lines) == lines[5]
    assert words_of_ranks(lines) == [*lines[1:4], lines[5]]


@pytest.mark.parametrize(
    ("code", "words"),
    [(3, "exit code 3"), (-125, "killed for its memory"), (-99, "killed by signal 99")],
)
def test_how_a_process_ended(code: int, words: str) -> None:
    assert describe(code) == words
