"""A soak: the same cases, window after window, until a time or a number of sweeps is over; and what its
windows came to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Windows of a case that are kept one by one: the newest. Older ones are merged, two to one, each time that
# there are so many; what is kept grows with the logarithm of the time.
KEPT_WHOLE: Final = 512
SOAK_CHECK: Final = "soak"  # the ``check`` of a soak's findings


@dataclass(frozen=True)
class Soak:
    """Its end, whichever comes first, None: until it is ended; and whether it goes on after wrong data. A
    cycle is one sweep over the cases.
    """

    seconds: float | None = None
    cycles: int | None = None
    keep_going: bool = False


@dataclass(frozen=True)
class Window:
    """What ``windows`` neighbouring windows of a case came to: ``start_s`` since the soak began, and the
    times of a call. ``median_ns`` is the median of one window, of several the mean of their medians.
    """

    case: int
    start_s: float
    seconds: float
    calls: int
    median_ns: float
    least_ns: float
    most_ns: float
    wrong: int = 0
    windows: int = 1

    def joined(self, later: Window) -> Window:
        """With the windows that follow."""
        count = self.windows + later.windows
        return Window(
            self.case,
            self.start_s,
            later.start_s + later.seconds - self.start_s,
            self.calls + later.calls,
            (self.median_ns * self.windows + later.median_ns * later.windows) / count,
            min(self.least_ns, later.least_ns),
            max(self.most_ns, later.most_ns),
            self.wrong + later.wrong,
            count,
        )


def kept(windows: tuple[Window, ...], newest: Window) -> tuple[Window, ...]:
    """The windows of a case with one more. Where twice KEPT_WHOLE are there, the older half is merged."""
    windows = (*windows, newest)
    if len(windows) < 2 * KEPT_WHOLE:
        return windows
    older, whole = windows[:KEPT_WHOLE], windows[KEPT_WHOLE:]
    pairs = zip(older[::2], older[1::2], strict=True)
    return (*(first.joined(second) for first, second in pairs), *whole)


@dataclass(frozen=True)
class SlowCall:
    """A sample that took much longer than its window's: ``call`` counts the timed calls of the case so far,
    ``excess_s`` is what it took more. ``rank`` is the one that had no core meanwhile, None where none is
    known. ``timed`` is False for a window that lasted longer than others, beyond its slow samples: in a
    check, or in all of its calls alike.
    """

    case: int
    at: str
    call: int
    excess_s: float
    rank: int | None = None
    host: str = ""
    timed: bool = True


@dataclass(frozen=True)
class WrongElement:
    """The first wrong element of a rank in a check that failed. ``found`` and ``expected`` are empty where
    something else was wrong: ``fault`` says what.
    """

    case: int
    at: str
    rank: int
    host: str
    device: str
    offset: int
    wrong: int
    expected: str = ""
    found: str = ""
    fault: str = ""


@dataclass(frozen=True)
class LevelChange:
    """A time in which a case had another level; ``ended`` is empty where it has it still. ``share`` is its
    bandwidth over that before, less 1.
    """

    case: int
    began: str
    ended: str
    before_ns: float
    after_ns: float
    share: float
