"""Run folders with everything that a report can show: samples, ranks, links, a reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from busbw.record.folder import DIGESTS_FILE, SAMPLES_FILE, create
from busbw.record.write import write_record
from busbw_testing.diagnosed import burst, digests_of, sampled


def run_folder(
    home: Path, name: str, *, ranks: int = 16, hosts: int = 2, seed: int = 0, powers: range = range(10, 31)
) -> Path:
    """A run on so many ranks: times that scatter, two modes at one size, one slow rank, one idle NIC."""
    draw = np.random.default_rng(seed)
    times = {2**power: (12 + 2**power / 2**20 * 40) * np.exp(draw.normal(0, 0.01, 200)) for power in powers}
    times[2 ** powers[len(powers) // 2]][::4] *= 1.15
    record, samples = sampled(times, ranks=ranks, hosts=hosts, algorithm="RING SIMPLE", name=name)
    record = replace(
        record, plan=replace(record.plan, raw_ranks=0)
    )  # the maximum over ranks was kept, and digests
    carried = {f"node{host}": {f"nic{nic}": 3.35 for nic in range(4)} for host in range(hosts)}
    carried["node1"]["nic3"] = 0.0
    last = len(record.results) - 1
    record = replace(record, bursts=(burst(carried, case=last, gb_per_s=12.5),))
    factors = np.exp(draw.normal(0, 0.002, ranks))
    factors[min(5, ranks - 1)] = 1.2
    folder = create(home, name)
    write_record(folder, record)
    (folder / SAMPLES_FILE).write_bytes(samples.tobytes())
    (folder / DIGESTS_FILE).write_bytes(digests_of(record, factors.tolist()).tobytes())
    return folder
