"""What every rank's NCCL said, and how findings about it name the ranks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from busbw.model.finding import Finding, Severity
from busbw.preflight.environment import setting
from busbw.preflight.gathered import Gathered
from busbw.preflight.nccl_log import NcclUse
from busbw.preflight.odd import few, name_ranks


@dataclass(frozen=True)
class Used:
    """What every rank's NCCL said, in rank order, beside what the ranks said before."""

    gathered: Gathered
    uses: tuple[NcclUse, ...]

    @property
    def is_one_host(self) -> bool:
        """Whether nothing has to leave the host."""
        return len(set(self.gathered.hosts)) == 1

    def of(self, variable: str, rank: int) -> str:
        """A variable's value on a rank: of the environment, else of a file of NCCL's settings."""
        return setting(self.gathered.ranks[rank].environ, variable)

    def ranks(self, holds: Callable[[int, NcclUse], bool]) -> list[int]:
        """The ranks that were heard and for which this holds."""
        return [at for at, use in enumerate(self.uses) if use.heard and holds(at, use)]

    def where(self, ranks: Sequence[int]) -> str:
        """The ranks in words."""
        if len(ranks) == len(self.uses):
            return "on all ranks" if len(ranks) > 1 else "here"
        return f"on {name_ranks(ranks, self.gathered.hosts)}"

    def one(self, ranks: Sequence[int]) -> tuple[int | None, str]:
        """Rank and host, where it is not all of them."""
        return (None, "") if len(ranks) == len(self.uses) else (ranks[0], self.gathered.hosts[ranks[0]])


def said(used: Used, ranks: Sequence[int], words: Callable[[int, NcclUse], Iterable[str]]) -> str:
    """What NCCL said of it, in one line: ``words`` of a rank's log, with the ranks where they differ."""
    by_text: dict[str, list[int]] = {}
    for rank in ranks:
        by_text.setdefault(few([word for word in words(rank, used.uses[rank]) if word]), []).append(rank)
    texts = list(by_text)
    if len(texts) < 2:
        return f"NCCL says: {texts[0]}" if any(texts) else ""
    hosts = used.gathered.hosts
    parts = [f"on {name_ranks(at, hosts)}: {text or 'no reason'}" for text, at in by_text.items()]
    return f"NCCL says {few(parts)}"


def about(
    used: Used, severity: Severity, claim: str, ranks: Sequence[int], *, evidence: str = "", hint: str = ""
) -> Finding:
    """``claim`` about ranks, in words that name them."""
    rank, host = used.one(ranks)
    return Finding(severity, f"{claim} {used.where(ranks)}", evidence, hint, rank, host)
