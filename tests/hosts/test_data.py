"""What users set is data on every host: never taken apart, expanded or executed by a shell on the way."""

from __future__ import annotations

import json
import random
import string
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

NASTY = [
    "",
    " ",
    "a b",
    "it's",
    '"',
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED;",
    "a\nb\n",
    "\\",
    "--",
    "-x",
    "*",
    "~",
    "%s",
    "a,b:c=d",
    "#",
    "!",
    "é",
    "&&",
    "$HOME",
    "\t",
]
SHOW = """
import json, os, sys
print(json.dumps([sys.argv[1:], {name: os.environ.get(name) for name in sys.argv[1].split(",")}]))
"""


def words(seed: int, count: int) -> list[str]:
    chosen = random.Random(seed)
    characters = string.printable.replace("\x0b", "").replace("\x0c", "").replace("\r", "") + "éß"
    made = ["".join(chosen.choices(characters, k=chosen.randrange(1, 30))) for _ in range(count)]
    return [*chosen.sample(NASTY, count), *made]


@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "none"])
def test_words_and_values_arrive_as_they_are(cluster: Any, mpi: str, request: Any) -> None:
    python = request.getfixturevalue("open_mpi_python") if mpi == "openmpi" else sys.executable
    for seed in range(3):
        values = words(seed, 8)
        arguments = words(seed + 100, 8)
        names = [f"NCCL_TEST_{number}" for number in range(len(values))]
        env = [
            word for name, value in zip(names, values, strict=True) for word in ("--env", f"{name}={value}")
        ]
        command = (python, "-c", SHOW, ",".join(names), *arguments)
        on = ("--on", "hosts", "--hosts", "h2,h3", "--mpi", mpi)
        front = cluster.run("exec", *on, *env, "--", *command, python=python)
        lines = [json.loads(line) for line in front.out.splitlines() if line.startswith("[[")]
        expected = [[",".join(names), *arguments], dict(zip(names, values, strict=True))]
        assert len(lines) == 2, front.out + front.err
        for arrived, came in lines:
            assert arrived == expected[0]
            assert {name: value for name, value in came.items() if value != expected[1][name]} == {}
    assert not list(cluster.folder.rglob("PWNED"))


def test_names_that_are_no_hosts_are_refused(cluster: Any) -> None:
    hostfile = cluster.folder / "hostfile"
    for name in ("-oProxyCommand=touch${IFS}PWNED", "$(touch PWNED)", "h2;touch", "a`b`", "h2\x00"):
        hostfile.write_text(f"h1\n{name}\n")
        front = cluster.run("exec", "--on", "hosts", "--hostfile", hostfile, "--", "true", code=2)
        assert "line 2" in front.error
    assert not list(cluster.folder.rglob("PWNED"))


@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "none"])
def test_folders_of_libraries_come_before_what_a_host_has(cluster: Any, mpi: str, request: Any) -> None:
    python = request.getfixturevalue("open_mpi_python") if mpi == "openmpi" else sys.executable
    setup = cluster.folder / "setup"
    setup.write_text("export LD_LIBRARY_PATH=/there/lib")
    on = ("--on", "hosts", "--hosts", "h2,h3", "--mpi", mpi, "--setup-script", setup)
    libraries = ("--library-path", "/a b/$HOME", "--library-path", "/c")
    command = (python, "-c", SHOW, "LD_LIBRARY_PATH")
    front = cluster.run("exec", *on, *libraries, "--", *command, python=python)
    lines = [json.loads(line) for line in front.out.splitlines() if line.startswith("[[")]
    expected = [["LD_LIBRARY_PATH"], {"LD_LIBRARY_PATH": "/a b/$HOME:/c:/there/lib"}]
    assert lines == [expected] * 2, front.out + front.err
