"""With this folder on PYTHONPATH a rank hangs from inside: HANG_FAULT, on HANG_RANK, in case HANG_CASE.

size: the rank measures another size than the others in this case. skip: it leaves one call, or one launch of
a graph, of its first look at this case out (NCCL only).
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any


def is_victim() -> bool:
    from busbw.rank.world.identity import identify

    identity = identify(os.environ)
    return identity is not None and identity.rank == int(os.environ["HANG_RANK"])


def change_size(module: Any) -> None:
    """The rank's plan has the smallest size there: a library may take another algorithm for it, and waits."""
    read = module.Plan.from_json

    def changed(fields: Any) -> Any:
        plan, at = read(fields), int(os.environ["HANG_CASE"])
        if not is_victim() or at >= len(plan.cases):
            return plan
        cases = list(plan.cases)
        same = [case for case in cases if case.placement == cases[at].placement]
        cases[at] = replace(same[0], index=cases[at].index)
        return replace(plan, cases=tuple(cases))

    module.Plan.from_json = staticmethod(changed)


def skip_a_call(module: Any) -> None:
    """One issue fewer before the first samples than the others: a call, or the launch of a graph."""
    time, seen = module.NcclCase.time, list[int]()

    def short(case: Any, lead: int, samples: int, k: int) -> Any:
        number = case.whole.case.index
        if number != int(os.environ["HANG_CASE"]) or number in seen or lead == 0 or not is_victim():
            return time(case, lead, samples, k)
        seen.append(number)
        left = 0 if case._is_graph else lead - case.calls_per_issue
        return time(case, left, samples, k)

    module.NcclCase.time = short


AFTER: dict[str, tuple[str, Callable[[Any], None]]] = {
    "size": ("busbw.model.plan", change_size),
    "skip": ("busbw.rank.backends.nccl_case", skip_a_call),
}


class Hook(importlib.abc.MetaPathFinder):
    """Acts once the module was imported: ranks load little, and in their own order."""

    def __init__(self, name: str, act: Callable[[Any], None]) -> None:
        self.name, self.act = name, act

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            self.act(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if os.environ.get("HANG_FAULT") in AFTER:
    sys.meta_path.insert(0, Hook(*AFTER[os.environ["HANG_FAULT"]]))
