"""The tokeniser reads as getopt_long does: Python's own gnu_getopt is the second opinion."""

from __future__ import annotations

import getopt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.frontdoors.getopt import Flags, Mistake, Operand, Option, tokens

FLAGS = Flags({"minbytes": "b", "maxbytes": "e", "memory": "M", "check": "c", "help": "h"}, frozenset("h"))


def read(*words: str) -> list[Any]:
    return list(tokens(words, FLAGS))


@pytest.mark.parametrize(
    "words",
    [
        ("-b", "8"),
        ("-b8",),
        ("--minbytes", "8"),
        ("--minbytes=8",),
        ("--mi", "8"),
        ("--mi=8",),
    ],
)
def test_every_way_to_give_a_value(words: tuple[str, ...]) -> None:
    assert read(*words) == [Option("b", "8")]


def test_values_may_look_like_flags() -> None:
    assert read("-c", "-1") == [Option("c", "-1")]
    assert read("--check", "--help") == [Option("c", "--help")]
    assert read("-b=8") == [Option("b", "=8")]  # the sign belongs to the value, as in C
    assert read("--minbytes=") == [Option("b", "")]


def test_short_flags_are_clustered_until_one_takes_a_value() -> None:
    assert read("-hb8c") == [Option("h"), Option("b", "8c")]
    assert read("-hc", "1") == [Option("h"), Option("c", "1")]


def test_operands_stand_anywhere_and_two_dashes_end_the_flags() -> None:
    found = read("x", "-c1", "-", "--", "-c2")
    assert found == [Operand("x"), Option("c", "1"), Operand("-"), Operand("-c2")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-q",), "invalid option -- 'q'"),
        (("-hq",), "invalid option -- 'q'"),
        (("-b",), "option requires an argument -- 'b'"),
        (("--minbytes",), "option '--minbytes' requires an argument"),
        (("--mi",), "option '--minbytes' requires an argument"),
        (("--maximum=3",), "unrecognized option '--maximum'"),
        (("--help=3",), "option '--help' doesn't allow an argument"),
        (("--m=3",), "option '--m' is ambiguous; possibilities: '--minbytes' '--maxbytes' '--memory'"),
    ],
)
def test_mistakes_are_said_as_glibc_says_them(words: tuple[str, ...], message: str) -> None:
    (*_, last) = read(*words)
    assert last == Mistake(message)


WORDS = st.one_of(
    st.sampled_from(
        ["-b8", "-c", "-h", "--minbytes=8", "--max", "--help", "--he", "--", "-", "8", "x", "-M"]
    ),
    st.text("-bcehM=8", max_size=5),
)


@given(st.lists(WORDS, max_size=6))
def test_a_second_opinion(words: list[str]) -> None:
    try:
        options, operands = getopt.gnu_getopt(
            words, "b:e:M:c:h", ["minbytes=", "maxbytes=", "memory=", "check=", "help"]
        )
    except getopt.GetoptError:
        assert any(isinstance(token, Mistake) for token in read(*words))
        return
    shorts = {f"--{name}": f"-{letter}" for name, letter in FLAGS.longs.items()}
    expected = [(shorts.get(name, name), value) for name, value in options]
    found = read(*words)
    assert [(f"-{t.letter}", t.value) for t in found if isinstance(t, Option)] == expected
    assert [t.word for t in found if isinstance(t, Operand)] == operands
