"""``busbw isolate --prior RUN``: whom an earlier run gives a reason to doubt."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.analysis.late import LateRank
    from busbw.settings.hunt import HuntSettings


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
    words = [
        *filter(None, map(str.strip, own.doubt.split(","))),
        *(f"{each.host}/{each.local_rank}" for each in late),
    ]
    return replace(own, prior="", doubt=",".join(dict.fromkeys(words)))


def _told(late: LateRank, run: str) -> str:
    cases = f"{late.cases} of {late.told} cases of {run}"
    return f"rank {late.rank} on {late.host} was late in {cases}, and is doubted"
