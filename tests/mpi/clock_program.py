"""One rank of a clock test: artificial clocks over the machine's own, so that the truth is known.

`clock_program.py JSON`: `ppm` and `offset_s` give the largest drift and offset (each rank's are drawn from
`seed`), `separate` as in `synchronise`. Before the recheck the clock of `odd_rank`
steps by `step_ns`, runs `bend_ppm` faster for `bent_s`, and is taken to be `older_s` older. `bind` gives each
rank a core of its own, as different machines do: the kernel likes to put two ranks that wake each other on
one. Rank 0 prints one JSON list.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from busbw.rank.world.base import PeerFailure
from busbw.rank.world.clock import GlobalClock, recheck, synchronise
from busbw.rank.world.identity import identify
from busbw.rank.world.mpi import MpiWorld, connect

# After the moment for which the bound was measured; the rates are known, so nobody has to wait.
LATER_S = (0.0, 1.0, 10.0)


@dataclass
class Artificial:
    """A clock with a known relation to the machine's."""

    base_ns: int
    offset_ns: int
    drift_ppb: int
    # From the first on the step is made; between the two the rate is another.
    odd_ns: tuple[int, int] = (1 << 62, 1 << 62)
    step_ns: int = 0
    bend_ppb: int = 0

    def at(self, real_ns: int) -> int:
        local_ns = real_ns + self.offset_ns + (real_ns - self.base_ns) * self.drift_ppb // 10**9
        start_ns, end_ns = self.odd_ns
        if real_ns > start_ns:
            local_ns += self.step_ns + (min(real_ns, end_ns) - start_ns) * self.bend_ppb // 10**9
        return local_ns

    def real(self, local_ns: int) -> int:
        """Undo ``at``, before anything odd happened."""
        return self.base_ns + (local_ns - self.base_ns - self.offset_ns) * 10**9 // (10**9 + self.drift_ppb)

    def __call__(self) -> int:
        return self.at(time.monotonic_ns())


def artificial(rank: int, base_ns: int, asked: dict[str, Any]) -> Artificial:
    chance = random.Random(f"{asked.get('seed', 0)} {rank}")
    ppm, offset_s = asked.get("ppm", 0.0), asked.get("offset_s", 0.0)
    # At least half of what was asked for, so that no draw makes the test easy.
    drift = chance.choice((-1, 1)) * chance.uniform(0.5, 1.0) * ppm
    offset = chance.choice((-1, 1)) * chance.uniform(0.5, 1.0) * offset_s
    return Artificial(base_ns, int(offset * 1e9), int(drift * 1e3))


def true_errors_ns(clock: GlobalClock, start_ns: int, own: Artificial, root: Artificial) -> list[int]:
    moments = [start_ns + int(later * 1e9) for later in LATER_S]
    local = np.array([own.at(moment) for moment in moments], dtype=np.int64)
    truth = np.array([root.at(moment) for moment in moments], dtype=np.int64)
    errors: list[int] = (clock.to_global(local) - truth).tolist()
    return errors


def run(world: MpiWorld, asked: dict[str, Any]) -> dict[str, Any]:
    base_ns = int(world.broadcast(str(time.monotonic_ns()).encode()).decode())
    own, root = (artificial(rank, base_ns, asked) for rank in (world.rank, 0))
    start = time.monotonic()
    clock = synchronise(world, own, separate=asked.get("separate", False))
    took_s = time.monotonic() - start
    errors = true_errors_ns(clock, own.real(clock.made_ns), own, root)
    promised = [clock.promised_ns(clock.made_ns + int(later * 1e9)) for later in LATER_S]
    if world.rank == asked.get("odd_rank"):
        bent_s = asked.get("bent_s", 0.0)
        own.odd_ns = (time.monotonic_ns(), time.monotonic_ns() + int(bent_s * 1e9))
        own.step_ns, own.bend_ppb = asked.get("step_ns", 0), int(asked.get("bend_ppm", 0.0) * 1e3)
        time.sleep(bent_s)
        clock = replace(clock, made_ns=clock.made_ns - int(asked.get("older_s", 0.0) * 1e9))
    start = time.monotonic()
    check = recheck(world, clock, own)
    return {
        "rank": world.rank,
        "host": world.members[world.rank].host,
        "took_s": took_s,
        "recheck_s": time.monotonic() - start,
        "error_ns": clock.error_ns,
        "own_error_ns": clock.own_error_ns,
        "drift_error_ppm": clock.drift_error * 1e6,
        "leader_of": clock.leader_of,
        "true_ns": errors,
        "promised_ns": promised,
        "true_at_recheck_ns": true_errors_ns(clock, time.monotonic_ns(), own, root)[0],
        "recheck": [check.error_ns, check.excess_ns, check.rank, check.expired, check.renew],
    }


def lost(failure: PeerFailure) -> None:
    sys.exit(f"{failure}")


def main() -> None:
    world = connect(identify(os.environ), lost)
    asked = json.loads(sys.argv[1])
    if asked.get("bind"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[world.rank % len(cores)]})
    found = world.gather(json.dumps(run(world, asked)).encode())
    if found is not None:
        print(json.dumps([json.loads(text) for text in found]), flush=True)
    world.close()


if __name__ == "__main__":
    main()
