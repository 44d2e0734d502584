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
    *("", " ", "a b", "it's", '"', "$(touch PWNED)", "`touch PWNED`", "; touch PWNED;", "a\nb\n", "\\"),
    *("--", "-x", "*", "~", "%s", "a,b:c=d", "#", "!", "é", "&&", "$HOME", "\t"),
]
SHOW = """
import json, os, sys
print(json.dumps([sys.argv[1:], {name: os.environ.get(name) for name in sys.argv[1].split(",")}]))
"""


LIBRARIES = "LD_LIBRARY_PATH"


def more_words(count: int) -> list[str]:
    chosen = random.Random(0)
    characters = string.printable.replace("\x0b", "").replace("\x0c", "").replace("\r", "") + "éß"
    return ["".join(chosen.choices(characters, k=chosen.randrange(1, 30))) for _ in range(count)]


@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "none"])
def test_words_and_values_arrive_as_they_are(cluster: Any, mpi: str, request: Any) -> None:
    """And folders of libraries come before what a setup script exports on the host."""
    python = request.getfixturevalue("open_mpi_python") if mpi == "openmpi" else sys.executable
    script = cluster.folder / "set up.sh"
    script.write_text(f'export {LIBRARIES}="/it\'s/$(hostname)"\nreturn 0\nexit 3\n')
    values = [*NASTY, *more_words(8)]
    env = {f"NCCL_TEST_{number}": value for number, value in enumerate(values)}
    given = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    arguments = [",".join((*env, LIBRARIES)), *values]
    on = ("--on", "hosts", "--hosts", "h2,h3", "--mpi", mpi, "--setup-script", script)
    libraries = ("--library-path", "/a b/$HOME", "--library-path", "/c")
    front = cluster.run("exec", *on, *given, *libraries, "--", python, "-c", SHOW, *arguments, python=python)
    lines = [json.loads(line) for line in front.out.splitlines() if line.startswith("[[")]
    assert [arrived for arrived, _ in lines] == [arguments] * 2, front.out + front.err
    folders = {came.pop(LIBRARIES) for _, came in lines}
    assert folders == {f"/a b/$HOME:/c:/it's/{host}" for host in ("h2", "h3")}
    assert [came for _, came in lines] == [env] * 2
    assert not list(cluster.folder.rglob("PWNED"))
