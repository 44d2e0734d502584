"""The pages stay short enough to be read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"cli.md", "marks.md"}


def test_the_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90


def test_all_pages_together_have_at_most_50_000_words() -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in GENERATED]
    top = [ROOT / f"{name}.md" for name in ("README", "METHODOLOGY", "BIAS", "CONTRIBUTING")]
    assert sum(len(page.read_text().split()) for page in (*pages, *top)) <= 50_000
