"""What a report of many ranks costs: time to build it, its size, and time until a browser shows it.

    large.py [--ranks 1440,2160] [--cases 31] [--rounds 3] [--browser]

Each run has so many ranks on hosts of eight, sizes by factors of two, 200 samples a case and a burst over
four NICs a host. Building is the whole command, in a process of its own. With --browser (playwright and
Chromium: `make test-browser` installs them): from the call for the page until it is drawn, in a new context
each time.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from busbw_testing.reported import run_folder  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", default="1440,2160")
    parser.add_argument("--cases", type=int, default=31)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--browser", action="store_true")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {given.rounds} rounds, medians")
    print("| ranks | cases | built in s | s of CPU | MB | shown in s |")
    print("|---|---|---|---|---|---|")
    for ranks in map(int, given.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            run_folder(home, "20261122-100000-all_reduce-aaaa", ranks=ranks, hosts=max(2, ranks // 8),
                       powers=range(3, 3 + given.cases))  # fmt: skip
            built = [build(home) for _ in range(given.rounds)]
            shown = f"{show(home / 'report.html', given.rounds):.2f}" if given.browser else "n/a"
            megabytes = (home / "report.html").stat().st_size / 1e6
            wall, cpu = (median(part) for part in zip(*built, strict=True))
            print(f"| {ranks} | {given.cases} | {wall:.1f} | {cpu:.1f} | {megabytes:.2f} | {shown} |")


def build(home: Path) -> tuple[float, float]:
    """Seconds of the clock and of the CPU."""
    before, started = _cpu(), time.monotonic()
    command = [sys.executable, "-m", "busbw", "report", "last", "-o", str(home / "report.html")]
    subprocess.run(command, env={**os.environ, "BUSBW_HOME": str(home)}, check=True, capture_output=True)
    return time.monotonic() - started, _cpu() - before


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(page: Path, rounds: int) -> float:
    """Median seconds until the page has loaded."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (only --browser needs it)

    with sync_playwright() as api:
        browser = api.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        took = []
        for _ in range(rounds):
            context = browser.new_context()
            tab = context.new_page()
            started = time.monotonic()
            tab.goto(page.as_uri(), wait_until="load")
            tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            took.append(time.monotonic() - started)
            context.close()
        browser.close()
    return median(took)


if __name__ == "__main__":
    main()
