from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.environ import clean_environ

import busbw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(__file__).parents[3] / "world_ranks" / "program.py"
SOURCE = Path(busbw.__path__[0]).parent


class Ranks:
    """Real processes of one world on this host; ends whatever it started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.token = secrets.token_hex(16)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        scenario: str,
        rank: int,
        size: int,
        name: str = "",
        before: tuple[str, ...] = (),
        **variables: str,
    ) -> str:
        """``before``: words in front of the command."""
        name = name or str(rank)
        identity = {
            "BUSBW_RANK": str(rank),
            "BUSBW_WORLD_SIZE": str(size),
            "BUSBW_LOCAL_RANK": str(rank),
            "BUSBW_LOCAL_SIZE": str(size),
            "BUSBW_TOKEN": self.token,
        }
        with (self._folder / name).open("wb") as output:
            self.processes[name] = subprocess.Popen(
                [*before, sys.executable, str(PROGRAM), scenario],
                env=clean_environ(**{**identity, **variables}),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        return name

    def start_all(self, scenario: str, size: int, **variables: str) -> None:
        for rank in range(size):
            self.start(scenario, rank, size, **variables)

    def events(self, name: str) -> list[dict[str, Any]]:
        text = (self._folder / name).read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]

    def text(self, name: str) -> str:
        return (self._folder / name).read_text()

    def event(self, name: str, kind: str, timeout_s: float = 20.0) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for event in self.events(name):
                if event["event"] == kind:
                    return event
            time.sleep(0.01)
        raise AssertionError(f"process {name} did not say {kind!r} within {timeout_s} s:\n{self.text(name)}")

    def exit_codes(self, timeout_s: float = 20.0) -> dict[str, int]:
        return {name: process.wait(timeout_s) for name, process in self.processes.items()}

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    started = Ranks(tmp_path)
    yield started
    started.end()


@pytest.fixture
def host() -> str:
    return socket.gethostname()


@pytest.fixture
def program() -> Path:
    """The script that is one rank."""
    return PROGRAM


@pytest.fixture
def environment() -> Callable[..., dict[str, str]]:
    """Builds a rank's environment from the given variables, without the test's own launcher."""
    return clean_environ


@pytest.fixture
def are_alike(host: str) -> Callable[..., None]:
    """``are_alike(results, kind)``: every rank has what the scenario ``collectives`` must give."""

    def compare(results: list[dict[str, Any]], kind: str) -> None:
        root, size = results[0], len(results)
        assert [[rank, name, local] for rank, name, _, local in root["members"]] == [
            [rank, host, rank] for rank in range(size)
        ]
        assert root["same_plan"] == 1
        assert root["gathered"] == [[700_000 * rank, [rank] if rank else []] for rank in range(size)]
        for rank, result in enumerate(results):
            about = (result["kind"], result["rank"], result["size"], result["hosts"])
            assert about == (kind, rank, size, [host])
            assert result["members"] == root["members"]
            assert result["maximum"] == [[size - 1, 0.0], [0.5, -float("inf")]]
            assert (result["total"], result["total_type"]) == ([[sum(range(size))] * 3] * 2, "int64")
            assert result["many"] == root["many"]
            assert result["many"][2]

    return compare
