"""Which runs are meant, in one language for every command that takes several.

A selection is made of terms, all of which must hold: a run's name or id or the start of either, ``tag:NAME``,
``host:NAME``, ``version:NUMBER`` of the communication library, and a period: ``30d`` (the last 30 days),
``2026-11-01`` (that day), ``2026-11-01:`` (since), ``:2026-11-08`` (before) or ``2026-11-01:2026-11-08``. In
one word terms are joined by ``+``: ``tag:nightly+30d``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from busbw.errors import UsageError
from busbw.record.folder import ID
from busbw.units import parse_duration

_AGE: Final = re.compile(r"\d+(\.\d+)?(s|min|m|h|d)")
_DAY: Final = r"\d{4}-\d\d-\d\d"
_PERIOD: Final = re.compile(f"({_DAY})?(:)?({_DAY})?")
_WORDS: Final = {"tag": "tags", "host": "hosts", "version": "versions"}  # by the field of their values
HINT: Final = "write tag:NAME, host:NAME, version:NUMBER, 30d, 2026-11-01: or a run's name"


@dataclass(frozen=True)
class Selection:
    """Terms by kind. ``since`` and ``until`` bound when a run was made: from one, and before the other."""

    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    @property
    def needs_record(self) -> bool:
        """Whether a run's folder name does not decide."""
        return bool(self.tags or self.hosts or self.versions)

    def fits_folder(self, run_id: str, made: datetime) -> bool:
        """Whether a run can be meant, by what its folder says."""
        if (self.since is not None and made < self.since) or (self.until is not None and made >= self.until):
            return False
        found = ID.fullmatch(run_id)
        label = found.group(1) if found else run_id
        return all(run_id.startswith(name) or label.startswith(name) for name in self.names)

    def fits_record(self, tags: Collection[str], hosts: Collection[str], version: str) -> bool:
        """Whether it is, by what its record says besides. ``version`` is as ``NCCL 2.28.9``."""
        known = {name for host in hosts for name in (host, host.partition(".")[0])}
        return (
            set(self.tags) <= set(tags)
            and set(self.hosts) <= known
            # ``2.28`` means ``NCCL 2.28.9``: whole numbers, from the first on.
            and all(re.search(rf"(?<![\d.]){re.escape(each)}(?!\d)", version) for each in self.versions)
        )


def selection_of(words: Iterable[str], now: datetime) -> Selection:
    """The selection that words make together. Raises UsageError for a term that cannot be read."""
    found = Selection()
    for word in words:
        for term in word.split("+"):
            found = _with(found, term, now)
    return found


def is_selection(word: str) -> bool:
    """Whether a word has a term that is no run's name."""
    terms = word.split("+")
    return any((":" in term and term.partition(":")[0] in _WORDS) or _is_period(term) for term in terms)


def _is_period(text: str) -> bool:
    return bool(_AGE.fullmatch(text)) or (_PERIOD.fullmatch(text) is not None and text not in ("", ":"))


def _with(found: Selection, term: str, now: datetime) -> Selection:
    kind, colon, value = term.partition(":")
    if colon and kind in _WORDS:
        if not value:
            raise UsageError(f"{term!r} names no {kind}", hint=HINT)
        more: dict[str, Any] = {_WORDS[kind]: (*getattr(found, _WORDS[kind]), value)}
        return replace(found, **more)
    if _AGE.fullmatch(term):
        return replace(found, since=now - timedelta(seconds=parse_duration(term)))
    if _is_period(term):
        return _in_period(found, term)
    if not term:
        raise UsageError("a selection has an empty term", hint=HINT)
    return replace(found, names=(*found.names, term))


def _in_period(found: Selection, term: str) -> Selection:
    """One day, or from one day and until before another; days begin at midnight UTC, as run ids have it."""
    match = _PERIOD.fullmatch(term)
    assert match is not None
    first, colon, last = match.groups()
    since, until = (None if day is None else _midnight(day) for day in (first, last))
    if since is not None and not colon:
        until = since + timedelta(days=1)
    return replace(found, since=since or found.since, until=until or found.until)


def _midnight(day: str) -> datetime:
    try:
        return datetime.fromisoformat(day).replace(tzinfo=UTC)
    except ValueError as error:
        raise UsageError(f"{day} is no day: {error}", hint="write it as 2026-11-01") from error
