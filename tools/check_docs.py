"""Check the Markdown pages: every relative link leads to a file, and every #anchor to a heading of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("docs", "benchmarks")

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


def main() -> int:
    found = pages()
    problems = [problem for page in found for problem in check(page)]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(found)} pages, {len(problems)} broken links")
    return 1 if problems else 0


def pages() -> list[Path]:
    """All pages of the project."""
    return sorted([*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))])


def check(page: Path) -> list[str]:
    """The broken links of a page, each as ``file: link: reason``."""
    problems = []
    for link in links(page):
        target, anchor = _place(page, link)
        if not target.exists():
            problems.append(f"{page.relative_to(ROOT)}: {link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            problems.append(f"{page.relative_to(ROOT)}: {link}: no such heading")
    return problems


def links(page: Path) -> list[str]:
    """The links of a page that are not web addresses, which are not ours to keep alive."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in _LINK.findall(text) if not re.match(r"[a-z][a-z0-9+.-]*:", link)]


def targets(page: Path) -> list[Path]:
    """The files that a page links to."""
    return [_place(page, link)[0] for link in links(page)]


def _place(page: Path, link: str) -> tuple[Path, str]:
    path, _, anchor = link.partition("#")
    return (page.parent / path).resolve() if path else page, anchor


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them (lower case, no punctuation, hyphens)."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    sys.exit(main())
