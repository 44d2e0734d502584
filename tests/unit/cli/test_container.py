from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main

EFA = "efa1.48.0-nccl2.30.4-1-cuda13.0.2-ubuntu22.04-busbw0.1.0"
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
# In a tool's place: it says what it was given, and what it read.
TOOL = """#!/bin/sh
echo "$(basename "$0") $*" >>"$TOLD"
case "$*" in
  *get-login-password*) echo hunter2 ;;
  *describe-repositories*) echo "An error occurred (RepositoryNotFoundException)" >&2; exit 254 ;;
  *login*) cat >>"$TOLD" ;;
  build*) for last; do :; done; cp "$last/Containerfile" "$TOLD.Containerfile" ;;
  *--output*) printf hsqs >"$3" ;;
esac
exit "${CODE:-0}"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tools that only tell what they were asked; the file that they tell it to."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("docker", "podman", "buildah", "aws", "enroot"):
        (folder / name).write_text(TOOL)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return tmp_path / "told"


def container(*words: str) -> int:
    return main(["container", *words])


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert container("list") == 0
    told = capsys.readouterr().out
    assert "CUDA x Ubuntu: 13.0.2 x 22.04" in told
    assert container("list", "--format", "json") == 0
    assert [recipe["name"] for recipe in json.loads(capsys.readouterr().out)] == ["cpu", "efa", "hpcx"]


def test_show_prints_or_writes_what_a_tool_needs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert container("show", "efa", "--arch", "amd64", "--set", "nccl=2.31.2-1") == 0
    printed = capsys.readouterr().out
    assert 'ARG WITH_NCCL="2.31.2-1"\n' in printed
    words = ("--arch", "amd64", "--set", "nccl=2.31.2-1", "-o", str(tmp_path / "new" / "folder"))
    assert container("show", "efa", *words) == 0
    file = Path(capsys.readouterr().out.strip())
    assert file.read_text() == printed
    assert (file.parent / "build-nccl.sh").is_file()


def test_build(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first tool that is there, with every version; the name alone on standard output."""
    assert container("build", "efa", "--tool-args", "--isolation chroot") == 0
    told = capsys.readouterr()
    assert told.out == f"localhost/busbw:{EFA}-amd64\n"
    line = tools.read_text()
    assert line.startswith(
        f"buildah build --format docker --platform linux/amd64 --tag localhost/busbw:{EFA}-amd64 "
    )
    assert "--build-arg WITH_NCCL=2.30.4-1" in line
    assert "--isolation chroot /" in line
    assert f"{EFA}-amd64" in Path(f"{tools}.Containerfile").read_text()
    context = Path(line.split()[-1])
    assert not context.exists()


