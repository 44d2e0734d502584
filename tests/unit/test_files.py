from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from busbw_testing.runs import NULL, start

from busbw.errors import UsageError
from busbw.files import store, store_private, write_output


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out"
    store(path, b"one")
    path.chmod(0o640)
    before = path.stat().st_ino
    store(path, b"two")
    assert (path.read_bytes(), mode(path)) == (b"two", 0o640)
    assert path.stat().st_ino != before
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        store(tmp_path / "out", b"x")
    finally:
        os.umask(before)
    assert mode(tmp_path / "out") == 0o640


@pytest.mark.parametrize("name", ["", "/"])
def test_a_folder_is_no_file(name: str) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        write_output(Path(name), b"x")


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    (tmp_path / "soft").symlink_to("there")
    (tmp_path / "loose").symlink_to("new")
    for name, target in (("soft", "there"), ("loose", "new")):
        store(tmp_path / name, b"x")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_bytes() == b"x"
    os.link(tmp_path / "there", tmp_path / "hard")
    store(tmp_path / "hard", b"y")
    assert (tmp_path / "there").read_bytes() == b"y"


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    store(pipe, b"x" * 100_000)
    reader.join()
    assert read == [b"x" * 100_000]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_device_stays_one(tmp_path: Path) -> None:
    store(Path(os.devnull), b"x")
    with pytest.raises(OSError, match="No space left"):
        store(Path("/dev/full"), b"x")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_where_a_file_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        store(tmp_path, b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_private_file_is_private_whatever_it_was(tmp_path: Path) -> None:
    path = tmp_path / "job"
    store_private(path, "a")
    assert mode(path) == 0o600
    path.chmod(0o644)
    store_private(path, "b")
    assert (path.read_text(), mode(path)) == ("b", 0o600)


def test_commands_write_through_what_the_user_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert start(home, "run", "all_reduce", "-b", "8", "-e", "16", *NULL).returncode == 0
    target = tmp_path / "target"
    target.write_text("")
    target.chmod(0o600)
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    words = ("export", "last", "--format", "csv", "-o")
    assert start(home, *words, str(link)).returncode == 0
    assert link.is_symlink()
    assert (target.stat().st_size > 0, mode(target)) == (True, 0o600)
    full = start(home, *words, "/dev/full")
    assert full.returncode == 2
    assert "cannot write /dev/full" in full.stderr
