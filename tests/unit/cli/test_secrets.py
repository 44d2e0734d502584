"""No command leaves a secret anywhere: canaries of every kind through every entrance, looked for in all that
commands print and keep.
"""

# ruff: noqa: E501 (lines have the width that nccl-tests gives them)
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.facts import answer
from busbw_testing.runs import NULL, start

from busbw.cli.main import main
from busbw.foreign.forms.formats import ExportFormat
from busbw.launch.hosts.plan import HostFacts, Site

CANARY: Final = "CANARY"
PEM: Final = "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n-----END OPENSSH PRIVATE KEY-----"
# By their names, and by their forms under names that records keep.
SECRETS: Final = {
    "MY_PASSWORD": "CANARY one, two; 'three'",
    "HF_TOKEN": "CANARY",
    "WANDB_API_KEY": "CANARY",
    "AWS_SECRET_ACCESS_KEY": "CANARY/+=",
    "NCCL_CREDENTIALS": "CANARY",
    "DB_PASS": "CANARY$x",
    "NCCL_A_JSON": '{"user": "me", "password": "CANARY"}',
    "NCCL_A_CONNECTION": "Server=h;User Id=me;Pwd=CANARY;",
    "NCCL_A_PHRASE": "passphrase: CANARY is long",
    "NCCL_A_URL": "https://CANARY@host/x",
    "NCCL_A_PROXY": "http://me:CANARY@proxy:3128",
    "NCCL_A_LOGIN": "me:CANARY@host",
    "NCCL_A_BLOB": "https://a.blob/x?sp=r&sig=CANARY%3D",
    "NCCL_A_OBJECT": "https://s3/x?X-Amz-Signature=CANARY",
    "NCCL_A_HEADER": "Authorization: Bearer CANARY",
    "NCCL_A_GITHUB": "ghp_CANARY0123456789abcdef",
    "NCCL_A_NGC": "nvapi-CANARY0123456789abcdef",
    "NCCL_A_AWS": "AKIACANARY0123456789",
    "NCCL_A_KEY_FILE": PEM,
}
OPEN: Final = {"NCCL_DEBUG": "WARN", "SSH_AUTH_SOCK": "/tmp/agent.1", "LD_LIBRARY_PATH": "/opt/x/lib"}
ONE_LINE: Final = {name: value for name, value in SECRETS.items() if "\n" not in value}
LOG: Final = """\
export HF_TOKEN=CANARY
mpirun -np 2 -x WANDB_API_KEY=CANARY -x NCCL_PROXY=http://me:CANARY@proxy all_reduce_perf -b 8 -e 16 --password CANARY
# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid     10 on     node-a device  0 [0x0f] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid     11 on     node-a device  1 [0x2d] NVIDIA H100 80GB HBM3
node-a:10:10 [0] NCCL INFO NCCL_AUTH_TOKEN set by environment to token=CANARY.
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    10.00    0.00    0.00      0    10.00    0.00    0.00      0
          16             4     float     sum      -1    10.00    0.00    0.00      0    10.00    0.00    0.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.0012
#
{"password": "CANARY"}
"""
FORMS: Final = get_args(ExportFormat)


def no_canary(folder: Path, *texts: str) -> None:
    """Neither in what was printed nor in any file."""
    for text in texts:
        assert CANARY not in text, text[max(0, text.index(CANARY) - 200) :][:400]
    found = [str(path) for path in folder.rglob("*") if path.is_file() and b"CANARY" in path.read_bytes()]
    assert found == []


def shown(home: Path, *words: str) -> str:
    done = start(home, *words)
    no_canary(home, done.stdout, done.stderr)
    return done.stdout


def every_answer(home: Path, run: str, reports: tuple[str, ...] = ("html", "md", "txt")) -> None:
    """What every command says of a run or a log."""
    shown(home, "show", run)
    shown(home, "show", run, "--provenance")
    shown(home, "list")
    for command in (("diagnose", run), ("expect", run), ("compare", run, run)):
        shown(home, *command)
        shown(home, *command, "--format", "json")
    for form in FORMS:
        shown(home, "export", run, "--format", form, "-o", str(home / f"export.{form}"))
    for suffix in reports:
        shown(home, "report", run, "-o", str(home / f"report.{suffix}"))


def test_a_run_keeps_and_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    env_file = tmp_path / "in" / "env"
    env_file.write_text("FILE_TOKEN=CANARY\nNCCL_DEBUG=WARN\n")
    words = [word for pair in ONE_LINE.items() for word in ("--env", "=".join(pair))]
    home = tmp_path / "home"
    done = start_real(home, *words, "--env-file", str(env_file))
    assert done.returncode == 0, done.stderr
    no_canary(home, done.stdout, done.stderr)
    every_answer(home, "last", ("md", "txt"))
    text = "".join(path.read_text() for path in home.glob("*/run.json"))
    variables = json.loads(text)["environment"]["variables"]
    assert variables["HF_TOKEN"] == variables["FILE_TOKEN"] == "[redacted]"
    assert variables["NCCL_DEBUG"] == "WARN"
    assert variables["LD_LIBRARY_PATH"] == "/opt/x/lib"


