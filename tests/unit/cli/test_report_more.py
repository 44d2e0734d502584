"""busbw report of hunts and series of setups, and every plot in letters, as a user starts it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from busbw_testing.compared import record_of
from busbw_testing.diagnosed import digests_of, sampled
from busbw_testing.environ import clean_environ
from busbw_testing.reported import run_folder
from busbw_testing.reported_more import pairs_folder, series
from busbw_testing.runs import start

from busbw.cli.main import main
from busbw.model.result import Status
from busbw.record.folder import DIGESTS_FILE, SAMPLES_FILE, create
from busbw.record.write import write_record

RUN = "20261122-100000-all_reduce-aaaa"
PAIRS = "20261122-130000-pairs-dddd"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def pairs(home: Path) -> Path:
    pairs_folder(home, PAIRS, slow={(3, 7): 2.0})
    return home


def marks(page: str, figure: str) -> list[str]:
    found = re.search(rf'<figure id="[^"]*{figure}">.*?</figure>', page, re.DOTALL)
    assert found is not None
    return re.findall(
        r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="rect mark"', found[0]
    )


def test_pairs_have_a_map_a_metric_with_its_matrix_beside_it(pairs: Path) -> None:
    assert main(["report", PAIRS, "-o", str(pairs / "p.html")]) == 0
    page = (pairs / "p.html").read_text()
    names = re.findall(r'<figure id="([^"]*)"', page)
    assert [name.removeprefix(f"{PAIRS}-pairs-of-ranks-") for name in names] == [
        "bandwidth",
        "both-ways",
        "latency",
    ]
    cells = marks(page, "bandwidth")
    assert len(cells) == 8 * 7  # every pair both ways, nobody with itself
    assert "from 3 to 7: 5.243 GB/s, -50% of the median" in cells
    assert cells.count("from 7 to 3: 10.49 GB/s, +0% of the median") == 1
    assert "worst 5.24 GB/s, from 3 to 7." in page
    assert '<th scope="row">3</th><td>10.5</td><td>10.5</td><td>10.5</td><td>n/a</td><td>10.5</td>' in page
    assert "<td>5.24</td></tr>" in page
    assert len(marks(page, "latency")) == 56
    assert 'class="verdict' not in page  # a matrix is not judged


def test_many_parts_fold_into_a_map_that_can_be_read(home: Path) -> None:
    pairs_folder(home, PAIRS, parts=120, slow={(3, 70): 2.0})
    assert main(["report", PAIRS, "-o", str(home / "p.html")]) == 0
    page = (home / "p.html").read_text()
    cells = marks(page, "bandwidth")
    assert len(cells) == 40 * 40
    assert "from 3 to 5 to 69 to 71: 5.243 GB/s, -50% of the median" in cells
    assert "A cell is the worst of 3 x 3 pairs." in page
    assert "worst 5.24 GB/s, from 3 to 70." in page


@pytest.mark.slow
def test_a_hunt_has_its_verdict_and_what_to_leave_out(home: Path) -> None:
    hunted = start(home, "isolate", "--backend", "null", "--world", "nccl", "--ranks", "6")
    assert hunted.returncode == 0, hunted.stderr
    assert main(["report", "last", "-o", str(home / "h.html")]) == 0
    page = (home / "h.html").read_text()
    assert re.search(
        r'class="verdict yes">\s*<span class="answer">all alike</span>\s*<h3>Is any of 6 ranks', page
    )
    assert "standard deviation of one test: bandwidth" in page
    assert "tested more than once shows its last test" in page
    rails = start(home, "rails", "--backend", "null", "--world", "nccl", "--ranks", "4")
    assert rails.returncode == 3, rails.stderr  # one host: nothing to compare it with
    assert main(["report", "last", "-o", str(home / "r.html")]) == 0
    page = (home / "r.html").read_text()
    assert "received from the rank left of it (the first from the last), all hosts at once" in page
    assert len(marks(page, "nodes")) == 4


def test_setups_have_a_map_of_verdicts(home: Path) -> None:
    name = series().folder.name
    assert main(["report", name, "-o", str(home / "s.html")]) == 0
    page = (home / "s.html").read_text()
    cells = marks(page, "-setups")
    assert len(cells) == 8  # two setups against the default, four sizes
    told = [" ".join(cell.split(" (")[0].split(": ")[1:]).split(",")[:2] for cell in cells[:4]]
    assert [words[0] for words in told] == ["SLOWER", "SAME", "FASTER", "FASTER"]
    assert told[3][1].startswith(" x1.4")
    assert [cell.split(": ")[1].split(",")[0] for cell in cells[4:]] == ["FAILED"] * 4
    assert "<td>x1.43 FASTER</td></tr>" in page
    assert '<span class="answer">1 SLOWER, 1 SAME, 2 FASTER' in page or "2 FASTER, 1 SLOWER, 1 SAME" in page
    assert "NCCL_ALGO=Ring" in page
    assert "rank 1 died" in page
    assert f'<figure id="{name}-all_reduce-float-sum-bandwidth"' in page


def test_setups_in_letters(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = series().folder.name
    capsys.readouterr()
    assert main(["report", name, "-o", "-", "--plot", "setups"]) == 0
    lines = capsys.readouterr().out.splitlines()
    large, broken = (
        next(line for line in lines if line.startswith(word)).split() for word in ("large", "broken")
    )
    assert large == ["large", "#", ".", "-", "<"]
    assert broken == ["broken", *"XXXX"]
    assert any(line.startswith("# SLOWER, > 10 %") for line in lines)


def test_a_pipe_gets_ascii_of_80_columns_with_every_plot(home: Path) -> None:
    run_folder(home, RUN, powers=range(10, 16))
    done = start(home, "report", "last", "-o", "-")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert done.stdout.isascii()
    assert max(map(len, lines)) <= 80
    assert lines.index("Were all links used?  NO") < lines.index("Bandwidth of all_reduce float sum")
    titles = ("Bandwidth of", "Time of", "Spread of", "Ranks of", "Links during", "Samples of")
    assert [sum(line.startswith(title) for line in lines) for title in titles] == [1, 1, 1, 1, 1, 4]
    assert any(re.match(r"5 node0 +#  ", line) for line in lines)  # the slow rank
    assert any(re.search(r"nic3 .*\| +0 GB/s, carried nothing$", line) for line in lines)
    assert main(["report", "last", "-o", str(home / "r.txt")]) == 0
    assert (home / "r.txt").read_text() == done.stdout


def test_every_plot_in_letters_has_its_table(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(home, RUN, powers=range(10, 16))
    assert main(["report", "-o", "-", "--plot", "bandwidth"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.index("o out-of-place") < lines.index(
        "series        size    busbw GB/s     95 % interval  algbw GB/s"
    )
    numbers = [line.split()[1:4] for line in lines if line.startswith("out-of-place ")]
    assert [words[0] for words in numbers] == ["1", "2", "4", "8", "16", "32"]
    assert all(float(words[2]) > 0 for words in numbers)
    assert main(["report", "-o", "-", "--plot", "ranks"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^5 node0( +\+\d+\.\d%){6}$", text, re.MULTILINE), text  # the slow rank


def test_rows_with_marks_have_their_meaning_below_the_table(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = record_of({1024: 10.0, 2048: 11.0, 4096: 12.0}, name=RUN)
    first, second, third = record.results
    wrong = replace(third, status=Status.WRONG, wrong=7, busbw_gb_per_s=None)
    record = replace(record, results=(first, replace(second, marks=("descheduled",)), wrong))
    write_record(create(home, RUN), record)
    assert main(["report", "last", "-o", str(home / "m.html")]) == 0
    page = (home / "m.html").read_text()
    meaning = (
        "<li>descheduled: a rank lost its core while it was timed: keep other programs off its host</li>"
    )
    assert page.count(meaning) == 2  # of bandwidth, and of time
    assert "<td>descheduled</td></tr>" in page
    assert "<td>n/a</td></tr>" in page  # the other row has none
    assert "<li>WRONG all_reduce sum float 4096 B out-of-place: 7 wrong elements</li>" in page
    assert main(["report", "last", "-o", str(home / "m.md")]) == 0
    assert "- descheduled: a rank lost its core" in (home / "m.md").read_text()
    capsys.readouterr()
    assert main(["report", "last", "-o", "-", "--plot", "time"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(re.match(r"out-of-place  2 KiB .* descheduled$", line) for line in lines)
    assert any(line.startswith("descheduled: a rank lost its core") for line in lines)


def ranks_map(home: Path, factors: list[float], hosts: int) -> str:
    """The page of a run whose ranks' medians are these times that of the others."""
    times = {1024: np.full(200, 10.0) + np.linspace(-1e-3, 1e-3, 200)}
    record, samples = sampled(times, ranks=len(factors), hosts=hosts, name=RUN)
    folder = create(home, RUN)
    write_record(folder, record)
    (folder / SAMPLES_FILE).write_bytes(samples.tobytes())
    (folder / DIGESTS_FILE).write_bytes(digests_of(record, factors).tobytes())
    assert main(["report", "last", "-o", str(home / "r.html")]) == 0
    return (home / "r.html").read_text()


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (12, "96 ranks in 12 rows: a row is a host, up to 8 ranks, and shows the furthest of them."),
        (96, "96 ranks in 48 rows: a row is up to 2 neighbouring ranks and shows the furthest of them."),
    ],
)
def test_rows_of_many_ranks_say_what_they_are(home: Path, hosts: int, said: str) -> None:
    assert said in ranks_map(home, [1.0] * 95 + [1.2], hosts)


