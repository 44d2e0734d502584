"""Findings as lines of text, and the display of a preflight, which has nothing else to show."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, TextIO

from busbw.model.event import Event, EventKind
from busbw.model.finding import Severity

_WIDTH: Final = 110
_INDENT: Final = 9  # of what stands below a claim: as wide as the severity
_WORDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def finding_lines(finding: Mapping[str, Any]) -> list[str]:
    """What is wrong, from what, what to try; each line begins with #, none is cut."""
    word = _WORDS[Severity(finding["severity"])]
    parts = [finding["claim"], finding["evidence"], f"hint: {finding['hint']}" if finding["hint"] else ""]
    lines = [line for part in parts if part for line in _wrapped(str(part))]
    return [f"# {word if number == 0 else '':<{_INDENT}}{line}" for number, line in enumerate(lines)]


def _wrapped(text: str) -> list[str]:
    # Words (paths, lists) stay whole, so that they can be copied.
    width = _WIDTH - _INDENT - 2
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [text]


class PreflightDisplay:
    """What was checked and found, once all is known."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self._findings: list[Mapping[str, Any]] = []
        self._header: Event | None = None
        self._failed = False

    def handle(self, item: Event) -> None:
        """See Display."""
        from busbw.reports.live import show_error, show_state

        kind = item["event"]
        if kind == EventKind.FINDING:
            self._findings.append(item["finding"])
        elif kind == EventKind.HEADER:
            self._header = item
        elif kind == EventKind.STATE:
            show_state(item, self._err)
        elif kind == EventKind.ERROR:
            self._failed = True
            show_error(item, self._err)
        elif kind == EventKind.END:
            self._report(str(item["folder"]))

    def close(self) -> None:
        """See Display. Where nothing was started, there is no END to wait for."""
        if self._findings:
            self._report("")

    def _report(self, folder: str) -> None:
        lines = [f"# {line}" for line in self._who()]
        for finding in self._findings:
            lines += finding_lines(finding)
        lines.append(f"# result   {self._summary()}")
        lines += [f"# record   {folder}"] if folder else []
        self._findings = []
        self._out.write("\n".join(lines) + "\n")
        self._out.flush()

    def _who(self) -> list[str]:
        """The ranks that were connected; nobody where an error came first."""
        if self._header is None:
            return []
        world, backend = self._header["world"], self._header["plan"]["backend"]
        hosts = list(dict.fromkeys(rank["host"] for rank in world["ranks"]))
        first = world["ranks"][0]
        library = f"{first['library']} {first['library_version']}".strip()
        where = f"{world['size']} on {len(hosts)} host{'s' * (len(hosts) > 1)}"
        return [
            f"busbw {self._header['busbw_version']}: preflight, backend {backend}, {library}",
            f"ranks    {where}, world {world['kind']}, started by {world['launcher']}",
        ]

    def _summary(self) -> str:
        counts = Counter(_WORDS[Severity(each["severity"])] for each in self._findings)
        said = [
            f"{counts[word]} {word}{'s' * (counts[word] > 1)}" for word in _WORDS.values() if counts[word]
        ]
        if self._failed and not said:  # silence is no verdict
            who = "no rank has answered" if self._header is None else "it ended early"
            return f"nothing was judged: {who}"
        return ", ".join(said) or "nothing found"
