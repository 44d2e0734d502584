"""Whom a hunt doubts: what an earlier run gives a reason for (``busbw isolate --prior RUN``), and who of the
doubted is left after a loss.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from busbw.errors import UsageError
from busbw.settings.hunt import HuntSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from busbw.analysis.late import LateRank


def with_prior(own: HuntSettings) -> HuntSettings:
    """The settings with the late ranks of that run among the doubted, told on stderr. Raises UsageError where
    the run's times do not tell who was late.
    """
    if not own.prior:
        return own
    from busbw.analysis.late import late_ranks
    from busbw.record.folder import environ_home, find_run
    from busbw.record.read import read_digests, read_record, read_samples

    folder = find_run(own.prior, environ_home())
    record = read_record(folder)
    if record.plan.hunt is not None:
        raise UsageError(
            f"--prior {own.prior}: {folder.name} is a hunt itself",
            hint="name a run of `busbw run --mode latency`; `busbw list` has its name",
        )
    late = late_ranks(record, read_samples(folder), read_digests(folder))
    if late is None:
        raise UsageError(
            f"--prior {folder.name}: its times do not tell which rank was late",
            hint="measure single calls of an operation that all ranks leave together, `busbw run all_reduce"
            " --mode latency`, or of sendrecv on 7 ranks or more; or name hosts, --doubt h3",
        )
    for each in late:
        print(f"note: {_told(each, folder.name)}", file=sys.stderr)
    if not late:
        print(f"note: no rank was late in most cases of {folder.name}: nobody is doubted", file=sys.stderr)
    words = (*own.doubted, *(f"{each.host}/{each.local_rank}" for each in late))
    return replace(own, prior="", doubt=",".join(dict.fromkeys(words)))


def _told(late: LateRank, run: str) -> str:
    cases = f"{late.cases} of {late.told} cases of {run}"
    if late.sends_to is not None:
        return (
            f"rank {late.rank} on {late.host} sends to rank {late.sends_to}, late in {cases}, and is doubted"
        )
    return f"rank {late.rank} on {late.host} was late in {cases}, and is doubted"


@dataclass(frozen=True)
class Lost:
    """Who was lost: a host, or one rank of it."""

    host: str
    rank: int | None = None


def doubts_without(word: str, members: Sequence[dict[str, Any]], lost: Lost) -> str:
    """The word of a hunt (``HuntSettings.to_word``) for those that are left, whose ranks are numbered anew:
    doubts as HOST, or HOST/LOCAL_RANK. ``members`` are the ranks of a header; where they had not met, numbers
    of ranks mean nobody.
    """
    kind, own = HuntSettings.from_word(word)
    place_of = {str(each["rank"]): (each["host"], each["local_rank"]) for each in members}
    gone = place_of.get(str(lost.rank))
    kept = []
    for text in own.doubted:
        name, _, local = text.partition("/")
        host, number = place_of.get(text, (name, int(local) if local.isdecimal() else None))
        is_unknown = text.isdecimal() and not members
        if is_unknown or (host, number) == gone or (lost.rank is None and host == lost.host):
            continue
        if gone is not None and host == gone[0] and number is not None:
            number -= number > gone[1]
        kept.append(host if number is None else f"{host}/{number}")
    return replace(own, doubt=",".join(kept)).to_word(kind)
