"""What a command of the user's finds: the shell text is executed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.launch import command
from busbw.launch.batch import MEET
from busbw.launch.command import (
    HOSTS,
    NAMES,
    NUMBER,
    entered,
    host_list,
    path_apart,
    prepending,
    setup_failure,
)
from busbw.launch.hosts.ssh import after_setup
from busbw.launch.kubernetes import manifest
from busbw.launch.pbs import engine
from busbw.launch.slurm.script import SOURCE_SETUP

# The command, and a process of its own, read the file twice.
READ = """
import os, subprocess, sys
for number in sys.argv[1:]:
    assert os.read(int(number), 9) == b"mine"
path = os.environ["BUSBW_HOSTFILE"]
print(subprocess.run(["cat", path, path], text=True, capture_output=True).stdout == 2 * open(path).read())
names = ("BUSBW_NODES", "BUSBW_NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
print(*(os.environ[name] for name in names), [name for name in os.environ if "EXEC" in name])
print(open(path).read(), end="")
"""


def run(argv: tuple[str, ...], **environ: str) -> list[str]:
    kept = {"PATH": os.environ["PATH"]}
    done = subprocess.run(argv, env=kept | environ, text=True, capture_output=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("opened", [(), (9,), (9, 8, 7)])
def test_a_command_reads_its_hosts(opened: tuple[int, ...], tmp_path: Path) -> None:
    """Descriptors that a launcher left open for the command stay as they are."""
    (tmp_path / "own").write_text("mine")
    opens = " ".join(f"{number}<{tmp_path}/own" for number in opened)
    words = entered((sys.executable, "-c", READ, *map(str, opened)))
    hosts = host_list({"other": 8, "10.0.0.2": 4})
    here = os.uname().nodename
    lines = run(
        ("sh", "-c", f'exec "$@" {opens}', "sh", *words),
        **{HOSTS: hosts, NAMES: f"other,{here}", "TMPDIR": str(tmp_path)},
    )
    assert lines[:4] == ["True", "2 1 other 29500 []", "other slots=8", "10.0.0.2 slots=4"]
    assert list(tmp_path.iterdir()) == [tmp_path / "own"]


def test_its_number_can_be_told(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", READ)
    given = {HOSTS: "a:1,b:1,c:1", "MASTER_ADDR": "x", "MASTER_PORT": "7", "TMPDIR": str(tmp_path)}
    assert run(entered(argv), **given, **{NUMBER: "2"})[1] == "3 2 x 7 []"
    assert run(entered(argv, "$SLURM_NODEID"), **given, SLURM_NODEID="1")[1] == "3 1 x 7 []"


@pytest.mark.parametrize(
    ("there", "value"), [({}, "/a b:$HOME"), ({"LIBRARIES": "/x:/y"}, "/a b:$HOME:/x:/y")]
)
def test_folders_come_before_what_the_rank_has(there: dict[str, str], value: str) -> None:
    words = prepending({"LIBRARIES": "/a b:$HOME", "OTHER": "/o"})
    show = "import os, sys; print(os.environ['LIBRARIES'], os.environ['OTHER'], sys.argv[1:])"
    lines = run((*words, sys.executable, "-c", show, "its $1", "-n"), **there)
    assert lines == [f"{value} /o ['its $1', '-n']"]
    assert prepending({}) == ()


def test_full_names_and_short_ones_are_the_same_node(tmp_path: Path) -> None:
    here = os.uname().nodename.split(".")[0]
    given = {HOSTS: f"a.site:1,{here}.site.org:1", "TMPDIR": str(tmp_path)}
    assert run(entered((sys.executable, "-c", READ)), **given)[1] == "2 1 a.site 29500 []"


def test_words_and_the_exit_code_are_the_commands_own() -> None:
    argv = entered(("sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "a b", "$(c)", "*"))
    done = subprocess.run(
        argv, env={"PATH": os.environ["PATH"], HOSTS: "a:1"}, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, b"a b|$(c)|*|", b"")


def test_hosts_of_a_pbs_node_file(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("b\nb\na\nb\n")
    text = engine.HOST_LINES + MEET + f'echo "${HOSTS} $MASTER_ADDR"'
    done = subprocess.run(
        ("bash", "-c", text),
        env={**os.environ, "PBS_NODEFILE": str(tmp_path / "nodes")},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"b:3,a:1 b\n"


def test_what_makes_the_host_file_finds_its_programs_and_touches_nothing_of_the_command(
    tmp_path: Path,
) -> None:
    """Whatever the user's variables are called; and the command's PATH is the user's."""
    path, others = path_apart(
        {"PATH": "/nope", "file": "f", "name": "n", "here": "h", "found": "w", "free": "r"}
    )
    show = (
        "import os; print(*(os.environ[name] for name in ('PATH', 'file', 'name', 'here', 'found', 'free')))"
    )
    given = {HOSTS: "a:1,b:1", "TMPDIR": str(tmp_path)}
    assert run(entered((*path, sys.executable, "-c", show)), **given, **others) == ["/nope f n h w r"]
    assert path_apart({"A": "b"}) == ((), {"A": "b"})


@pytest.mark.parametrize("text", [command._ENTER, manifest._SPREAD, manifest._ORDER])
def test_text_that_runs_with_the_users_variables_calls_its_own_apart(text: str) -> None:
    """In a container, and in the words of a rank, they are there: an assignment would change one."""
    names = re.findall(r"\b([a-z]\w*)=|\b(?:for|read -r) (\w+)", text)
    own = {first or second for first, second in names} - {"slots"}  # what sed writes
    assert own
    assert all(name.startswith("busbw_") for name in own), own


# ---- setup scripts ---------------------------------------------------------------------------------------

SHOW = ("sh", "-c", 'echo "$A|$1|$(cat)"', "sh", "it's $(one)\ntwo")
FAILED = "the setup script ended with exit code"


@pytest.mark.parametrize(
    ("setup", "code", "told"),
    [
        ("export A='b c'; return 0; export A=late", 0, ""),
        ("declare -x A='b c'; [ -n \"$A\" ] && return", 0, ""),
        ("f() { export A='b c'; }; f; set -- other words", 0, ""),
        ("set -eu; export A='b c' # the end", 0, ""),
        ("cat <<'BUSBW_SETUP_END' >&2\nit's {a}\nBUSBW_SETUP_END\nexport A='b c'", 0, "it's {a}\n"),
        ("return 3", 3, f"{FAILED} 3 on "),
        ("exit 4", 4, f"{FAILED} 4 on "),
        ("exit 0", 1, f"{FAILED} 0 on "),
        ("set -e\nfalse\nexport A=1", 1, f"{FAILED} 1 on "),
    ],
)
@pytest.mark.parametrize("engine_name", ["hosts", "pbs", "slurm"])
def test_a_setup_script_is_sourced_and_starts_nothing_where_it_fails(
    engine_name: str, setup: str, code: int, told: str
) -> None:
    """It may return, what it exports is kept, and neither words nor standard input of others are its own."""
    words, environ = after_setup(setup, SHOW), {"BUSBW_SETUP": setup, "SLURMD_NODENAME": "n1"}
    if engine_name != "hosts":
        script = engine._sourcing(setup) if engine_name == "pbs" else SOURCE_SETUP
        words = ("bash", "-c", script, "busbw-rank", *SHOW)
    done = subprocess.run(
        words,
        env={**os.environ, **environ},
        input="in",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "" if code else "b c|it's $(one)\ntwo|in\n")
    failure = setup_failure(done.stderr.splitlines())
    assert failure.startswith(told) if code else (done.stderr, failure) == (told, "")
    assert after_setup("", SHOW) == SHOW
