"""Flags of ``busbw isolate``, ``pairs`` and ``rails`` beside those of ``run``."""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from busbw.plan.flags.flag import Group
from busbw.plan.flags.preflight import PreflightSettings
from busbw.plan.flags.ranks import OUTPUT, RankSettings
from busbw.plan.flags.values import Between, Fraction, Growth, LeavesTime, Ranged, Seconds, Size

HUNT = Group("Hunt", sort_key=0)

# As records have them.
_WRITTEN: Final = (*("loss", "slower", "rounds", "round_timeout", "wait", "each_nic", "halves"),)
_AND = "+"  # for the commas of a value in ``text``
WaitName = Literal["auto", "spin", "sleep"]


@Parameter(name="*")
@dataclass(frozen=True)
class HuntRanks(RankSettings, PreflightSettings):
    """The ranks of a hunt, and the size of its messages."""

    minbytes: Annotated[
        Size | None,
        Parameter(
            name=["--minbytes", "-b"],
            group=HUNT,
            help="Size of a message. [default: 64M between GPUs, else 4M]",
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True)
class IsolateRanks(HuntRanks):
    """The same where a hunt has no table of numbers for csv: ``isolate`` and ``rails``."""

    format: Annotated[
        Literal["table", "json", "jsonl"], Parameter(group=OUTPUT, help="Format of standard output.")
    ] = "table"


@Parameter(name="*", group=HUNT)
@dataclass(frozen=True)
class RoundFlags(Ranged):
    """How rounds of tests go."""

    round_timeout: Annotated[
        Seconds,
        LeavesTime(),
        Parameter(help="Time for a round; after it, a rank without an answer counts as hung."),
    ] = Seconds("30s")
    wait: Annotated[
        WaitName,
        Parameter(
            name="--rank-wait",  # --wait is for a job to start
            help="How CPU ranks wait: spin; sleep (ranks share cores); auto: sleep if a message takes long.",
            show_choices=False,
        ),
    ] = "auto"


@Parameter(name="*", group=HUNT)
@dataclass(frozen=True)
class RailsFlags(RoundFlags):
    """Flags of ``busbw rails``."""

    loss: Annotated[Fraction, Parameter(help="Smallest loss of bandwidth to report.")] = Fraction("5%")


@Parameter(name="*", group=HUNT)
@dataclass(frozen=True)
class IsolateFlags(RailsFlags):
    """Flags of ``busbw isolate``: what to find, and how patiently."""

    slower: Annotated[
        Growth, Parameter(help="Smallest increase of latency to report; 100% is twice as long.")
    ] = Growth("50%")
    rounds: Annotated[
        int,
        Between(2),
        Parameter(help="Rounds of new pairs, for more than 32 parts; up to 32, every pair is tested."),
    ] = 10
    each_nic: Annotated[
        str, Parameter(help="Test once through each of these NICs: mlx5_0,mlx5_1 or eth0,eth1 (needs --on).")
    ] = ""


@Parameter(name="*", group=HUNT)
@dataclass(frozen=True)
class PairsFlags(RoundFlags):
    """Flags of ``busbw pairs``."""

    halves: Annotated[
        bool,
        Parameter(
            help="Test one half against the other, then the halves of each half, and so on: log2(N) rounds."
        ),
    ] = False


@dataclass(frozen=True)
class HuntSettings(IsolateFlags, PairsFlags):
    """One hunt."""

    kind: str = ""  # isolate, pairs or rails

    @property
    def text(self) -> str:
        """In one word, as records keep it."""
        values = {name: getattr(self, name) for name in _WRITTEN}
        words = (f"{name}={getattr(value, 'text', value)}" for name, value in values.items())
        return ",".join((self.kind, *(word.replace(",", _AND) for word in words)))
