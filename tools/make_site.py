"""Build the documentation site into build/site: one folder that opens from a disk, with its search.

    python tools/make_site.py

The pages link to each other as files of the repository do, so that they also read on a forge. The site is
made of a copy of them in the same places: all pages that ``check_docs.py`` knows, and every file that they
link to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import check_docs

ROOT: Final = check_docs.ROOT
SOURCE: Final = ROOT / "build/site-source"  # mkdocs.yml: docs_dir
SITE: Final = ROOT / "build/site"  # mkdocs.yml: site_dir


def main() -> int:
    stage(SOURCE)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    # The theme announces its end (May 2027; then Zensical, see pyproject.toml) on every build otherwise.
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        print(built.stderr, file=sys.stderr)
        return 1
    print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}; open index.html")
    return 0


def stage(folder: Path) -> None:
    """Copy the pages and what they link to, anew."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = check_docs.pages()
    linked = {target for page in pages for target in check_docs.targets(page) if target.is_file()}
    for path in {*pages, *linked, *(ROOT / "docs/site").iterdir()}:
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


if __name__ == "__main__":
    sys.exit(main())
