"""Steps that every rank takes alone but all must survive: nobody goes on into a collective that others
left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from busbw.errors import BusbwError, ExitCode
from busbw.world.base import World

T = TypeVar("T")


class RefusedTogether(BusbwError):
    """One or more ranks refused a step; raised alike on all ranks, so that all of them leave."""

    def __init__(self, message: str, *, hint: str, exit_code: ExitCode, rank: int | None, host: str) -> None:
        super().__init__(message, hint=hint, rank=rank, host=host)
        self.exit_code = exit_code


def agreed(world: World, step: Callable[[], T]) -> T:
    """The step's result, once it succeeded on every rank. Collective over the world.

    Raises RefusedTogether on every rank when it failed on any, with the first failing rank's words.
    """
    result: T | None = None
    failure: BusbwError | None = None
    try:
        result = step()
    except BusbwError as error:
        failure = error
    if world.max(np.array([0 if failure is None else 1], np.int64))[0] == 0:
        return result  # type: ignore[return-value]
    reports = world.gather(b"" if failure is None else json.dumps(_report(failure)).encode())
    first = b""
    if reports is not None:
        failed = [rank for rank, report in enumerate(reports) if report]
        first = json.dumps(
            {"rank": failed[0], "others": len(failed) - 1, **json.loads(reports[failed[0]])}
        ).encode()
    told = json.loads(world.broadcast(first if world.rank == 0 else None))
    others = f" (and {told['others']} more rank{'s' * (told['others'] > 1)})" if told["others"] else ""
    raise RefusedTogether(
        told["message"] + others,
        hint=told["hint"],
        exit_code=ExitCode(told["exit_code"]),
        rank=told["rank"],
        host=world.members[told["rank"]].host,
    ) from failure


def _report(error: BusbwError) -> dict[str, str | int]:
    return {"message": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}
