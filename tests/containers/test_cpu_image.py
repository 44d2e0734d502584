"""The CPU image is built for real and used as its users would."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from busbw._version import __version__
from busbw.foreign.nccl_tests.flags import PROGRAMS

if TYPE_CHECKING:
    from busbw_testing.images import Container

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]


@pytest.mark.parametrize("folder", ["/opt/nccl-tests/build", "/opt/nccl_tests/build"])
def test_two_ranks_of_an_old_job_file(container: Container, folder: str) -> None:
    """As under nccl-tests: mpirun, the path, the flags, the table."""
    out = container.good(f"mpirun -np 2 {folder}/all_reduce_perf -b 8 -e 64K -f 2 -n 20 -c 1")
    rows = [line.split() for line in out.splitlines() if line.strip() and not line.startswith("#")]
    assert [int(row[0]) for row in rows] == [8 << step for step in range(14)]
    assert all(row[8] == row[12] == "0" for row in rows)
    assert "# Out of bounds values : 0 OK" in out


def test_every_program_of_nccl_tests_is_there(container: Container) -> None:
    assert container.good("cd /opt/nccl-tests/build && ls").split() == list(PROGRAMS)
    for program in PROGRAMS:
        assert container.good(f"/opt/nccl_tests/build/{program} -h").startswith(f"USAGE: {program}")


def test_the_record_says_which_image_it_was(container: Container) -> None:
    container.good("BUSBW_HOME=/tmp/runs busbw run all_reduce --ranks 2 -b 8 -e 1K -n 10")
    record = json.loads(container.good("BUSBW_HOME=/tmp/runs busbw show last --format json"))
    assert record["world"]["places"][0]["image"] == "cpu"
    python = container.good("python3 -c 'import platform; print(platform.python_version())'").strip()
    assert record["machine"]["image"]["versions"] == {"python": python, "busbw": __version__}
    assert "openssh-server" in record["machine"]["image"]["packages"]
    told = container.good("BUSBW_HOME=/tmp/runs busbw show last --provenance")
    assert "# image of rank 0: cpu, on localhost/busbw-test-base:1" in told


# sshd takes a port of the loopback interface. hydra takes neither address for its own host, so both are
# reached over SSH. Everything ends with the shell.
SSH = """
set -e
rm -rf ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519
chmod 777 ~/.ssh && cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.2", 0)); print(s.getsockname()[1])')
/usr/sbin/sshd -D -e -p $port -o ListenAddress=127.0.0.2 -o ListenAddress=127.0.0.3 2>/tmp/sshd.log &
trap "kill $!" EXIT
for try in $(seq 100); do ssh -p $port 127.0.0.2 true 2>/dev/null && break; sleep 0.1; done
"""


def test_ssh_starts_ranks_without_questions(container: Container) -> None:
    """No known host keys, a folder of keys that is anybody's (as a secret's), PATH in every session."""
    out = container.good(
        SSH + "ssh -p $port 127.0.0.3 'command -v busbw; bash -lc \"command -v busbw\"'\n"
        'HYDRA_LAUNCHER_EXTRA_ARGS="-p $port" timeout 100 mpirun -launcher ssh -localhost 127.0.0.1'
        " -hosts 127.0.0.2,127.0.0.3 -n 2 /opt/nccl-tests/build/all_reduce_perf -b 1K -e 1K -n 10\n"
    )
    assert out.splitlines()[:2] == ["/opt/busbw/bin/busbw"] * 2
    assert "# Out of bounds values : 0 OK" in out


def test_it_is_slim(container: Container) -> None:
    """No compiler and no package lists."""
    assert container.call("command -v gcc").code == 1
    assert container.good("ls /var/lib/apt/lists | wc -l").strip() == "0"
    assert container.good("test ! -e /tmp/build && echo gone").strip() == "gone"
