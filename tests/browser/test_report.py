"""The report in a real browser: no word, no request; pointer, keyboard, dark, small and print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

Open = Callable[..., Any]
MARKS = (
    '[role="graphics-symbol"][aria-label]:not([aria-roledescription="axis"], [aria-roledescription="legend"])'
)
TAB_STOPS = "[...document.querySelectorAll('.picture, .numbers')]"
# Of text against what is behind it, by WCAG 2 (AA).
LEAST_CONTRAST = 4.5
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (colour) => {
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (parts) => parts.slice(0, 3)
    .map((value) => value / 255)
    .map((value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
    return "white";
  };
  return [...document.querySelectorAll("h1,h2,h3,p,li,small,b,td,th,dt,dd,.answer,svg text,footer")]
    .filter((node) => node.textContent.trim() && node.getBoundingClientRect().width)
    .map((node) => {
      const style = getComputedStyle(node);
      const ink = node.closest("svg") ? style.fill : style.color;
      const [a, b] = [luminance(rgb(ink)), luminance(rgb(behind(node)))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      return [ratio, node.textContent.slice(0, 30)];
    }).sort((a, b) => a[0] - b[0])[0];
}"""


@pytest.fixture
def open_page(browser: Any) -> Open:
    """A page at a width and scheme, with everything that it said or asked for in ``said``."""
    contexts = []

    def open_(path: Path, width: int = 1280, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.said.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_load_state()
        return page

    yield open_
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_renders_without_a_word_or_a_request(
    open_page: Open, report: Path, width: int, scheme: str
) -> None:
    page = open_page(report, width, scheme)
    assert page.said == [report.as_uri()]
    figures = page.locator("figure")
    assert figures.count() >= 15
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out sideways
    sizes = page.evaluate(
        "[...document.querySelectorAll('figure svg')].map(each => each.getBoundingClientRect().toJSON())"
    )
    assert all(250 < size["width"] < width and size["height"] > 60 for size in sizes)
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= LEAST_CONTRAST, (ratio, text)


def test_dark_is_dark_in_the_pictures_too(open_page: Open, report: Path) -> None:
    line = "getComputedStyle(document.querySelector('figure svg [aria-roledescription=point]')).fill"
    light, dark = (open_page(report, scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(line) != dark.evaluate(line)
    background = "getComputedStyle(document.body).backgroundColor"
    assert light.evaluate(background) == "rgb(244, 246, 248)"
    assert dark.evaluate(background) == "rgb(14, 19, 26)"


def test_a_pointer_gets_the_words_of_a_mark(open_page: Open, report: Path) -> None:
    page = open_page(report)
    mark = page.locator(f'figure[id^="20261122-100000"][id$="bandwidth"] {MARKS}').nth(5)
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = page.locator("#tip")
    assert tip.inner_text() == mark.get_attribute("aria-label")
    assert "KiB" in tip.inner_text()
    assert "GB/s" in tip.inner_text()
    page.mouse.move(2, 2)
    assert tip.inner_text() == ""


def test_the_keyboard_reaches_every_picture_and_mark(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = set()
    for _ in range(4 * page.locator("figure").count() + 5):
        page.keyboard.press("Tab")
        seen.add(page.evaluate(f"{TAB_STOPS}.indexOf(document.activeElement)"))
    pictures = page.locator(".picture")
    assert seen - {-1} == set(range(page.evaluate(f"{TAB_STOPS}.length")))
    picture = pictures.first
    picture.focus()
    labels = picture.locator(MARKS)
    tip = page.locator("#tip")
    for key, at in (("ArrowRight", 0), ("ArrowRight", 1), ("End", labels.count() - 1), ("ArrowRight", 0)):
        page.keyboard.press(key)
        assert tip.inner_text() == labels.nth(at).get_attribute("aria-label")
    assert tip.get_attribute("aria-live") == "polite"  # a screen reader says it
    page.keyboard.press("Escape")
    assert tip.inner_text() == ""


def test_the_table_says_what_the_picture_shows(open_page: Open, report: Path) -> None:
    page = open_page(report)
    for at in range(page.locator("figure").count()):
        figure = page.locator("figure").nth(at)
        assert figure.locator(MARKS).count() > 0
        assert figure.locator("tbody tr").count() > 0
        assert figure.locator('th[scope="col"]').count() > 1
    links = page.locator('figure[id$="links"]').first
    assert links.locator("tbody tr").count() == links.locator(MARKS).count() == 8
    assert "nic3 port 1: 0 GB/s" in links.locator(MARKS).last.get_attribute("aria-label")


def test_it_prints_on_white_with_every_row(open_page: Open, report: Path) -> None:
    page = open_page(report, scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 36, 48)"
    cut = (
        "[...document.querySelectorAll('.numbers')].filter(each => each.scrollHeight > each.clientHeight + 1)"
    )
    assert page.evaluate(f"{cut}.length") == 0
    assert len(page.pdf()) > 10_000


def test_a_run_of_2160_ranks_stays_small_and_opens(open_page: Open, large_report: Path) -> None:
    assert large_report.stat().st_size < 10e6
    page = open_page(large_report)
    assert page.said == [large_report.as_uri()]
    heat = page.locator('figure[id$="ranks"]')
    assert heat.locator("tbody tr").count() <= 48
    assert "+20.0%" in heat.inner_text()  # the one slow rank is still there


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_maps_of_pairs_and_setups_are_readable(
    open_page: Open, maps_report: Path, width: int, scheme: str
) -> None:
    page = open_page(maps_report, width, scheme)
    assert page.said == [maps_report.as_uri()]
    figures = page.locator("figure")
    assert figures.count() == 5  # three metrics of the pairs; verdicts and curves of the setups
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST)[0] >= LEAST_CONTRAST
    # No word of a picture sticks out of it, or lies on another one.
    outside, overlapping = page.evaluate(WORDS_OF_PICTURES)
    assert outside == []
    assert overlapping == []


# Of every picture: words that its frame cuts, and neighbouring words of an axis or a legend that overlap.
WORDS_OF_PICTURES = """() => {
  const outside = [], overlapping = [];
  for (const svg of document.querySelectorAll("figure svg")) {
    const frame = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim()
      && each.getAttribute("opacity") !== "0" && each.getAttribute("transform").indexOf("rotate") < 0);
    const boxes = words.map((each) => each.getBoundingClientRect());
    boxes.forEach((box, at) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1) outside.push(words[at].textContent);
      for (let other = at + 1; other < boxes.length; other++) {
        const next = boxes[other];
        const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left);
        const high = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
        if (wide > 1 && high > 4) overlapping.push([words[at].textContent, words[other].textContent]);
      }
    });
  }
  return [outside, overlapping];
}"""


def test_no_word_of_a_picture_is_cut_or_covered(open_page: Open, report: Path) -> None:
    for width in (1280, 390):
        assert open_page(report, width).evaluate(WORDS_OF_PICTURES) == [[], []]


def test_a_slow_pair_stands_out_in_both_schemes(open_page: Open, maps_report: Path) -> None:
    """Its colour is its own, and far from that of an empty place."""
    for scheme in ("light", "dark"):
        page = open_page(maps_report, scheme=scheme)
        cells = page.locator('figure[id$="ranks-bandwidth"]').locator(MARKS)
        assert cells.count() == 12 * 11
        fills = cells.evaluate_all(
            "each => each.map(cell => [cell.getAttribute('aria-label'), getComputedStyle(cell).fill])"
        )
        (slow,) = (fill for label, fill in fills if label.startswith("from 3 to 7:"))
        assert [fill for _, fill in fills].count(slow) == 1
        paper = "getComputedStyle(document.querySelector('figure')).backgroundColor"
        assert slow != page.evaluate(paper)


def test_arrows_go_up_and_down_in_a_column_of_a_map(open_page: Open, maps_report: Path) -> None:
    page = open_page(maps_report)
    picture = page.locator('figure[id$="ranks-bandwidth"] .picture')
    picture.focus()
    tip = page.locator("#tip")
    said = []
    for key in (
        "ArrowLeft",
        "ArrowDown",
        "ArrowDown",
        "ArrowRight",
        "ArrowUp",
        "ArrowUp",
        "End",
        "ArrowDown",
    ):
        page.keyboard.press(key)
        said.append(tip.inner_text().partition(":")[0])
    assert said == [
        "from 0 to 1", "from 2 to 1", "from 3 to 1",  # nobody is tested with itself
        "from 3 to 2", "from 1 to 2", "from 0 to 2", "from 11 to 10", "from 11 to 10",
    ]  # fmt: skip


def test_a_matrix_names_its_rows_and_keeps_the_names_in_view(open_page: Open, maps_report: Path) -> None:
    page = open_page(maps_report, 390)
    numbers = page.locator('figure[id$="ranks-bandwidth"] .numbers')
    assert numbers.locator('tbody th[scope="row"]').all_inner_texts() == [str(rank) for rank in range(12)]
    first = numbers.locator("tbody th").first
    before = first.bounding_box()["x"]
    numbers.evaluate("each => { each.scrollLeft = 200; }")
    assert numbers.evaluate("each => each.scrollLeft") > 100
    assert first.bounding_box()["x"] == pytest.approx(before, abs=1)
