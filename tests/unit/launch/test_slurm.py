"""The engine against stand-ins for Slurm's commands: what a real one does is in tests/slurm."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from busbw_testing.stand_ins import stand_in

from busbw.cli.main import main
from busbw.errors import SiteError, UsageError
from busbw.launch import scheduler
from busbw.launch.engine import Handle, JobRequest, JobState, Phase
from busbw.launch.settle import read_setup
from busbw.launch.slurm import engine
from busbw.plan.flags.launch import LaunchSettings

DETAILS = {"step_of": "", "partition": "", "account": "", "bring": ""}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing but the stand-ins that a test adds."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    return tmp_path


def sbatch_request() -> JobRequest:
    command = engine.Command(("sbatch", "--parsable", "job.sbatch"))
    return JobRequest("slurm", "busbw-x", 4, 2, {"job.sbatch": ""}, (command,), DETAILS)


@pytest.mark.parametrize(("answer", "number"), [("17", "17"), ("17;other", "17"), ("a note\\n18", "18")])
def test_the_job_number(site: Path, answer: str, number: str) -> None:
    stand_in(site / "bin", "sbatch", f'printf "{answer}\\n"')
    assert engine.submit(sbatch_request(), site) == Handle("slurm", number, "busbw-x", DETAILS)


def test_sbatchs_own_words_and_a_hint(site: Path) -> None:
    stand_in(site / "bin", "sbatch", 'echo "sbatch: error: invalid partition specified: x" >&2; exit 1')
    with pytest.raises(SiteError, match=r"^sbatch: invalid partition specified: x\n") as refused:
        engine.submit(sbatch_request(), site)
    assert "sinfo" in refused.value.hint


def no_slurm(_site: Path) -> str:
    return "error: no Slurm here: s"


def no_controller(site: Path) -> str:
    for name in ("sinfo", "srun", "sbatch", "scontrol"):
        stand_in(
            site / "bin",
            name,
            f"echo '{name}: fatal: Could not establish a configuration source' >&2; exit 1",
        )
    return "hint: try `scontrol ping`"


@pytest.mark.parametrize("lack", [no_slurm, no_controller])
def test_a_dry_run_goes_on_without_slurm(
    site: Path, capsys: pytest.CaptureFixture[str], lack: Callable[[Path], str]
) -> None:
    error = lack(site)
    words = ["run", "all_reduce", "--on", "slurm", "-N", "2", "--world", "mpi"]
    assert main([*words, "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "#SBATCH --nodes=2" in told.out
    assert told.err.startswith(
        "note: Slurm could not be asked: the nodes' GPUs and srun's --mpi below are guesses"
    )
    held = ["run", "all_reduce", "--on", "slurm", "--job-id", "17"]
    for real in (words, [*words, "--no-preflight"], ["preflight", "--on", "slurm", "-N", "2"], held):
        assert main(real) == 4
        assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "partition debug has no GPUs; these have: gpu, big (--partition)"),
        (("--partition", "gpu"), ""),
        (("--backend", "mpi"), ""),
    ],
)
def test_a_partition_without_gpus_is_said_where_others_have_some(
    site: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(site / "bin", "srun", "echo pmi2")
    stand_in(site / "bin", "sinfo", "echo 'debug*|(null)'; echo 'gpu|gpu:h100:8'; echo 'big|gpu:4'")
    assert main(["run", "all_reduce", "--on", "slurm", "-N", "2", "--dry-run", *words]) == 0
    told = capsys.readouterr()
    assert ("has no GPUs" in told.err) == bool(said)
    assert said in told.err
    assert ("--gpus-per-node=8" in told.out) == ("gpu" in words)


def test_what_is_of_a_new_job_is_refused_for_a_step() -> None:
    said = "--shared is for a new job, but --job-id 7 names one that runs"
    with pytest.raises(UsageError, match=said) as refused:
        engine.inquire(LaunchSettings(on="slurm", job_id="7", exclusive=False))
    assert "--srun-args" in refused.value.hint


def test_a_preset_s_words_for_a_new_job_do_not_concern_a_step(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gives --time-limit and --sbatch-args, which are refused where the user says them."""
    for name, text in (("srun", "echo pmix"), ("sinfo", "exit 0"), ("scontrol", RUNS)):
        stand_in(site / "bin", name, text)
    preset = ("--preset", "coreweave/h100")
    words = ["run", "all_reduce", "--on", "slurm", "--dry-run", *preset]
    assert main([*words, "-N", "2"]) == 0
    assert "--time=20:00" in capsys.readouterr().out
    assert main([*words, "--job-id", "7"]) == 0, capsys.readouterr().err
    script = capsys.readouterr().out
    assert "--jobid=7" in script
    assert "--time" not in script


MPI_LISTS = {
    "22.05": r'printf "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\nspecific versions: pmix_v4\n"',
    "20.11": r'printf "srun: MPI types are...\nsrun: none\nsrun: pmi2\n" >&2',
}


