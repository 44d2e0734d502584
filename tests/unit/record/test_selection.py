"""Which runs a selection means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from busbw.errors import UsageError
from busbw.record.selection import is_selection, selection_of

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
MADE = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
RUN = "20261120-093000-before-upgrade-3f9a"


@pytest.mark.parametrize(
    ("word", "fits"),
    [
        ("30d", True),
        ("7d", False),
        ("2026-11-20", True),
        ("2026-11-19", False),
        ("2026-11-20:", True),
        ("2026-11-21:", False),
        (":2026-11-20", False),
        (":2026-11-21", True),
        ("2026-11-01:2026-11-21", True),
        ("2026-11-01:+:2026-11-15", False),
        ("before-upgrade", True),
        ("20261120", True),
        ("after", False),
        ("before+30d", True),
        ("before+7d", False),
    ],
)
def test_names_and_periods_are_decided_by_the_folder(word: str, fits: bool) -> None:
    assert selection_of([word], NOW).fits_folder(RUN, MADE) == fits


@pytest.mark.parametrize(
    ("word", "fits"),
    [
        ("tag:nightly", True),
        ("tag:nightly+tag:weekly", False),
        ("host:node7", True),
        ("host:node7.cluster", True),
        ("host:node", False),
        ("version:2.28", True),
        ("version:2.28.9", True),
        ("version:2.2", False),
        ("version:28", False),
        ("tag:nightly+host:node7+version:2.28", True),
    ],
)
def test_tags_hosts_and_versions_are_decided_by_the_record(word: str, fits: bool) -> None:
    chosen = selection_of([word], NOW)
    assert chosen.needs_record
    assert chosen.fits_record(("nightly", "h200"), ("node7.cluster", "node8.cluster"), "NCCL 2.28.9") == fits


def test_several_words_must_all_hold_and_a_run_name_alone_is_no_selection() -> None:
    chosen = selection_of(["tag:a", "30d"], NOW)
    assert (chosen.tags, chosen.since) == (("a",), NOW - timedelta(days=30))
    assert [is_selection(word) for word in ("tag:a", "x+30d", RUN, "last", "a.log", "C:dir")] == [
        *(True, True, False, False, False, False)
    ]


@pytest.mark.parametrize("word", ["tag:", "2026-13-01:", "tag:a+"])
def test_a_term_that_cannot_be_read_is_a_usage_error(word: str) -> None:
    with pytest.raises(UsageError):
        selection_of([word], NOW)
