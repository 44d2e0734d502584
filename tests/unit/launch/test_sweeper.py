from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from busbw.launch.sweeper import sweep

HOLDER = """
import sys, time
files = [open(path, "w") for path in sys.argv[1:]]
print("open", flush=True)
time.sleep(60)
"""


def test_files_that_the_launch_held_go_and_others_stay(tmp_path: Path) -> None:
    told, tell = os.pipe()
    thread = threading.Thread(target=sweep, args=(told, (str(tmp_path),)))
    thread.start()
    own, foreign, other = (tmp_path / name for name in ("mpich_shm_1_0", "mpich_shm_2_0", "notes"))
    words = [sys.executable, "-c", HOLDER, str(own), str(other)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        os.write(tell, f"{holder.pid}\n".encode())
        holder.stdout.readline()
        foreign.touch()  # a file comes into being: the sweeper looks
        os.write(tell, b"\n")
        threading.Event().wait(0.5)
        assert own.exists()
        os.close(tell)  # the front process is gone, the rank is not
        threading.Event().wait(0.2)
        assert own.exists()
        holder.kill()
    thread.join(10)
    os.close(told)
    assert not own.exists()
    assert foreign.exists()
    assert other.exists()
