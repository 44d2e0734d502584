"""Command lines as GNU ``getopt_long`` reads them, which is how nccl-tests reads its own.

Short options may be clustered (``-c1n5`` is not: the first that takes a value takes the rest), a value may be
attached (``-b8``) or follow, long options may be cut to any beginning that is not ambiguous, operands may
stand anywhere, and ``--`` ends the options. argparse and cyclopts differ in each of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """A flag as it was found, by its letter; ``value`` is empty for flags without one."""

    letter: str
    value: str = ""


@dataclass(frozen=True)
class Operand:
    """A word that is no flag and no flag's value."""

    word: str


@dataclass(frozen=True)
class Mistake:
    """What getopt_long would say on stderr, behind the program's name; it reports ``?`` then and goes on."""

    message: str


Token = Option | Operand | Mistake


@dataclass(frozen=True)
class Flags:
    """What a program knows: long names to letters, and the letters that take no value."""

    longs: Mapping[str, str]
    without_value: frozenset[str] = frozenset()


def tokens(words: Sequence[str], flags: Flags) -> Iterator[Token]:
    """The words in their order, one token a flag. Takes words as it yields, so a caller may stop early."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from map(Operand, rest)
            return
        if word.startswith("--"):
            yield _long(word[2:], rest, flags)
        elif word.startswith("-") and word != "-":
            yield from _shorts(word[1:], rest, flags)
        else:
            yield Operand(word)


def _shorts(cluster: str, rest: list[str], flags: Flags) -> Iterator[Token]:
    while cluster:
        letter, cluster = cluster[0], cluster[1:]
        if letter not in flags.longs.values():
            yield Mistake(f"invalid option -- '{letter}'")
        elif letter in flags.without_value:
            yield Option(letter)
        elif cluster:
            yield Option(letter, cluster)
            return
        elif rest:
            yield Option(letter, rest.pop(0))
        else:
            yield Mistake(f"option requires an argument -- '{letter}'")


def _long(text: str, rest: list[str], flags: Flags) -> Token:
    given, sign, value = text.partition("=")
    name = _full_name(given, flags)
    if isinstance(name, Mistake):
        return name
    letter = flags.longs[name]
    if letter in flags.without_value:
        return Mistake(f"option '--{name}' doesn't allow an argument") if sign else Option(letter)
    if sign:
        return Option(letter, value)
    if rest:
        return Option(letter, rest.pop(0))
    return Mistake(f"option '--{name}' requires an argument")


def _full_name(given: str, flags: Flags) -> str | Mistake:
    """The long option that ``given`` is or begins."""
    if given in flags.longs:
        return given
    found = [name for name in flags.longs if name.startswith(given)]
    if len(found) == 1:
        return found[0]
    if not found:
        return Mistake(f"unrecognized option '--{given}'")
    possible = " ".join(f"'--{name}'" for name in found)
    return Mistake(f"option '--{given}' is ambiguous; possibilities: {possible}")
