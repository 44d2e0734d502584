"""Hunts among the GPUs of this host, one of which is slowed by a program that copies in its memory.

Each hunt is the command as a person types it. Of every two, in random order, one has a GPU slowed, drawn
anew. Prints a JSON line a hunt and a table at the end.

    python benchmarks/isolate/gpus.py --hunts 20 --gpus 4 >gpus.md 2>gpus.jsonl
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from campaign import concluded, report

from busbw.machine.native.cuda import CudaDriver

COPY_BYTES = 1 << 30
COPIES_AT_ONCE = 50


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--hunts", type=int, default=20, help="with a slowed GPU, and as many without")
    parser.add_argument("--size", default="64M")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--copy-on", type=int, help=argparse.SUPPRESS)  # the program that copies
    options = parser.parse_args()
    if options.copy_on is not None:
        copy_for_ever(options.copy_on)
    generator, start_s = random.Random(options.seed), time.monotonic()
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _ in range(options.hunts):
        for fault in generator.sample(("none", "copies"), 2):
            if time.monotonic() - start_s > options.seconds:
                break
            gpu = generator.randrange(options.gpus)
            if fault == "none":
                found = {"fault": fault, "place": "", **hunt(options)}
            else:
                with busy(gpu, options.gpus):
                    found = {"fault": fault, "place": f"rank {gpu}", **hunt(options)}
            rows[fault].append(found)
            print(json.dumps(found), file=sys.stderr, flush=True)
    report(rows)


def hunt(options: argparse.Namespace) -> dict[str, Any]:
    words = ["isolate", "--ranks", str(options.gpus), "--backend", "nccl", "-b", options.size]
    command = [sys.executable, "-m", "busbw", *words, "--format", "json", "--no-preflight"]
    start_s = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = concluded(done, time.monotonic() - start_s)
    # "rank 2 on gpu-host" is rank 2: all are on this host.
    for key in ("named", "first"):
        if key in found:
            short = [name.partition(" on ")[0] for name in ([found[key]] if key == "first" else found[key])]
            found[key] = short[0] if key == "first" else short
    return found


@contextmanager
def busy(gpu: int, gpus: int) -> Iterator[None]:
    """A program that copies in this GPU's memory meanwhile, and has begun."""
    command = [sys.executable, __file__, "--gpus", str(gpus), "--copy-on", str(gpu)]
    copier = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert copier.stdout is not None
        if not copier.stdout.readline():
            raise SystemExit("the program that copies did not start")
        yield
    finally:
        copier.kill()
        copier.wait()


def copy_for_ever(gpu: int) -> None:
    driver = CudaDriver()
    driver.init()
    driver.set_current_context(driver.primary_context_retain(driver.device(gpu)))
    source, target = driver.mem_alloc(COPY_BYTES), driver.mem_alloc(COPY_BYTES)
    copy = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t)(
        driver.address("cuMemcpyDtoD_v2")
    )
    print("copying", flush=True)
    while True:
        if any(copy(target, source, COPY_BYTES) for _ in range(COPIES_AT_ONCE)):
            raise SystemExit("cuMemcpyDtoD failed")
        driver.synchronize()


if __name__ == "__main__":
    main()
