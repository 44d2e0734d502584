"""The report in a real browser: no word, no request; pointer, keyboard, dark, small and print."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

Open = Callable[..., Any]
MARKS = (
    '[role="graphics-symbol"][aria-label]:not([aria-roledescription="axis"], [aria-roledescription="legend"])'
)
# Of text against what is behind it, by WCAG 2 (AA): the words of the page and of axes, then numbers in cells.
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
  const ratio = (ink, paper) => {
    const [a, b] = [luminance(rgb(ink)), luminance(rgb(paper))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
    return "white";
  };
  const named = "h1,h2,h3,p,li,small,b,td,th,dt,dd,label,.answer,svg text,footer";
  const words = [...document.querySelectorAll(named)]
    .filter((node) => node.textContent.trim() && node.getBoundingClientRect().width
      && !node.closest("[data-kind=heat] .mark-text.role-mark"))
    .map((node) => {
      const style = getComputedStyle(node), ink = node.closest("svg") ? style.fill : style.color;
      return [ratio(ink, behind(node)), node.textContent.slice(0, 30)];
    });
  const cells = [...document.querySelectorAll("[data-kind=heat] svg")].flatMap((svg) => {
    const rects = svg.querySelectorAll(".mark-rect.role-mark path");
    return [...svg.querySelectorAll(".mark-text.role-mark text")].map((text, at) =>
      [ratio(getComputedStyle(text).fill, getComputedStyle(rects[at]).fill), text.textContent]);
  });
  return [...words, ...cells].sort((a, b) => a[0] - b[0])[0];
}"""
# Of every picture: words that its frame cuts, and words of an axis, a legend or cells that lie on another.
WORDS_OF_PICTURES = """() => {
  const outside = [], overlapping = [];
  for (const svg of document.querySelectorAll("figure svg")) {
    const frame = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim()
      && each.getAttribute("opacity") !== "0"
      && !/rotate.(?!-90\\b)/.test(each.getAttribute("transform")));  // the box of a slanted name is wide
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
SCROLLING = """[...document.querySelectorAll("body *")].filter(
  (each) => ["auto", "scroll"].includes(getComputedStyle(each).overflowY)).length"""


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


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("which", ["report", "several_report", "maps_report", "beside_report"])
def test_it_can_be_read_without_a_word_or_a_request(
    open_page: Open, request: pytest.FixtureRequest, which: str, width: int, scheme: str
) -> None:
    path = request.getfixturevalue(which)
    page = open_page(path, width, scheme)
    assert page.said == [path.as_uri()]
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out sideways
    assert page.evaluate(SCROLLING) == 0
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= LEAST_CONTRAST, (ratio, text)
    assert page.evaluate(WORDS_OF_PICTURES) == [[], []]


def test_dark_is_dark_in_the_pictures_too(open_page: Open, report: Path) -> None:
    line = "getComputedStyle(document.querySelector('figure svg [aria-roledescription=point]')).fill"
    light, dark = (open_page(report, scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(line) != dark.evaluate(line)
    background = "getComputedStyle(document.body).backgroundColor"
    assert light.evaluate(background) == "rgb(244, 246, 248)"
    assert dark.evaluate(background) == "rgb(14, 19, 26)"


def test_bandwidth_has_a_choice_of_scales(open_page: Open, report: Path) -> None:
    page = open_page(report)
    linear, log = (page.locator(f"#bandwidth .picture.{scale}") for scale in ("linear", "log"))
    assert (linear.is_visible(), log.is_visible()) == (True, False)
    page.get_by_label("log", exact=True).first.check()
    assert (linear.is_visible(), log.is_visible()) == (False, True)
    assert page.locator("#time input").count() == 0


def test_a_pointer_gets_the_words_of_a_mark(open_page: Open, report: Path) -> None:
    page = open_page(report)
    mark = page.locator(f"#bandwidth .linear {MARKS}").nth(5)
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
    shown = "[...document.querySelectorAll('.picture')].filter((each) => each.offsetParent)"
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate(f"{shown}.indexOf(document.activeElement)"))
    assert seen - {-1} == set(range(page.evaluate(f"{shown}.length")))
    picture = page.locator("#bandwidth .linear")
    picture.focus()
    labels = picture.locator(MARKS)
    tip = page.locator("#tip")
    for key, at in (("ArrowRight", 0), ("ArrowRight", 1), ("End", labels.count() - 1), ("ArrowRight", 0)):
        page.keyboard.press(key)
        assert tip.inner_text() == labels.nth(at).get_attribute("aria-label")
    assert tip.get_attribute("aria-live") == "polite"  # a screen reader says it
    page.keyboard.press("Escape")
    assert tip.inner_text() == ""


def test_a_run_prints_on_three_pages_with_its_plot_on_the_first(open_page: Open, report: Path) -> None:
    page = open_page(report, scheme="dark")
    pages = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert 0 < len(pages) <= 3
    page.set_viewport_size({"width": 703, "height": 1032})  # A4 less its margins
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 36, 48)"
    box = page.locator("#bandwidth").bounding_box()
    assert box["y"] + box["height"] < 1032


def test_a_run_of_2160_ranks_stays_small_and_opens(open_page: Open, large_report: Path) -> None:
    assert large_report.stat().st_size < 10e6
    page = open_page(large_report)
    assert page.said == [large_report.as_uri()]
    labels = (
        page.locator("#ranks")
        .locator(MARKS)
        .evaluate_all("each => each.map(cell => cell.getAttribute('aria-label'))")
    )
    assert len({label.partition(",")[0] for label in labels}) <= 48
    assert any("+20.0%" in label for label in labels)  # the one slow rank is still there


def test_a_slow_pair_stands_out_in_both_schemes(open_page: Open, maps_report: Path) -> None:
    """Its colour is its own, and far from that of an empty place."""
    for scheme in ("light", "dark"):
        page = open_page(maps_report, scheme=scheme)
        cells = page.locator('[id$="ranks-bandwidth"]').locator(MARKS)
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
    picture = page.locator('[id$="ranks-bandwidth"] .picture')
    picture.focus()
    tip = page.locator("#tip")
    said = []
    for key in ["Left", "Down", "Down", "Right", "Up", "Up", "End", "Down"]:
        page.keyboard.press(key if key == "End" else f"Arrow{key}")
        said.append(tip.inner_text().partition(":")[0])
    assert said == [
        "from 0 to 1", "from 2 to 1", "from 3 to 1",  # nobody is tested with itself
        "from 3 to 2", "from 1 to 2", "from 0 to 2", "from 11 to 10", "from 11 to 10",
    ]  # fmt: skip