@pytest.mark.parametrize(("version", "found"), [("22.05", "pmix none pmi2"), ("20.11", "none pmi2")])
def test_what_is_asked_of_the_cluster(site: Path, version: str, found: str) -> None:
    stand_in(site / "bin", "srun", MPI_LISTS[version])
    rows = ("cpu*|(null)", "cpu*|gpu:h100:4(S:0),gpu:h100:4(S:1),nvme:1", "cpu*|gpu:2", "other|gpu:16")
    stand_in(site / "bin", "sinfo", "".join(f"echo '{row}'\n" for row in rows))
    (site / "setup.sh").write_text("module load x\n")
    facts = engine.inquire(LaunchSettings(on="slurm", nodes="2", setup_script=site / "setup.sh"))
    assert facts["mpi"] == found
    assert (facts["partition"], facts["gpus"]) == ("cpu", "8")
    assert facts["setup"] == "module load x\n"
    assert facts["python"] == sys.executable


def test_a_setup_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read --setup-script"):
        read_setup(tmp_path / "missing.sh")


@pytest.mark.parametrize("text", ["#" * 200_000, "module load x\0"])
def test_a_setup_script_that_no_command_can_carry(tmp_path: Path, text: str) -> None:
    (tmp_path / "setup.sh").write_text(text)
    with pytest.raises(UsageError, match="is not a script of at most 100,000 bytes"):
        read_setup(tmp_path / "setup.sh")


# What scontrol answers of a job that runs, and of one that Slurm has forgotten.
RUNS = 'printf "JobId=17 JobName=busbw-x\\n   JobState=RUNNING Reason=None x\\n   NumNodes=2 x\\n"'
FORGOTTEN = 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1'


@pytest.mark.parametrize(
    ("steps", "now", "calls"),
    [
        ("1.0|busbw-x\n1.1|other", False, ["--signal=TERM 1.0"]),
        ("1.0|busbw-x", True, ["--signal=KILL 1.0"]),
        ("", False, ["1"]),
    ],
)
def test_what_is_cancelled(site: Path, steps: str, now: bool, calls: list[str]) -> None:
    stand_in(site / "bin", "squeue", f"printf '{steps}\\n'")
    stand_in(site / "bin", "scontrol", RUNS)
    (site / "calls").touch()
    stand_in(site / "bin", "scancel", f'echo "$@" >> {site}/calls')
    engine.cancel(Handle("slurm", "1", "busbw-x", DETAILS), now=now)
    assert (site / "calls").read_text().splitlines() == calls


@pytest.mark.parametrize(
    "words",
    [
        'echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv" >&2; exit 1',
        "kill -9 $$",
    ],
)
def test_a_submission_without_an_answer_is_found_by_its_name(
    site: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(site / "bin", "sbatch", words)
    monkeypatch.setattr(engine, "_LATE_SECONDS", 0.0)
    stand_in(site / "bin", "squeue", "exit 0")
    with pytest.raises(SiteError):
        engine.submit(sbatch_request(), site)
    stand_in(site / "bin", "squeue", f'echo "$@" > {site}/asked; echo 17')
    stand_in(site / "bin", "scontrol", RUNS)
    assert engine.submit(sbatch_request(), site).id == "17"
    assert "--name=busbw-x" in (site / "asked").read_text()


def test_a_job_is_not_given_the_sizes_of_the_one_that_submits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_CONF", "PMI_RANK", "SBATCH_ACCOUNT")
    for name in given:
        monkeypatch.setenv(name, "1")
    kept = scheduler.environ_outside_jobs()
    assert {name for name in given if name in kept} == {"SLURM_CONF", "SBATCH_ACCOUNT"}
    monkeypatch.delenv("SLURM_JOB_ID")
    assert scheduler.environ_outside_jobs() is os.environ


def test_counts_of_ranks_that_disagree_are_refused(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "all_reduce", "--on", "slurm", "-N", "2", "--mpi", "none", "--ranks", "4", "--dry-run"]
    assert main([*words, "--ranks-per-node", "1"]) == 2
    assert "--ranks 4, but --ranks-per-node 1 makes 2 on 2 nodes" in capsys.readouterr().err
    assert main([*words, "--ranks-per-node", "2"]) == 0
    assert main([*words, "--preset", "aws/p5.48xlarge"]) == 0  # its own number gives way


def test_output_on_a_node_that_slurm_has_forgotten_is_said_to_be_there(site: Path) -> None:
    stand_in(site / "bin", "scontrol", FORGOTTEN)
    (site / "log").mkdir()
    *_, last = engine.follow(Handle("slurm", "1", "busbw-x", DETAILS), site)
    assert isinstance(last, JobState)
    assert (last.phase, last.code) == (Phase.ENDED, None)
    assert "its output is in /tmp/busbw-x-1.out" in last.why
