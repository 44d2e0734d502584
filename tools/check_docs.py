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
    pages = sorted([*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))])
    problems = [problem for page in pages for problem in check(page)]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(pages)} pages, {len(problems)} broken links")
    return 1 if problems else 0


def check(page: Path) -> list[str]:
    """The broken links of a page, each as ``file: link: reason``."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    problems = []
    for link in _LINK.findall(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # a web address: not ours to keep alive
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            problems.append(f"{page.relative_to(ROOT)}: {link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            problems.append(f"{page.relative_to(ROOT)}: {link}: no such heading")
    return problems


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them (lower case, no punctuation, hyphens)."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    sys.exit(main())
