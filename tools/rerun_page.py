"""Run the commands of a page again, and put in what they print now.

    python tools/rerun_page.py docs/guides/first-day.md      # as root

A block whose first line is `$ busbw ...` shows a command and what it leaves on a terminal of 100 columns. The
commands run in their order on the first of six hosts: network namespaces of this machine, whose links carry
800 Mbit/s, that of h4 half of it.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from busbw_testing.namespaces import Hosts, seen_of_tmp  # noqa: E402
from busbw_testing.shaping import send_at  # noqa: E402
from busbw_testing.terminal import on_terminal, screen  # noqa: E402

COLUMNS: Final = 100
MBIT: Final = 800.0
ENVIRON: Final = {"BUSBW_RANK_WAIT": "sleep"}  # all hosts share this machine's cores
SLOW: Final = {"h4": 0.5}
_BLOCK: Final = re.compile(r"^```\n\$ busbw ([^\n]*)\n.*?^```\n", re.MULTILINE | re.DOTALL)


def main() -> None:
    page = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="rerun-") as folder, cluster(Path(folder)) as hosts:
        page.write_text(_BLOCK.sub(lambda block: rerun(block[1], hosts, Path(folder)), page.read_text()))


@contextmanager
def cluster(folder: Path) -> Iterator[Hosts]:
    """Six hosts, one of them with a slow link."""
    with Hosts(folder, 6, private=["/tmp"], shared=[folder, *seen_of_tmp()]) as hosts:
        for name in hosts.names:
            send_at(hosts, name, MBIT * SLOW.get(name, 1))
        yield hosts


def rerun(words: str, hosts: Hosts, folder: Path) -> str:
    """The block of a command, with what it prints."""
    home = folder / "runs"
    first = hosts.command("h1", [], cwd=folder)
    lines = screen(on_terminal(home, COLUMNS, *shlex.split(words), through=first, **ENVIRON))
    text = "\n".join(line.rstrip() for line in lines).rstrip()
    for place, name in ((home, "~/.local/state/busbw"), (sys.prefix, "~/.venv"), (ROOT, "~/busbw")):
        text = text.replace(str(place), name)
    print(f"busbw {words}: {len(lines)} lines")
    return f"```\n$ busbw {words}\n{text}\n```\n"


if __name__ == "__main__":
    main()
