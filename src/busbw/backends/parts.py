"""A call split into parallel parts (--coalesce): one after another in the buffers, begun at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw.backends.base import CheckOutcome
from busbw.backends.buffers import BufferPair, CaseBuffers
from busbw.backends.tensors import saved_tensors
from busbw.model.case import Case
from busbw.model.collective import InPlace, Role

# Parts have data of their own, so that one in another's place is found; above the groups' share of a seed.
_PART_SHIFT = 57


@dataclass(frozen=True)
class PartedBuffers:
    """The buffers of the parts of a ``case``; of a whole call, one part. ``first_elements`` are where parts
    begin.
    """

    case: Case
    parts: tuple[CaseBuffers, ...]
    first_elements: tuple[int, ...]

    @classmethod
    def of(
        cls, pair: BufferPair, case: Case, role: Role, overlap: InPlace | None, *, rotate: bool, data: str
    ) -> PartedBuffers:
        """Lay the case out in the pair; see CaseBuffers.of."""
        whole = CaseBuffers.of(pair, case, role, overlap, rotate=rotate, data=data)
        if not case.coalesce:
            return cls(case, (whole,), (0,))
        parts, firsts, first = [], [], 0
        type_bytes = case.data_type.size_bytes
        for part in case.parts:
            laid_out = CaseBuffers.of(pair, part, role, overlap, rotate=False, data=data)
            skipped = first * type_bytes
            parts.append(
                replace(
                    laid_out,
                    send=laid_out.send + skipped,
                    recv=laid_out.recv + skipped,
                    stride_bytes=whole.stride_bytes,
                    slots=whole.slots,
                )
            )
            firsts.append(first)
            first += part.requested_bytes // type_bytes
        return cls(case, tuple(parts), tuple(firsts))

    def load(self, seed: int, slot: int) -> None:
        """See CaseBuffers."""
        for number, part in enumerate(self.parts):
            part.load(_seed(seed, number), slot)

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """See CaseBuffers; offsets are those of the whole buffer."""
        found = [part.check(_seed(seed, number), slot) for number, part in enumerate(self.parts)]
        wrong = [
            first + outcome.first_offset
            for first, outcome in zip(self.first_elements, found, strict=True)
            if outcome.wrong
        ]
        digest = sum(outcome.digest for outcome in found) % 2**64
        return CheckOutcome(sum(outcome.wrong for outcome in found), min(wrong, default=-1), digest)

    def tensors(self, seed: int, slot: int, first_wrong: int) -> bytes:
        """Of the part in which the first wrong element lies."""
        number = max(i for i, first in enumerate(self.first_elements) if first <= first_wrong)
        inside = first_wrong - self.first_elements[number]
        return saved_tensors(self.parts[number], _seed(seed, number), slot, inside)


class CheckedParts:
    """What a prepared case leaves to its buffers."""

    _parts: PartedBuffers

    def load(self, seed: int, slot: int) -> None:
        """See PreparedCase."""
        self._parts.load(seed, slot)

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """See PreparedCase."""
        return self._parts.check(seed, slot)

    def run(self, slot: int, calls: int = 1) -> None:
        """See PreparedCase."""
        raise NotImplementedError

    def run_checked(self, seed: int, slot: int) -> CheckOutcome:
        """See PreparedCase."""
        self.run(slot)
        return self.check(seed, slot)

    def tensors(self, seed: int, slot: int, first_wrong: int) -> bytes:
        """See PreparedCase."""
        return self._parts.tensors(seed, slot, first_wrong)


def _seed(seed: int, part: int) -> int:
    return (seed + (part << _PART_SHIFT)) % 2**64
