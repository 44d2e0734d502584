"""The documentation site: it builds without a broken link, and its search works from a disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_is_searched_without_a_network(browser: Any) -> None:
    built = subprocess.run(
        [sys.executable, ROOT / "tools/make_site.py"], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: request.url.startswith("file:") or said.append(request.url))
    page.goto((ROOT / "build/site/index.html").as_uri())
    tabs = page.locator(".md-tabs__link").all_inner_texts()
    assert tabs == ["Start", "Guides", "Concepts", "Reference"]
    page.click("input.md-search__input")
    page.keyboard.type("oversubscribed")
    first = page.locator(".md-search-result__link").first
    assert "isolate.html" in first.get_attribute("href")
    first.click()
    page.wait_for_url("**/isolate.html*")
    assert said == []