def on_terminal(home: Path, words: list[str], **environ: str) -> str:
    """What a terminal of 80 columns is sent."""
    main_end, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "busbw", *words],
        env={**clean_environ(BUSBW_HOME=str(home)), "TERM": "xterm-256color", "COLUMNS": "80", **environ},
        stdout=other_end, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(other_end)
    said = b""
    while True:
        try:
            more = os.read(main_end, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        said += more
    os.close(main_end)
    assert process.wait() == 0
    return said.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_blocks_unless_it_lacks_them(pairs: Path) -> None:
    words = ["report", PAIRS, "-o", "-", "--plot", "bandwidth"]
    full = on_terminal(pairs, words, PYTHONIOENCODING="utf-8")
    assert "\x1b[" in full
    assert "\N{FULL BLOCK}" in full
    old = on_terminal(pairs, words, PYTHONIOENCODING="ascii", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", old)
    assert old.isascii()
    assert "#" in old
    bare = re.sub(r"\x1b\[[0-9;]*m", "", old)
    assert max(map(len, bare.splitlines())) <= 80


def test_letters_need_no_libraries_for_pictures(home: Path) -> None:
    run_folder(home, RUN, powers=range(10, 16))
    code = (
        "import sys\n"
        "for name in ('altair', 'vl_convert', 'jinja2'): sys.modules[name] = None\n"
        "from busbw.cli.main import main\n"
        "sys.exit(main(['report', 'last', '-o', '-', '--plot', 'bandwidth']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environ(BUSBW_HOME=str(home)), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "Bandwidth of all_reduce" in done.stdout
