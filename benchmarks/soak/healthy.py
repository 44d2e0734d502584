"""A healthy machine is checked again and again: how many alarms are there? Its history begins empty."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", type=int, default=30)
    parser.add_argument("words", nargs="*", help="flags of busbw check, after --")
    asked = parser.parse_args()
    codes, seconds = Counter[int](), []
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "BUSBW_HOME": home}
        for number in range(asked.checks):
            began_s = time.monotonic()
            command = [sys.executable, "-m", "busbw", "check", *asked.words]
            done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
            seconds.append(time.monotonic() - began_s)
            codes[done.returncode] += 1
            load = os.getloadavg()[0]
            print(f"{number + 1:3} {seconds[-1]:5.1f} s, load {load:4.1f}: {done.stdout.strip()}", flush=True)
    print(f"{asked.checks} checks, exit codes {dict(codes)}, at most {max(seconds):.1f} s")


if __name__ == "__main__":
    main()
