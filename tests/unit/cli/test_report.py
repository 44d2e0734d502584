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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    run_folder(tmp_path, RUN, powers=range(10, 16))
    return tmp_path


def report(*words: str) -> int:
    """In this process: the libraries that draw take seconds to start."""
    return main(["report", *words])


def test_a_page_begins_with_its_answer(home: Path) -> None:
    done = start(home, "report", "last", "--output", str(home / "report.html"))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    page = (home / "report.html").read_text()
    # The headline, what is wrong, the curves, their numbers, then the evidence.
    parts = (
        "<h1>4.630 GB/s at 32 KiB out-of-place, 16 ranks, 16 x Xeon on 2 hosts</h1>",
        "no saved reference matches this operation, job size and device</p>",
        '<ul class="problems"><li>3 of 4 efa links carried traffic on 1 of 2 hosts',
        'id="bandwidth"',
        'id="time"',
        '<th scope="row">1 KiB</th>',
        "Were all links used?",
        "Not observed: no reference",
        'id="ranks"',
    )
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    names = re.findall(r'<div class="plot" id="([^"]*)"', page)
    assert names == ["bandwidth", "time", "ranks", "spread", "links", "histogram-8KiB-out-of-place"]
    assert page.count("<svg") == len(names) + 1  # bandwidth on two scales
    assert not re.search(r"\de[+-]\d\d", re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))
    # Nothing is loaded from anywhere.
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page.replace("xlink:href", "href"))
    assert "default-src 'none'" in page


def test_several_runs_begin_with_the_answer_of_compare(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_folder(home, OTHER, seed=3, powers=range(10, 16))
    run_folder(home, "20261122-120000-all_reduce-cccc", ranks=32, hosts=4, seed=4, powers=range(10, 16))
    assert main(["compare", f"before={RUN}", OTHER]) == 0
    (said,) = re.findall(r"^  1 KiB - 32 KiB +(.*)$", capsys.readouterr().out, re.MULTILINE)
    report(f"before={RUN}", OTHER, "last", "-o", str(home / "both.html"))
    page = (home / "both.html").read_text()
    bound = said.removeprefix("cannot tell below ").partition(";")[0]
    assert f"<h1>No difference seen; one below {bound} would not show</h1>" in page
    assert "20261122-120000 (32 ranks): a run is compared with the first of as many ranks" in page
    names = re.findall(r'<div class="plot" id="([^"]*)"', page)
    assert names[:4] == ["bandwidth", "time", "scaling", "compared"]
    assert len(names) == len(set(names))
    assert (
        '<p class="name">20261122-110000-all_reduce-bbbb</p>' in page
    )  # tables and legends have its beginning
    assert re.search(r'aria-label="20261122-110000, 16 KiB: (SAME|AMBIGUOUS), x(1\.0|0\.9)\d+ \(', page)
    assert "before, 16 KiB" in page


def test_pictures_have_names_that_a_person_would_give(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("-o", str(home / "all.svg")) == 0
    pictures = sorted(home.glob("all-*.svg"))
    assert [path.name for path in pictures] == [
        "all-bandwidth.svg", "all-histogram-8KiB-out-of-place.svg", "all-links.svg", "all-ranks.svg",
        "all-spread.svg", "all-time.svg",
    ]  # fmt: skip
    for picture in pictures:
        text = picture.read_text()
        assert ET.fromstring(text).tag.endswith("svg")
        assert "var(--" not in text  # its colours are inside
        assert re.search(r">(Bandwidth|Time|Spread|Ranks|Links|Samples) (of|during)", text)  # so is its title
    assert report("-o", str(home / "one.png"), "--plot", "bandwidth") == 0
    assert (home / "one.png").read_bytes().startswith(b"\x89PNG")
    assert report("-o", str(home / "one.png"), "--plot", "s") == 2
    assert "fits 4 plots" in capsys.readouterr().err


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
        (("-o", "report.html", "--plot", "time"), "--plot needs pictures or text"),
        (("-o", "nowhere/report.md"), "cannot write"),
    ],
)
def test_refusals(home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], error: str) -> None:
    assert report(*words) == 2
    assert error in capsys.readouterr().err
