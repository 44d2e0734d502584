"""A run home on a file system without locks: runs end well, and history reads their folders."""

from __future__ import annotations

from typing import Any

RUN = ("run", "all_reduce", "-b", "1K", "--backend", "null", "--world", "nccl", "--ranks", "2", "-n", "20")


def test_folders_are_read_where_there_are_no_locks(launcher: Any, no_locks: str) -> None:
    environ = {"LD_PRELOAD": no_locks}
    for _ in range(2):
        assert launcher.begin(*RUN, **environ).finish().code == 0
    run = launcher.begin("history", **environ)
    done = run.finish()
    assert (done.code, "2 launches" in done.out) == (0, True), done
    assert not (run.home / "index.sqlite").exists()  # no command waited for a lock
