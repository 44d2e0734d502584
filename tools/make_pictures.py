"""Take the pictures of the pages again: a terminal of 100 columns, the report in a browser, a map of pairs.

    python tools/make_pictures.py RUN      # as root; writes docs/pictures

RUN is the folder of a run whose table and report are shown. The pairs are measured between the six hosts of
``rerun_page.py``. It needs playwright and Chromium, as `make test-browser` does.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright
from rerun_page import COLUMNS, ENVIRON, ROOT, cluster, on_terminal
from rich.console import Console
from rich.text import Text

FOLDER: Final = ROOT / "docs/pictures"
REPORT_SIZE: Final = {"width": 1200, "height": 640}
HOSTS: Final = ("--on", "hosts", "--hosts", "h1,h2,h3,h4,h5,h6")


def main() -> None:
    run = Path(sys.argv[1]).absolute()
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rerun-") as folder:
        home = Path(folder) / "runs"
        terminal(home, run, FOLDER / "terminal.svg")
        on_terminal(home, COLUMNS, "report", str(run), "--output", f"{folder}/report.html")
        photograph(Path(folder) / "report.html", FOLDER / "report.png")
        with cluster(Path(folder)) as hosts:
            on_terminal(
                home, COLUMNS, "pairs", "-b", "1M", *HOSTS, through=hosts.command("h1", []), **ENVIRON
            )
        on_terminal(home, COLUMNS, "report", "last", "--output", f"{folder}/pairs.png", "--plot", "bandwidth")
        (drawn,) = Path(folder).glob("pairs*.png")
        shutil.copyfile(drawn, FOLDER / "pairs.png")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


def terminal(home: Path, run: Path, picture: Path) -> None:
    """What `busbw show` writes, with its colours."""
    shown = on_terminal(home, COLUMNS, "show", str(run)).replace(str(run.parent), "~/.local/state/busbw")
    console = Console(record=True, width=COLUMNS, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(Text.from_ansi(shown.replace("\r\n", "\n")))
    svg = console.export_svg(title="busbw show last")
    # rich's fonts are on a network.
    picture.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL))


def photograph(page: Path, picture: Path) -> None:
    """The top of a page, in a browser."""
    with sync_playwright() as api:
        browser = api.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        view = browser.new_page(viewport=REPORT_SIZE)
        view.goto(page.as_uri())
        view.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main()
