"""What pages and recipes do to install works today: a wheel or a clone, no distribution of an index."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FROM_AN_INDEX = re.compile(
    r"(?:pip3?|pipx|uv(?: pip| tool)?) (?:install|add)(?: -\S+)* ['\"]?busbw\b(?![/-])"
)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def test_nothing_is_installed_from_an_index() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    commands = {page: "\n".join(FENCE.findall(page.read_text())) for page in pages}
    others = [*(ROOT / "images").rglob("*"), *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.yaml")]
    texts = commands | {file: file.read_text() for file in others if file.is_file()}
    assert [file for file, text in texts.items() if FROM_AN_INDEX.search(text)] == []
    assert FROM_AN_INDEX.search("pip install --user 'busbw[all]'")
