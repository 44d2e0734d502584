"""busbw report of hunts and series of setups, and every plot in letters, as a user starts it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from busbw_testing import terminal
from busbw_testing.compared import record_of
from busbw_testing.diagnosed import digests_of, sampled
from busbw_testing.environ import clean_environ
from busbw_testing.reported import run_folder
from busbw_testing.reported_more import pairs_folder, series
from busbw_testing.runs import start

from busbw.cli.main import main
from busbw.judge.compare_arms import LAUNCH_TIMES
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
    found = re.search(rf'<div class="plot" id="[^"]*{figure}">.*?</figure>', page, re.DOTALL)
    assert found is not None
    return re.findall(
        r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="rect mark"', found[0]
    )


def test_pairs_have_a_map_a_metric_with_their_numbers_in_it(pairs: Path) -> None:
    assert main(["report", PAIRS, "-o", str(pairs / "p.html")]) == 0
    page = (pairs / "p.html").read_text()
    assert "<h1>Pairs of ranks of node0: median 10.5 GB/s; worst 5.24 GB/s, from 3 to 7</h1>" in page
    names = re.findall(r'<div class="plot" id="([^"]*)"', page)
    assert names == ["bandwidth", "both-ways", "latency"]
    cells = marks(page, "bandwidth")
    assert len(cells) == 8 * 7  # every pair both ways, nobody with itself
    assert "from 3 to 7: 5.243 GB/s, -50% of the median" in cells
    assert cells.count("from 7 to 3: 10.49 GB/s, +0% of the median") == 1
    picture = re.search(r'id="bandwidth">.*?</svg>', page, re.DOTALL)
    assert picture is not None
    numbers = re.findall(r">([\d.]+)</text>", picture[0])
    assert (numbers.count("10.5"), numbers.count("5.24")) == (55, 1)
    assert ", the worst</text>" in picture[0]
    assert len(marks(page, "latency")) == 56
    assert '<dl class="checks"' not in page  # a matrix is not judged


def test_many_parts_fold_into_a_map_that_can_be_read(home: Path) -> None:
    pairs_folder(home, PAIRS, parts=120, slow={(3, 70): 2.0})
    assert main(["report", PAIRS, "-o", str(home / "p.html")]) == 0
    page = (home / "p.html").read_text()
    cells = marks(page, "bandwidth")
    assert len(cells) == 40 * 40
    assert "from 3..5 to 69..71: 5.243 GB/s, -50% of the median" in cells
    assert "A cell is the worst of 3 x 3 pairs." in page
    assert "worst 5.24 GB/s, from 3 to 70; " in page


@pytest.mark.slow
def test_a_hunt_has_its_verdict_and_what_to_leave_out(home: Path) -> None:
    hunted = start(home, "isolate", "--backend", "null", "--world", "nccl", "--ranks", "6")
    assert hunted.returncode == 0, hunted.stderr
    assert main(["report", "last", "-o", str(home / "h.html")]) == 0
    page = (home / "h.html").read_text()
    assert "<h1>6 ranks: HEALTHY: all 15 paths</h1>" in page
    assert "standard deviation of one test: bandwidth" in page
    assert "tested more than once shows its last test" in page
    rails = start(home, "rails", "--backend", "null", "--world", "nccl", "--ranks", "4")
    assert rails.returncode == 3, rails.stderr  # one host: nothing to compare it with
    assert main(["report", "last", "-o", str(home / "r.html")]) == 0
    page = (home / "r.html").read_text()
    assert "received from the rank left of it (the first from the last), all hosts at once" in page
    assert len(marks(page, "nodes")) == 4


def test_setups_begin_with_which_to_take(home: Path) -> None:
    name = series().folder.name
    assert main(["report", name, "-o", str(home / "s.html")]) == 0
    page = (home / "s.html").read_text()
    assert re.search(r"<h1>Take plain for .*; large for .* 4 KiB to 8 KiB \(x1\.03 to x1\.43\)</h1>", page)
    cells = marks(page, "compared")
    assert len(cells) == 8  # two setups against the default, four sizes
    verdicts = {cell.split(":")[0]: cell.split(": ")[1].split(",")[0] for cell in cells}
    assert [verdicts[f"large, {size} KiB"] for size in (1, 2, 4, 8)] == ["SLOWER", "SAME", "FASTER", "FASTER"]
    assert [verdicts[f"broken, {size} KiB"] for size in (1, 2, 4, 8)] == ["FAILED"] * 4
    assert ">x1.43</text>" in page
    assert "NCCL_ALGO=Ring" in page
    assert "rank 1 died" in page
    assert '<div class="plot" id="bandwidth"' in page


def test_setups_in_letters(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = series().folder.name
    capsys.readouterr()
    assert main(["report", name, "-o", "-", "--plot", "compared"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split()[2:] for line in lines if re.match(r"\d KiB x", line)]
    assert [words[1::2] for words in rows] == [["#", "X"], [".", "X"], ["<", "X"], ["<", "X"]]
    assert rows[-1] == ["x1.43", "<", "FAILED", "X"]
    assert any(line.startswith("# SLOWER") for line in lines)


def test_a_pipe_gets_ascii_with_every_plot(home: Path) -> None:
    run_folder(home, RUN, powers=range(10, 16))
    done = start(home, "report", "last", "-o", "-")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert done.stdout.isascii()
    assert max(len(line) for line in lines if not line.startswith("#")) <= 80
    assert lines[0].startswith(f"# {RUN}: 4.630 GB/s at 32 KiB")
    titles = [line for line in lines if line.startswith("### ")]
    assert titles[0] == "### Bandwidth of all_reduce float sum and Time of all_reduce float sum"
    assert [title.split()[1] for title in titles[1:]] == ["Ranks", "Spread", "Links", "Samples"]
    links = next(at for at, line in enumerate(lines) if line.startswith("- **Were all links used?** no: "))
    assert lines.index(titles[0]) < links < lines.index(titles[1])
    assert any(re.match(r"32 KiB [. ]*#[. ]*$", line) for line in lines)  # the slow rank
    assert any(re.search(r"^\| node1 \| nic3 port 1 \|  efa \| +0 \| +0\.0% ", line) for line in lines)
    assert main(["report", "last", "-o", str(home / "r.txt")]) == 0
    assert (home / "r.txt").read_text() == done.stdout


def test_every_plot_in_letters_has_its_table(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(home, RUN, powers=range(10, 16))
    assert main(["report", "-o", "-", "--plot", "bandwidth"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.index("o out-of-place") < lines.index(
        "| size   | out-of-place GB/s | out-of-place time |   algorithm |"
    )
    numbers = [line.replace("|", "").split() for line in lines if re.match(r"\| \d+ KiB", line)]
    assert [words[0] for words in numbers] == ["1", "2", "4", "8", "16", "32"]
    assert all(float(words[2]) > 0 and words[3].startswith("+-") for words in numbers)
    assert main(["report", "-o", str(home / "ranks.md"), "--plot", "ranks"]) == 0
    text = (home / "ranks.md").read_text()
    assert re.search(r"^\| 32 KiB .*\+\d\d\.\d%", text, re.MULTILINE), text  # the slow rank


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
    assert page.count(meaning) == 1
    assert '<td class="marks">descheduled</td></tr>' in page
    assert '<td class="bad">WRONG</td>' in page
    assert "<li>WRONG at 4 KiB out-of-place: 7 wrong elements</li>" in page
    assert "<h1>1 of 3 cases gave wrong data: do not use them</h1>" in page  # before any number
    assert main(["report", "last", "-o", str(home / "m.md")]) == 0
    assert "- descheduled: a rank lost its core" in (home / "m.md").read_text()
    capsys.readouterr()
    assert main(["report", "last", "-o", "-", "--plot", "time"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(re.match(r"\| 2 KiB .* descheduled \|$", line) for line in lines)
    assert any(line.startswith("- descheduled: a rank lost its core") for line in lines)


def test_a_run_of_several_launches_shows_them(home: Path) -> None:
    record = record_of({1024: 10.0, 2048: 11.0, 4096: 12.0}, name=RUN)
    launched = [(0.95, 1.0, 1.3), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)]
    results = (
        replace(result, evidence={LAUNCH_TIMES: [(result.time_ns or 0.0) * factor for factor in factors]})
        for result, factors in zip(record.results, launched, strict=True)
    )
    write_record(create(home, RUN), replace(record, results=tuple(results)))
    assert main(["report", "last", "-o", str(home / "l.html")]) == 0
    cells = marks((home / "l.html").read_text(), "launches")
    assert len(cells) == 9
    assert "launch 3, 1 KiB: +30.0% of the median launch; noise 1.0%" in cells


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
        (12, "12 columns: a column is a host, up to 8 ranks, and shows the furthest of them."),
        (96, "48 columns: a column is up to 2 neighbouring ranks and shows the furthest of them."),
    ],
)
def test_columns_of_many_ranks_say_what_they_are(home: Path, hosts: int, said: str) -> None:
    assert f"96 ranks in {said}" in ranks_map(home, [1.0] * 95 + [1.2], hosts)


def test_a_terminal_gets_what_fits_it(pairs: Path) -> None:
    text = terminal.on_terminal(pairs, 80, "report", PAIRS, "-o", "-", "--plot", "bandwidth")
    shown = terminal.lines(text)
    assert any(re.match(r"3 ( *10\.5 #)+ +5\.24 \.$", line) for line in shown), shown
    assert max(map(len, shown)) <= 80


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
