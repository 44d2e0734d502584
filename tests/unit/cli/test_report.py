"""busbw report as a user starts it: a page that needs nothing, text, pictures, and what is refused."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from busbw_testing.compared import nccl_tests_log, write
from busbw_testing.reported import run_folder
from busbw_testing.runs import start

from busbw.cli.main import main

RUN = "20261122-100000-all_reduce-aaaa"
OTHER = "20261122-110000-all_reduce-bbbb"
FIGURES = ("bandwidth", "time", "spread", "ranks", "links", "histogram")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    run_folder(tmp_path, RUN, powers=range(10, 16))
    return tmp_path


def report(*words: str) -> int:
    """In this process: the libraries that draw take seconds to start."""
    return main(["report", *words])


def test_a_page_has_verdicts_first_and_a_table_beside_every_plot(home: Path) -> None:
    done = start(home, "report", "last", "--output", str(home / "report.html"))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    page = (home / "report.html").read_text()
    assert page.index("Were all links used?") < page.index("<figure")
    assert "3 of 4 efa links carried traffic on 1 of 2 hosts" in page
    names = re.findall(r'<figure id="([^"]*)"', page)
    assert len(names) == len(set(names))
    assert all(any(name.endswith(word) for name in names) for word in FIGURES), names
    assert page.count("<figure") == page.count("<svg") == page.count("<table>")
    # Nothing is loaded from anywhere.
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page.replace("xlink:href", "href"))
    assert "default-src 'none'" in page


def test_text_has_the_same_verdicts_and_numbers(home: Path) -> None:
    assert report("last", "-o", str(home / "report.md")) == 0
    text = (home / "report.md").read_text()
    assert "| Is every rank the same? | no | " in text
    assert "**warning**: rank 5 (node0)" in text
    assert text.count("### ") == 5 + 4  # one operation: four plots, the links, four histograms
    assert all(line.count("|") > 2 for line in text.splitlines() if line.startswith("|"))


def test_several_runs_share_their_curves(home: Path) -> None:
    run_folder(home, OTHER, seed=3, powers=range(10, 16))
    run_folder(home, "20261122-120000-all_reduce-cccc", ranks=32, hosts=4, seed=4, powers=range(10, 16))
    report(f"before={RUN}", OTHER, "last", "-o", str(home / "both.html"))
    page = (home / "both.html").read_text()
    for name in ("all_reduce-float-sum-compared", "all_reduce-float-sum-scaling"):
        assert f'<figure id="{name}"' in page
    cell = r'aria-label="20261122-110000, 16 KiB: (1\.0|0\.9)\d+ of the time of before, (SAME|AMBIGUOUS)'
    assert re.search(cell, page)
    assert "20261122-120000, 16 KiB: 1.0" not in page  # twice the ranks: another thing
    assert "before, 16 KiB" in page


def test_pictures_one_a_plot_or_the_one_that_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("-o", str(home / "all.svg")) == 0
    pictures = sorted(home.glob("all-*.svg"))
    assert len(pictures) == 9
    for picture in pictures:
        text = picture.read_text()
        assert ET.fromstring(text).tag.endswith("svg")
        assert "var(--" not in text  # its colours are inside
        assert re.search(r">(Bandwidth|Time|Spread|Ranks|Links|Samples) (of|during)", text)  # so is its title
    assert report("-o", str(home / "one.png"), "--plot", "bandwidth") == 0
    assert (home / "one.png").read_bytes().startswith(b"\x89PNG")
    assert report("-o", str(home / "one.png"), "--plot", "histogram") == 2
    assert "fits 4 plots" in capsys.readouterr().err


def test_a_log_has_its_curves_and_what_cannot_be_told(home: Path) -> None:
    log = write(home / "a.log", nccl_tests_log({2**power: 10.0 for power in range(10, 15)}, 8))
    assert report(str(log), "-o", str(home / "log.html")) == 0
    page = (home / "log.html").read_text()
    assert page.count("<figure") == 2
    assert "not-observable" in page


def test_hostile_names_stay_text(home: Path) -> None:
    log = nccl_tests_log({1024: 10.0, 2048: 11.0}, 4).replace("node0", "<script>x</script>")
    path = write(home / "<img src=x onerror=y>.log", log)
    report(str(path), "-o", str(home / "hostile.html"))
    page = (home / "hostile.html").read_text()
    assert "<img" not in page
    assert page.count("<script") == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("-o", "report.pdf"), "unknown format .pdf"),
        (("-o", "report.md", "--plot", "time"), "--plot needs a picture"),
        (("-o", "nowhere/report.md"), "cannot write"),
    ],
)
def test_refusals(home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], error: str) -> None:
    assert report(*words) == 2
    assert error in capsys.readouterr().err
