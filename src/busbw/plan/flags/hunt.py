"""Flags of ``busbw isolate``, ``pairs`` and ``rails`` beside those of ``run``."""

from dataclasses import dataclass
from typing import Final, Literal

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.ranks import PreflightSettings, RankSettings, of_output
from busbw.plan.flags.values import Between, Fraction, Growth, LeavesTime, Ranged, Seconds, Size

of_hunt = Flags("Hunt", 0)

# As records have them.
_WRITTEN: Final = (*("loss", "slower", "rounds", "round_timeout", "wait", "each_nic", "halves"),)
_AND = "+"  # for the commas of a value in ``text``
WaitName = Literal["auto", "spin", "sleep"]


@settings
class HuntRanks(RankSettings, PreflightSettings):
    """The ranks of a hunt, and the size of its messages."""

    minbytes: Size | None = of_hunt(None, "Size of a message. [default: 64M between GPUs, else 4M]", "-b")


@settings
class IsolateRanks(HuntRanks):
    """The same where a hunt has no table of numbers for csv: ``isolate`` and ``rails``."""

    format: Literal["table", "json", "jsonl"] = of_output("table", "Format of standard output.")


@settings
class RoundFlags(Ranged):
    """How rounds of tests go."""

    round_timeout: Seconds = of_hunt(
        Seconds("30s"), "Time for a round; after it, a rank without an answer counts as hung.", LeavesTime()
    )
    wait: WaitName = of_hunt(
        "auto",
        "How CPU ranks wait: spin; sleep (ranks share cores); auto: sleep if a message takes long.",
        name="--rank-wait",  # --wait is for a job to start
        show_choices=False,
    )


@settings
class RailsFlags(RoundFlags):
    """Flags of ``busbw rails``."""

    loss: Fraction = of_hunt(Fraction("5%"), "Smallest loss of bandwidth to report.")


@settings
class IsolateFlags(RailsFlags):
    """Flags of ``busbw isolate``: what to find, and how patiently."""

    slower: Growth = of_hunt(Growth("50%"), "Smallest increase of latency to report; 100% is twice as long.")
    rounds: int = of_hunt(
        10, "Rounds of new pairs, for more than 32 parts; up to 32, every pair is tested.", Between(2)
    )
    each_nic: str = of_hunt(
        "", "Test once through each of these NICs: mlx5_0,mlx5_1 or eth0,eth1 (needs --on)."
    )


@settings
class PairsFlags(RoundFlags):
    """Flags of ``busbw pairs``."""

    halves: bool = of_hunt(
        False, "Test one half against the other, then the halves of each half, and so on: log2(N) rounds."
    )


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
