"""Flags of ``busbw isolate`` and ``busbw pairs`` beside those of ``run``; jobs get them in one word."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from cyclopts import Group, Parameter

HUNT = Group("Hunt", sort_key=0)

_AND = "+"  # for the commas of a value in to_word
WaitName = Literal["auto", "spin", "sleep"]


@Parameter(name="*")
@dataclass(frozen=True)
class HuntSettings:
    """What to find, and how patiently."""

    loss: Annotated[
        str, Parameter(group=HUNT, help="The least share of bandwidth whose loss is worth naming.")
    ] = "5%"
    slower: Annotated[
        str,
        Parameter(
            group=HUNT, help="The least share by which longer latency is worth naming; 100% is twice as long."
        ),
    ] = "50%"
    rounds: Annotated[
        int, Parameter(group=HUNT, help="Most rounds of random pairs; the noise decides how many it takes.")
    ] = 8
    round_timeout: Annotated[
        str,
        Parameter(group=HUNT, help="How long a round may take. Of a longer one, whoever says nothing hangs."),
    ] = "30s"
    wait: Annotated[
        WaitName,
        Parameter(
            name="--rank-wait",  # --wait is for a job to start
            group=HUNT,
            help="How CPU ranks wait: spin, sleep (hosts that share cores), auto: sleep where a message takes"
            " long.",
            show_choices=False,
        ),
    ] = "auto"
    each_nic: Annotated[
        str,
        Parameter(
            group=HUNT,
            show_default=False,
            help="Hunt once by each of these NICs, as mlx5_0,mlx5_1 or eth0,eth1: a launch each (--on).",
        ),
    ] = ""

    doubt: Annotated[
        str,
        Parameter(
            group=HUNT,
            show_default=False,
            help="Test these afresh, whatever random pairs say of them: HOST, HOST/LOCAL_RANK or a rank's"
            " number, as h3,h5/0.",
        ),
    ] = ""
    prior: Annotated[
        str,
        Parameter(
            group=HUNT,
            show_default=False,
            help="A run (its folder, its name, last): doubt the ranks that came last in it, or took longest.",
        ),
    ] = ""

    halves: Annotated[
        bool,
        Parameter(
            group=HUNT,
            negative="",
            help="Of pairs: one half of the parts against the other, then the halves of each half, and so on:"
            " log2(N) rounds.",
        ),
    ] = False

    @property
    def doubted(self) -> tuple[str, ...]:
        """The words of ``doubt``."""
        return tuple(filter(None, map(str.strip, self.doubt.split(","))))

    def to_word(self, kind: str) -> str:
        """The value of --hunt."""
        values = (f"{each.name}={getattr(self, each.name)}" for each in fields(self))
        return ",".join((kind, *(value.replace(",", _AND) for value in values)))

    @classmethod
    def from_word(cls, word: str) -> tuple[str, HuntSettings]:
        """The inverse of to_word: the kind, and the settings."""
        kind, *pairs = word.split(",")
        given: dict[str, str] = dict(each.replace(_AND, ",").partition("=")[::2] for each in pairs)
        rounds = int(given.pop("rounds", cls.rounds))
        halves = given.pop("halves", "") == str(True)
        return kind, cls(rounds=rounds, halves=halves, **given)  # type: ignore[arg-type]  # words that to_word wrote
