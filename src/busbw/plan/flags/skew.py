"""The value of ``--skew``: how a router spreads tokens over experts, or a file of what one did."""

from __future__ import annotations

from typing import Final

from busbw.errors import UsageError
from busbw.plan.flags.values import Between, Written
from busbw.units import counted

EVEN_TO_BUSIEST: Final = "busiest"  # a number alone: the busiest rank's multiple of the mean
COUNTS: Final = "counts"
_SHAPES: Final = ("zipf", "lognormal")
_OPTIONS: Final = {"experts": 0, "tokens": 0, "topk": 1, "draws": 1}
MOST_EXPERTS: Final = 65_536
_MOST_SHAPE: Final = 10.0
_HINT: Final = "write zipf:1.2, lognormal:0.5,experts=64, counts:FILE.jsonl, or a number from 1 up"


class Skew(Written, str):
    """``kind`` is busiest, zipf, lognormal or counts; ``shape`` the number behind it, ``path`` the file.

    ``experts`` is 0 for one a rank, ``tokens`` 0 for the distribution itself; else a rank draws so many
    tokens, and ``topk`` experts for each, and all of them ``draws`` times.
    """

    kind: str
    shape: float
    path: str
    experts: int
    tokens: int
    topk: int
    draws: int

    def __new__(cls, written: str | float, flag: str = "") -> Skew:
        """Raises UsageError, which names ``flag``."""
        made, flag = super().__new__(cls, written), flag or "--skew"
        text = made.text
        head, *options = [text] if text.startswith(f"{COUNTS}:") else text.split(",")
        made.kind, colon, rest = head.partition(":")
        made.path = rest if made.kind == COUNTS else ""
        if not colon:
            made.kind, rest = EVEN_TO_BUSIEST, head
        known = made.kind in _SHAPES or (made.kind in (EVEN_TO_BUSIEST, COUNTS) and not options)
        if not known or not rest:
            raise UsageError(f"{flag} {text!r} is unknown", hint=_HINT)
        made.shape = 0.0 if made.path else _number(rest, text, flag)
        if made.kind in _SHAPES and not 0 <= made.shape <= _MOST_SHAPE:
            raise UsageError(
                f"{flag} {text!r}: {made.shape:g} is not between 0 and {_MOST_SHAPE:g}", hint="0 is even"
            )
        made.experts, made.tokens, made.topk, made.draws = _options(options, text, flag)
        return made


def _number(word: str, text: str, flag: str) -> float:
    try:
        return float(word)
    except ValueError as error:
        raise UsageError(f"{flag} {text!r}: {word!r} is not a number", hint=_HINT) from error


def _options(words: list[str], text: str, flag: str) -> list[int]:
    """The options in their order. Raises UsageError for others, and for what cannot be drawn."""
    given = dict(_OPTIONS)
    for word in words:
        name, _, value = word.partition("=")
        if name not in given or not value.isdecimal():
            raise UsageError(
                f"{flag} {text!r}: {word!r} is unknown",
                hint="write experts=64, tokens=4096, topk=8 or draws=3",
            )
        given[name] = int(value)
        Between(1, MOST_EXPERTS).check(f"{flag} {name}=", given[name])
    for name in ("topk", "draws"):
        if given[name] > 1 and not given["tokens"]:
            raise UsageError(f"{flag} {text!r}: {name}= needs tokens to draw for", hint="add tokens=4096")
    if 0 < given["experts"] < given["topk"]:
        raise UsageError(
            f"{flag} {text!r}: top {given['topk']} of {counted(given['experts'], 'expert')}",
            hint="give more experts=",
        )
    return list(given.values())
