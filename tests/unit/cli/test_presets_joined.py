"""Presets where somebody's launcher started the ranks, whose variables are the launcher's to set."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.presets import ours

from busbw.cli.preset_values import lines_for_joined
from busbw.errors import UsageError
from busbw.plan.flags.launch import LaunchSettings

MPIEXEC = Path(sys.executable).with_name("mpiexec")
FILE = """
family: u
presets:
  a: {env: {NCCL_NET: Socket, NCCL_ALGO: 'Ring,Tree;x'}, library_path: [/a/lib]}
  b: {env: {NCCL_ALGO: Tree}}
"""


@pytest.fixture
def preset_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return ours(tmp_path, monkeypatch, FILE)


def filled(*presets: str, env: tuple[str, ...] = (), folders: tuple[str, ...] = ()) -> LaunchSettings:
    """As the command line hands it on: presets' words before the user's, presets' folders behind."""
    words = {"u/a": ("NCCL_NET=Socket", "NCCL_ALGO=Ring,Tree;x"), "u/b": ("NCCL_ALGO=Tree",)}
    of_presets = tuple(word for name in presets for word in words[name])
    libraries = ("/a/lib",) if "u/a" in presets else ()
    return LaunchSettings(preset=presets, env=(*of_presets, *env), library_path=(*folders, *libraries))


@pytest.mark.usefixtures("preset_file")
def test_what_the_launcher_has_not_set_is_listed_by_preset() -> None:
    here = {"NCCL_NET": "Socket", "LD_LIBRARY_PATH": "/usr/lib"}
    (line,) = lines_for_joined(filled("u/a"), here, "mpich")
    assert "(mpich) did not set NCCL_ALGO='Ring,Tree;x' LD_LIBRARY_PATH=/a/lib:/usr/lib, so" in line
    assert line.startswith("preset u/a: ")
    over, first, second = lines_for_joined(filled("u/a", "u/b"), {}, "mpich")
    assert over == "NCCL_ALGO=Tree, preset u/b's, replaces preset u/a's Ring,Tree;x"
    assert "u/a: the launcher (mpich) did not set NCCL_NET=Socket LD_LIBRARY_PATH=/a/lib, so" in first
    assert "u/b: the launcher (mpich) did not set NCCL_ALGO=Tree, so" in second


@pytest.mark.usefixtures("preset_file")
def test_what_was_typed_and_is_not_so_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--env NCCL_ALGO cannot reach the ranks that mpich started"):
        lines_for_joined(filled("u/a", env=("NCCL_ALGO=Ring",)), {"NCCL_ALGO": "Tree"}, "mpich")
    with pytest.raises(UsageError, match=r"^--library-path LD_LIBRARY_PATH cannot reach"):
        lines_for_joined(filled("u/a", folders=("/b",)), {}, "mpich")
    (tmp_path / "env").write_text("UCX_TLS=tcp")
    launch = LaunchSettings(env_file=tmp_path / "env")
    with pytest.raises(UsageError, match=r"^--env-file UCX_TLS cannot reach"):
        lines_for_joined(launch, {}, "mpich")
    assert lines_for_joined(launch, {"UCX_TLS": "tcp"}, "mpich") == ()


@pytest.mark.skipif(not MPIEXEC.exists(), reason="the bundled mpich is not installed here")
@pytest.mark.parametrize(
    ("given", "typed", "told", "code"),
    [
        ((), (), 1, 0),
        (("-genv", "NCCL_NET", "Socket", "-genv", "NCCL_IB_HCA", "mlx5"), (), 0, 0),
        ((), ("--env", "NCCL_ALGO=Ring"), 0, 2),
    ],
)
def test_ranks_of_mpiexec(
    given: tuple[str, ...], typed: tuple[str, ...], told: int, code: int, tmp_path: Path
) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("family: u\npresets: {p: {env: {NCCL_NET: Socket, NCCL_IB_HCA: mlx5}}}")
    home = tmp_path / "home"
    words = [sys.executable, "-m", "busbw", "preflight", "--backend", "mpi", "--preset", "u/p", *typed]
    done = subprocess.run(
        [MPIEXEC, "-n", "2", *given, *words],
        env=clean_environ(BUSBW_HOME=str(home), BUSBW_PRESET_FILES=str(file)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.count("note: preset u/p: the launcher (mpich) did not set NCCL_") == told
    assert "replaces this shell's" not in done.stderr
    if code:
        assert "error: --env NCCL_ALGO cannot reach the ranks that mpich started" in done.stderr
        return
    (record,) = home.glob("*/run.json")
    lines = json.loads(record.read_text())["settings"]["overridden"]
    assert [line.partition(":")[0] for line in lines] == ["preset u/p"] * told
