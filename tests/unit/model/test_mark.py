from __future__ import annotations

import re
from pathlib import Path

import pytest

import busbw
from busbw.model.mark import MARKS, meaning
from busbw.model.result import FIELD_WORDS
from busbw.stats import verdict
from busbw.stats.statistic import WORDS

SOURCES = Path(busbw.__path__[0])


def test_a_mark_is_one_word_with_one_meaning() -> None:
    names = [mark.name for mark in MARKS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
    # In a row they follow the numbers, and must not be taken for a column.
    assert not set(names) & {*WORDS, *FIELD_WORDS}


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.name)
def test_meanings_are_sentences_as_the_style_has_them(mark: object) -> None:
    text = meaning(mark.name)  # type: ignore[attr-defined]
    assert len(text) > 20
    assert not text.endswith(".")
    assert "\n" not in text


def test_a_mark_of_a_newer_version_has_no_meaning_here() -> None:
    assert meaning("from-the-future") == ""


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.name)
def test_every_mark_is_given_somewhere(mark: object) -> None:
    """A row in the table that nothing sets is a promise that nobody keeps."""
    name = mark.name  # type: ignore[attr-defined]
    named = f'"{name}"'
    files = [path for path in SOURCES.rglob("*.py") if path.name != "mark.py" and named in path.read_text()]
    assert files


def test_the_verdicts_words_are_marks() -> None:
    assert meaning(verdict.UNSTABLE)
    assert meaning(verdict.BIMODAL)