def start_real(home: Path, *words: str) -> Any:
    return start(home, "run", "all_reduce", "-b", "8", "-e", "16", *NULL, *words, **SECRETS, **OPEN)


def test_a_log_is_read_without_its_secrets(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(LOG)
    home = tmp_path / "home"
    done = start(home, "import", str(log))
    assert done.returncode == 0, done.stderr
    no_canary(home, done.stdout, done.stderr)
    every_answer(home, "last")
    every_answer(home, str(log))


@pytest.fixture
def setups(tmp_path: Path) -> Path:
    path = tmp_path / "setups.yaml"
    env = {**SECRETS, "NCCL_ALGO": "Ring"}
    other = {"env": env, "prepend": {"A_TOKEN": "CANARY"}, "why": "token: CANARY"}
    path.write_text(json.dumps({"setups": {"plain": {}, "other": other}}))
    return path


def test_a_series_of_setups_keeps_and_shows_no_secret(tmp_path: Path, setups: Path) -> None:
    home = tmp_path / "home"
    words = (
        "--ops",
        "all_reduce",
        "-b",
        "8",
        "-e",
        "16",
        *NULL,
        "--blocks",
        "2",
        "--env",
        "RUN_TOKEN=CANARY",
    )
    done = start(home, "compare", str(setups), *words)
    no_canary(home, done.stdout, done.stderr)
    (series,) = home.glob("*setups*")
    assert "[redacted]" in (series / "setups.json").read_text()
    shown(home, "report", str(series), "-o", str(home / "series.html"))
    best = home / "best.env"
    shown(home, "compare", str(series), "--save-env", str(best), "--export-setup", "other")
    assert "# HF_TOKEN is a secret: set it yourself\n" in best.read_text()
    assert "export NCCL_ALGO=Ring\n" in best.read_text()
    for more in ((), ("--one-at-a-time",)):
        out = start(home, "compare", str(setups), *words, *more, "--dry-run").stdout
        no_canary(home, out)
        assert "does not run as it is" in out


def test_a_preset_is_shown_without_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.yaml"
    body = {"summary": "mine", "env": ONE_LINE, "node": {"gpus": 8}}
    path.write_text(
        json.dumps({"family": "own", "source": "me", "date": "2026-01-01", "presets": {"x": body}})
    )
    for words in (("presets", "show", "own/x"), ("presets", "show", "own/x", "--format", "json")):
        done = start(tmp_path / "home", *words, BUSBW_PRESET_FILES=str(path))
        assert done.returncode == 0, done.stderr
        no_canary(tmp_path / "home", done.stdout, done.stderr)


# ---- dry runs ----------------------------------------------------------------------------------------------


HOST: Final = HostFacts("h", (3, 11), "/py", "x86_64", 96, 0, busbw="1", mpi="mpich", mpiexec="/mpiexec")
PLACES: Final = {
    "slurm": ("--on", "slurm", "-N", "2", "--sbatch-args", "--comment=token=CANARY"),
    "pbs": ("--on", "pbs", "-N", "2"),
    "kubernetes": ("--on", "kubernetes", "-N", "2", "--image", "i", "--set", "annotation=my-token=CANARY"),
    "hosts": ("--on", "hosts", "--hosts", "a,b"),
    "mpirun": ("--backend", "mpi", "--ranks", "2"),
}


@pytest.fixture
def dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    for name, value in clean_environ(BUSBW_HOME=str(tmp_path)).items():
        monkeypatch.setenv(name, value)
    answer(monkeypatch, hosts={"site": Site(dict.fromkeys(("a", "b"), HOST), (), HOST, token="0" * 32)})

    def run(*words: str, tail: tuple[str, ...] = ()) -> str:
        assert main([*words, "--dry-run", *tail]) == 0, capsys.readouterr().err
        out, err = capsys.readouterr()
        assert CANARY not in err
        return str(out)

    return run


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_dry_run_hides_secrets_and_says_so(place: str, form: str, dry_run: Callable[..., str]) -> None:
    words = ["run", "all_reduce", *PLACES[place], "--format", form]
    env = [word for pair in SECRETS.items() for word in ("--env", "=".join(pair))]
    hidden = dry_run(*words, *env, "--env", "NCCL_ALGO=Ring")
    assert CANARY not in hidden
    assert "secrets are shown as ...: this text does not run as it is; --show-secrets" in hidden
    assert "Ring" in hidden
    whole = dry_run(*words, *env, "--show-secrets")
    assert whole.count(CANARY) >= len(SECRETS)
    assert "secrets are shown" not in whole


def test_a_dry_run_of_a_command_hides_its_secrets(dry_run: Callable[..., str]) -> None:
    words = ("exec", *PLACES["slurm"][:4], "--env", "HF_TOKEN=CANARY")
    command = ("--", "curl", "--password", "CANARY", "https://me:CANARY@host")
    assert CANARY not in dry_run(*words, tail=command)


def test_a_dry_run_without_secrets_says_nothing_of_them(dry_run: Callable[..., str]) -> None:
    out = dry_run("run", "all_reduce", *PLACES["pbs"], "--env", "NCCL_DEBUG=WARN")
    assert "secret" not in out
