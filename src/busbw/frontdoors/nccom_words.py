"""Words of an nccom-test command line to flags and their values: a tokeniser without knowledge of meanings.

What it must get right: the operation stands first, in the middle or last; ``--check`` takes a word only where
that is a check mode; lists (``--stats``, ``--hosts``) end at the next flag or at a word that is not theirs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from busbw.errors import UsageError
from busbw.frontdoors.nccom_flags import CHECK_MODES, FLAGS, OPERANDS, Flag, Takes

SEE_HELP: Final = "see `busbw nccom-test --help`"
_STATISTIC: Final = re.compile(r"avg|p\d+(?:\.\d+)?", re.IGNORECASE)
_BY_SHORT: Final = {flag.short: flag for flag in FLAGS if flag.short}
_BY_NAME: Final = {name: flag for flag in FLAGS for name in (flag.name, *flag.aliases)}


@dataclass(frozen=True)
class Words:
    """``values`` has an entry for every flag that was given, by its key; of a flag given twice the last."""

    operands: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def tokenise(words: Sequence[str]) -> Words:
    """Split a command line. Raises UsageError for unknown flags and missing values."""
    reader = _Reader(list(words))
    reader.read()
    operands, values = reader.operands, reader.values
    hosts = values.get("hosts", ())
    if not operands and len(hosts) > 1 and hosts[-1] in OPERANDS:
        # `--hosts A B allr`: a list of hosts has no other end.
        operands, values["hosts"] = [hosts[-1]], hosts[:-1]
    return Words(tuple(operands), values)


class _Reader:
    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0
        self.operands: list[str] = []
        self.values: dict[str, tuple[str, ...]] = {}

    def read(self) -> None:
        while self._at < len(self._words):
            word = self._next()
            if word == "--":
                self.operands += self._words[self._at :]
                return
            if word.startswith("--"):
                name, joined, value = word[2:].partition("=")
                self._take(_long(name, word), word, value if joined else None)
            elif word.startswith("-") and len(word) > 1:
                self._short(word)
            else:
                self.operands.append(word)

    def _next(self) -> str:
        self._at += 1
        return self._words[self._at - 1]

    def _peek(self) -> str | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _short(self, word: str) -> None:
        """``-b 8``, ``-b8``, ``-b=8``, and switches that stand together, as in ``-Sc``."""
        letters = word[1:]
        while letters:
            flag = _BY_SHORT.get(letters[0])
            if flag is None:
                raise UsageError(f"unknown flag {word}", hint=SEE_HELP)
            letters = letters[1:]
            value = letters.removeprefix("=")
            more = flag.takes is Takes.NOTHING or (
                flag.takes is Takes.CHECK_MODE and value not in CHECK_MODES and letters[:1] in _BY_SHORT
            )
            self._take(flag, word, None if more else value or None, alone=more and bool(letters))
            if not more:
                return

    def _take(self, flag: Flag, word: str, joined: str | None, *, alone: bool = False) -> None:
        """Keep a flag with what follows it. ``alone``: another letter follows in the same word."""
        if flag.takes is Takes.NOTHING:
            if joined is not None:
                raise UsageError(f"--{flag.name} takes no value: {word}", hint=SEE_HELP)
            self.values[flag.key] = ()
        elif flag.takes is Takes.CHECK_MODE:
            self.values[flag.key] = () if alone else self._check_mode(joined)
        elif flag.takes is Takes.ONE:
            self.values[flag.key] = (joined if joined is not None else self._value(word),)
        else:
            values = self._list(flag, word, joined)
            if flag.takes is Takes.HOSTS and word.startswith("-s") and all(map(_STATISTIC.fullmatch, values)):
                raise UsageError(
                    f"-s {' '.join(values)}: -s means --hosts; it was --stats in Neuron 2.11", hint="write -t"
                )
            self.values[flag.key] = values

    def _value(self, word: str) -> str:
        following = self._peek()
        if following is None or (_is_flag(following) and not _is_number(following)):
            raise UsageError(f"{word} needs a value", hint=SEE_HELP)
        return self._next()

    def _check_mode(self, joined: str | None) -> tuple[str, ...]:
        if joined is None:
            return (self._next(),) if self._peek() in CHECK_MODES else ()
        if joined not in CHECK_MODES:
            raise UsageError(f"unknown check {joined!r}", hint=f"use one of: {', '.join(CHECK_MODES)}")
        return (joined,)

    def _list(self, flag: Flag, word: str, joined: str | None) -> tuple[str, ...]:
        values = [joined] if joined is not None else [self._value(word)]
        if flag.takes is Takes.RATIOS:
            while "[" in values[0] and "]" not in values[-1] and self._peek() is not None:
                values.append(self._next())
            return ("".join(values),)
        while (following := self._peek()) is not None and not _is_flag(following):
            if flag.takes is Takes.STATISTICS and not _STATISTIC.fullmatch(following):
                break
            values.append(self._next())
        return tuple(values)


def _long(name: str, word: str) -> Flag:
    """A flag by its long name, with hyphens or underscores, whole or as much of it as only one flag has."""
    name = name.replace("_", "-")
    if name in _BY_NAME:
        return _BY_NAME[name]
    found = {flag.name: flag for known, flag in _BY_NAME.items() if name and known.startswith(name)}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        names = ", ".join(f"--{known}" for known in found)
        raise UsageError(f"{word.partition('=')[0]} is short for several flags: {names}", hint=SEE_HELP)
    raise UsageError(f"unknown flag {word.partition('=')[0]}", hint=SEE_HELP)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _is_number(word: str) -> bool:
    """A negative number: a value that is refused by name, not a flag that is unknown."""
    return word[1:].replace(".", "", 1).isdecimal()