def test_build_for_both_with_docker(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert container("build", "cpu", "--arch", "amd64,arm64", "--tool", "docker", "--name", "me/busbw") == 0
    names = capsys.readouterr().out.split()
    assert names == ["me/busbw:cpu-busbw0.1.0-amd64", "me/busbw:cpu-busbw0.1.0-arm64"]
    assert [line.split()[3] for line in tools.read_text().splitlines()] == ["linux/amd64", "linux/arm64"]


def test_dry_runs_run_nothing(tools: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (
        ("build", "efa", "--cuda", "13.0.2"),
        ("push", "efa", "--to", f"{ECR}/busbw"),
        ("squash", "hpcx", "--into", str(tmp_path)),
    ):
        assert container(*words, "--dry-run") == 0
        assert len(capsys.readouterr().out.splitlines()) >= 2
    assert not tools.exists()
    assert list(tmp_path.glob(".*sqsh*")) == []


def test_a_dry_run_of_build_says_how_to_get_the_folder(
    tools: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    container("build", "efa", "--cuda", "12.9.1", "--set", "gdrcopy=none", "--dry-run")
    show, build = capsys.readouterr().out.splitlines()
    assert build.endswith(" CONTEXT")
    words = show.replace("CONTEXT", str(tmp_path / "context")).split()
    assert main(words[1:]) == 0
    assert 'ARG WITH_GDRCOPY="none"' in (tmp_path / "context/Containerfile").read_text()


def test_push_to_amazon(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert container("push", "efa", "--to", f"{ECR}/team/busbw") == 0
    told = capsys.readouterr()
    assert told.out == f"{ECR}/team/busbw:{EFA}-amd64\n"
    assert tools.read_text().splitlines() == [
        "aws ecr describe-repositories --region us-east-1 --repository-names team/busbw",
        "aws ecr create-repository --region us-east-1 --repository-name team/busbw",
        "aws ecr get-login-password --region us-east-1",
        f"buildah login --username AWS --password-stdin {ECR}",
        "hunter2",
        f"buildah push localhost/busbw:{EFA}-amd64 docker://{ECR}/team/busbw:{EFA}-amd64",
    ]
    assert "hunter2" not in told.out + told.err


def test_push_without_login(tools: Path) -> None:
    assert container("push", "efa", "--to", f"{ECR}/busbw", "--no-login") == 0
    assert len(tools.read_text().splitlines()) == 1


def test_squash_a_registrys_image(tools: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    words = ("squash", "ghcr.io/me/busbw:1", "--into", str(shared))
    assert container(*words) == 0
    assert capsys.readouterr().out == f"{shared}/ghcr.io+me+busbw+1.sqsh\n"
    assert container(*words) == 0
    told = capsys.readouterr()
    assert told.out == f"{shared}/ghcr.io+me+busbw+1.sqsh\n"
    assert "note: " in told.err
    assert "was there" in told.err
    (line,) = tools.read_text().splitlines()
    assert line.endswith("docker://ghcr.io#me/busbw:1")


def test_squash_what_was_built_here(tools: Path, tmp_path: Path) -> None:
    for tool, uri in (("docker", "dockerd://busbw:"), ("buildah", "podman://localhost/busbw:")):
        assert container("squash", "efa", "--into", str(tmp_path), "--tool", tool, "--force") == 0
        assert tools.read_text().splitlines()[-1].endswith(f"{uri}{EFA}-amd64")
    (tools.parent / "bin/podman").unlink()
    assert container("squash", "efa", "--into", str(tmp_path), "--force") == 4


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("build", "efaa"), 2, "did you mean efa?"),
        (("build", "efa", "--arch", "riscv"), 2, "no processor 'riscv'"),
        (("build", "efa", "--set", "nccl"), 2, "no KEY=VALUE"),
        (("build", "efa", "--tool-args", "'"), 2, "close the quotes"),
        (("show", "efa", "--arch", "amd64,arm64"), 2, "one processor"),
        (("push", "efa", "--to", "busbw"), 2, "names no registry"),
        (("squash", "efa:latest", "--into", "/tmp"), 2, "has no version"),
        (("squash", "efa:1", "--into", "/no/such/folder"), 4, "no folder /no/such/folder"),
        (("push", "efa"), 2, "busbw container push --help"),
    ],
)
def test_errors(
    tools: Path, words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert container(*words) == code
    told = capsys.readouterr()
    assert said in told.err
    assert "\nhint: " in told.err or told.err.startswith("hint: ")
    assert not tools.exists()


def test_without_any_tool(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert container("build", "cpu") == 4
    told = capsys.readouterr().err
    assert "none of buildah, podman, docker is here" in told
    assert "apt-get install buildah" in told
    assert container("build", "cpu", "--dry-run") == 0


def test_a_tool_that_fails(
    tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CODE", "125")
    assert container("build", "cpu") == 4
    told = capsys.readouterr()
    assert told.out == ""
    assert "error: buildah build failed: exit code 125" in told.err


def test_a_link_in_the_place_of_a_test_is_that_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of an old job file reach nccl-tests' front door, and no other name does."""
    from busbw import __main__ as entry

    given: list[list[str]] = []
    monkeypatch.setattr("busbw.cli.main.main", lambda words: given.append(words) or 0)
    for name in ("/opt/nccl-tests/build/all_reduce_perf", "busbw"):
        monkeypatch.setattr(sys, "argv", [name, "-b", "8"])
        assert entry.main() == 0
    assert given == [["nccl-tests", "all_reduce_perf", "-b", "8"], ["-b", "8"]]


def test_such_a_link_runs(tmp_path: Path) -> None:
    import subprocess

    program = Path(sys.executable).with_name("busbw")
    link = tmp_path / "sendrecv_perf"
    link.symlink_to(program)
    environ = {**os.environ, "BUSBW_HOME": str(tmp_path)}
    done = subprocess.run([link, "-h"], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("USAGE: sendrecv_perf")
