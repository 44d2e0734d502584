"""What NCCL says about itself between the rows (NCCL_DEBUG=INFO): kept as evidence, never as a number."""

from __future__ import annotations

import re
from typing import Final

from busbw.model.record import ImportFinding
from busbw.model.tuning_line import TUNING_LINE

# Of one key. A debug log repeats its lines for every rank and channel; few differ: settings, a line for each
# size of a table, the NICs of each host. The limit is for texts that are no such log.
_MOST_VALUES: Final = 10_000
TUNING: Final = "algorithm"

# Key: what a line tells; the groups, joined by a blank, are the evidence; of calls, it is NCCL's own words.
_LINES: Final = (
    ("nccl_version", re.compile(r"\b([NR]CCL) version (\S+)")),
    ("network", re.compile(r"Using network (.+?)\s*$")),
    ("network_plugin", re.compile(r"NET/Plugin: Loaded net plugin (.+?)\s*$")),
    ("network_plugin", re.compile(r"NET/OFI (?:Initializing|Using) (aws-ofi-nccl) (\S+)")),
    ("provider", re.compile(r"NET/OFI Selected [Pp]rovider is (\S+?),?(?:\s|$)")),
    ("devices", re.compile(r"NET/(?:IB|Socket) : Using (.+?)\s*$")),
    (TUNING, TUNING_LINE),
    ("connected", re.compile(r"Connected (all rings|all trees|NVLS tree|binomial trees|all NVLS trees)")),
    ("setting", re.compile(r"(NCCL_\w+) set by environment to (.+?)\.?\s*$")),
    ("warning", re.compile(r"NCCL WARN (.+?)\s*$")),
)
# One of these is in every line above: most lines of a debug log have none.
_SOME: Final = re.compile(r"CCL version|Using network|NET/|Bytes -> |Connected|set by environment|CCL WARN")
# The kind of lines about single calls, which belong to the table in which they stand.
OF_CALLS: Final = (next(number for number, (key, _) in enumerate(_LINES) if key == TUNING),)


class Evidence:
    """Distinct words by key: a debug log repeats itself for every rank and channel. ``cut`` are keys of which
    more was there than is kept.
    """

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}
        self.cut: set[str] = set()

    @staticmethod
    def is_one(line: str) -> bool:
        """Whether NCCL wrote the line."""
        return "CCL" in line and any(mark in line for mark in ("CCL INFO", "CCL WARN", "CCL version"))

    @staticmethod
    def forms(line: str) -> tuple[int, ...]:
        """Which of the kinds of evidence are in a line."""
        if _SOME.search(line) is None:
            return ()
        return tuple(number for number, (_, form) in enumerate(_LINES) if form.search(line))

    def take(self, line: str, forms: tuple[int, ...]) -> None:
        """Take what a line tells, in which there are these kinds."""
        for key, form in (_LINES[number] for number in forms):
            match = form.search(line)
            if match is None:
                continue
            values = self._found.setdefault(key, {})
            text = match[0] if key == TUNING else " ".join(match.groups())
            if text in values or len(values) < _MOST_VALUES:
                values[text] = None
            else:
                self.cut.add(key)

    def as_dict(self) -> dict[str, list[str]]:
        """The evidence, in order of appearance."""
        return {key: list(values) for key, values in self._found.items()}

    def findings(self) -> tuple[ImportFinding, ...]:
        """What of the evidence is not kept."""
        return tuple(
            ImportFinding(
                "evidence-limit", f"of NCCL's lines only {_MOST_VALUES} different ones are kept as {key!r}"
            )
            for key in sorted(self.cut)
        )
