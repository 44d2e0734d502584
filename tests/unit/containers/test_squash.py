from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from busbw.containers.squash import (
    enroot_uri,
    file_name,
    file_system,
    import_step,
    is_shared,
    squash,
    temporary,
)
from busbw.errors import SiteError, UsageError

IMAGE = "ghcr.io/me/busbw:1"
# In enroot's place: it counts its calls, takes its time, and writes a file that begins as a squash file does.
ENROOT = """#!/bin/sh
while [ "$1" != --output ]; do shift; done
echo call >>"$COUNT"
printf hsqs >"$2"; sleep "${TAKES:-0}"; echo "$3" >>"$2"
exit "${CODE:-0}"
"""
START = """
import sys; from pathlib import Path
from busbw.containers.squash import import_step, squash, temporary
file = Path(sys.argv[1])
step = import_step("docker://x:1", temporary(file), "amd64", "amd64")
print(squash(step, file, sys.stderr, force=len(sys.argv) > 2))
"""


@pytest.fixture
def enroot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to squash into."""
    program = tmp_path / "bin" / "enroot"
    program.parent.mkdir()
    program.write_text(ENROOT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def imported(folder: Path, *, force: bool = False) -> bool:
    file = folder / "image.sqsh"
    return squash(
        import_step("docker://x:1", temporary(file), "amd64", "amd64"), file, io.StringIO(), force=force
    )


def calls(folder: Path) -> int:
    return len((folder.parent / "count").read_text().splitlines())


def test_it_is_imported_once(enroot: Path) -> None:
    assert imported(enroot) is True
    assert imported(enroot) is False
    assert calls(enroot) == 1
    assert imported(enroot, force=True) is True
    assert calls(enroot) == 2
    assert [path.name for path in enroot.iterdir()] == ["image.sqsh"]
    assert (enroot / "image.sqsh").read_text() == "hsqsdocker://x:1\n"


@pytest.mark.parametrize("count", [2, 6])
def test_of_several_processes_at_once_one_imports(
    enroot: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """And nobody ever sees a file that is not whole."""
    monkeypatch.setenv("TAKES", "0.5")
    file = enroot / "image.sqsh"
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.005):
            if file.exists():
                seen.add(file.read_text())

    reader = threading.Thread(target=look)
    reader.start()
    words = [sys.executable, "-c", START, str(file)]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    told = sorted(process.communicate(timeout=60)[0].strip() for process in started)
    time.sleep(0.02)
    done.set()
    reader.join()
    assert told == ["False"] * (count - 1) + ["True"]
    assert calls(enroot) == 1
    assert seen == {"hsqsdocker://x:1\n"}
    assert [path.name for path in enroot.iterdir()] == ["image.sqsh"]


def test_an_importer_that_is_killed_leaves_the_way_free(
    enroot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKES", "3")
    words = [sys.executable, "-c", START, str(enroot / "image.sqsh")]
    process = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (enroot.parent / "count").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, 9)
    process.wait()
    monkeypatch.setenv("TAKES", "0")
    assert not (enroot / "image.sqsh").exists()
    assert imported(enroot) is True


def test_a_failed_import_leaves_nothing(enroot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "1")
    with pytest.raises(SiteError, match="enroot import failed"):
        imported(enroot)
    assert list(enroot.iterdir()) == []
    monkeypatch.setenv("CODE", "0")
    assert imported(enroot) is True


def test_what_is_no_squash_file_is_not_kept(enroot: Path) -> None:
    (enroot.parent / "bin/enroot").write_text('#!/bin/sh\necho text >"$3"\n')
    with pytest.raises(SiteError, match="no squash file"):
        imported(enroot)
    assert not (enroot / "image.sqsh").exists()


def test_folders_that_will_not_do(enroot: Path) -> None:
    with pytest.raises(SiteError, match="no folder"):
        imported(enroot / "none")


@pytest.mark.parametrize(
    ("reference", "uri"),
    [
        (IMAGE, "docker://ghcr.io#me/busbw:1"),
        (f"docker://{IMAGE}", "docker://ghcr.io#me/busbw:1"),
        ("localhost:5000/busbw:1", "docker://localhost:5000#busbw:1"),
        ("nvidia/cuda:13.0.2-base", "docker://nvidia/cuda:13.0.2-base"),
        ("debian:12", "docker://debian:12"),
        ("docker://nvcr.io#nvidia/pytorch:25.01-py3", "docker://nvcr.io#nvidia/pytorch:25.01-py3"),
        ("docker://localhost:5000#busbw:1", "docker://localhost:5000#busbw:1"),
        ("ghcr.io/me/busbw@sha256:ab", "docker://ghcr.io#me/busbw@sha256:ab"),
    ],
)
def test_references_as_enroot_takes_them(reference: str, uri: str) -> None:
    assert enroot_uri(reference) == uri


@pytest.mark.parametrize(
    "reference",
    ["debian/x", "ghcr.io/me/busbw", "nvcr.io#nvidia/pytorch", "localhost:5000/busbw", "debian:latest"],
)
def test_no_version_no_file(reference: str) -> None:
    with pytest.raises(UsageError, match="has no version"):
        enroot_uri(reference)


def test_files_are_named_by_version() -> None:
    assert file_name(IMAGE) == "ghcr.io+me+busbw+1.sqsh"
    assert file_name("localhost/busbw:cpu-1-amd64") == "busbw+cpu-1-amd64.sqsh"


def test_another_processor_is_asked_for() -> None:
    assert "--arch" not in import_step("u", Path("f"), "amd64", "amd64").words
    assert import_step("u", Path("f"), "arm64", "amd64").words[2:4] == ("--arch", "arm64")


def test_which_file_system_a_folder_is_on() -> None:
    mounts = "/dev/vda / ext4 rw 0 0\nfs1:/x /fsx lustre rw 0 0\nsrv:/y /my\\040home nfs4 rw 0 0\n"
    assert file_system(Path("/fsx/images"), mounts) == "lustre"
    assert file_system(Path("/my home/a"), mounts) == "nfs4"
    assert file_system(Path("/fsxx"), mounts) == "ext4"
    assert [is_shared(kind) for kind in ("lustre", "nfs4", "fuse.juicefs", "ext4", "overlay", "")] == [
        *(True, True, True),
        *(False, False, False),
    ]
