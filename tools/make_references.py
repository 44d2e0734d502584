"""Make the references that come with busbw (src/busbw/references/data) from published logs and own results.

    tools/make_references.py PUBLISHED

PUBLISHED is the folder of logs with INDEX.tsv (file, source, op, ranks_label, ranks_from_ratio, nodes,
versions, note). Logs are read by busbw's own importers, which solve the number of ranks from busbw / algbw.
Points that are known as one number only are written below; every one names who published it.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from busbw.errors import UndecidedError
from busbw.importers.assemble import Origin, assemble
from busbw.importers.decide import Given
from busbw.importers.files import Reading, read_file
from busbw.importers.table import Table
from busbw.model.collective import collective
from busbw.model.record import RunRecord
from busbw.references.load import dump
from busbw.references.reference import Point, Printed, Reference

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "src" / "busbw" / "references" / "data"
GPU_RESULTS = ROOT / "benchmarks" / "gpu" / "results"


class Log(NamedTuple):
    """What a log of the index does not say in a form for machines."""

    name: str
    file: str  # of data/
    date: str
    source: str
    machine: str
    device: str
    versions: dict[str, str]
    environment: dict[str, str]


AWS = "awslabs/awsome-distributed-ai e5bb80f9, micro-benchmarks/nccl-tests/README.md"
NSIGHT = "awsankur/awesome-networking e6b3e80, nccl-tests/all-reduce.md"
COREWEAVE = "coreweave/nccl-tests 7c12c62, README.md"
NSIGHT_VERSIONS = {
    "NCCL": "2.22.3-1",
    "aws-ofi-nccl": "1.10.0",
    "EFA": "1.34.0",
    "GDRCopy": "2.4.1",
    "nccl-tests": "2.13.10",
}
NSIGHT_ENVIRONMENT = {"NCCL_BUFFSIZE": "8388608", "NCCL_P2P_NET_CHUNKSIZE": "524288"}
# The kit's table of defaults; the page does not say that its logs were made with them.
KIT_VERSIONS = {
    "NCCL": "2.20.3-1 (default of the kit, not stated for this log)",
    "aws-ofi-nccl": "1.8.1",
    "EFA": "1.31.0",
    "nccl-tests": "2.13.9",
}
EKS_VERSIONS = {"NCCL": "2.18.5", "aws-ofi-nccl": "1.7.3", "EFA": "1.28.0", "nccl-tests": "master"}
# Families: a run's device has this as a word of its name ("NVIDIA H100 80GB HBM3").
A100, H100, H200, B200, GB200, B300 = "A100", "H100", "H200", "B200", "GB200", "B300"
LOGS = {
    "aws-p4de-2x8-allreduce.log": Log(
        "aws-p4de-2x8", "aws", "2024-04-23", AWS, "p4de.24xlarge", A100, KIT_VERSIONS, {}
    ),
    "aws-p5-2x8-allreduce.log": Log(
        "aws-p5-2x8", "aws", "2024-04-23", AWS, "p5.48xlarge", H100, KIT_VERSIONS, {}
    ),
    "aws-p5-eks-2x8-allreduce-nccl2.18.5-excerpt.log": Log(
        "aws-p5-eks-2x8", "aws", "2024-04-23", AWS, "p5.48xlarge", H100, EKS_VERSIONS, {}
    ),
    "p4de-2x8-25MiB-n100.log": Log(
        "p4de-2x8-25MiB-n100", "nsight", "2024-08-20", NSIGHT, "p4de.24xlarge", A100,
        NSIGHT_VERSIONS, NSIGHT_ENVIRONMENT,
    ),
    "p4de-2x8-25MiB-n1000.log": Log(
        "p4de-2x8-25MiB-n1000", "nsight", "2024-08-20", NSIGHT, "p4de.24xlarge", A100,
        NSIGHT_VERSIONS, NSIGHT_ENVIRONMENT,
    ),
    "coreweave-h100-sharp-labelled64-is96.log": Log(
        "coreweave-h100-sharp-12x8", "coreweave", "2025-07-15", COREWEAVE,
        "H100 NVL8, 8 x NDR InfiniBand, SHARP", H100, {}, {"NCCL_COLLNET_ENABLE": "1"},
    ),
    "coreweave-gb200-1rack-72.log": Log(
        "coreweave-gb200-1rack-18x4", "coreweave", "2025-07-15", COREWEAVE,
        "GB200 NVL72, 1 rack", GB200, {"NCCL": "2.26.2"}, {},
    ),
    "coreweave-gb200-2racks-labelled144-is128.log": Log(
        "coreweave-gb200-2racks-32x4", "coreweave", "2025-07-15", COREWEAVE,
        "GB200 NVL72, 2 racks", GB200, {"NCCL": "2.26.2"}, {},
    ),
    "coreweave-gb200-20racks-1440.log": Log(
        "coreweave-gb200-20racks-360x4", "coreweave", "2025-07-15", COREWEAVE,
        "GB200 NVL72, 20 racks", GB200, {"NCCL": "2.26.2"}, {},
    ),
}  # fmt: skip
NCCOM = Log(
    "nccom-test-guide", "nccom", "2026-02-25",
    "aws-neuron/aws-neuron-sdk 86a92868, tools/neuron-sys-tools/nccom-test.rst",
    "not stated", "AWS Neuron", {}, {},
)  # fmt: skip

GiB = 2**30
# One published number each: name, ranks, nodes, machine, device, versions, date, source, operation, size,
# GB/s, note.
AZURE = "Azure node health checks"
UNNAMED = "a published result whose page was not recorded"
VALUES: tuple[tuple[str, int, int, str, str, dict[str, str], str, str, str, int, float, str], ...] = (
    ("anchor-a100-nvl8", 8, 1, "A100 NVL8", A100, {}, "not stated", UNNAMED, "all_reduce", 16 * GiB, 234.9,
     "78 % of 300 GB/s NVLink 3"),
    ("anchor-h100-nvl8", 8, 1, "H100 NVL8", H100, {"NCCL": "2.18.5"}, "not stated", AZURE, "all_reduce",
     8 * GiB, 478.9, "NVLS"),
    ("anchor-h200-nvl8-nccl2.20.3", 8, 1, "H200 NVL8", H200, {"NCCL": "2.20.3"}, "not stated", UNNAMED,
     "all_reduce", 4 * GiB, 475.0, "NVLS"),
    ("anchor-h200-nvl8-nccl2.27.7", 8, 1, "H200 NVL8", H200, {"NCCL": "2.27.7"}, "not stated", UNNAMED,
     "all_reduce", 16 * GiB, 482.3, "NVLS"),
    ("anchor-b200-nvl8", 8, 1, "B200 NVL8", B200, {"NCCL": "2.27.7"}, "not stated", UNNAMED,
     "all_reduce", 8 * GiB, 838.0, ""),
    ("anchor-b200-nvl8-4g", 8, 1, "B200 NVL8", B200, {"NCCL": "2.27.7"}, "not stated", UNNAMED,
     "all_reduce", 4 * GiB, 740.6, "lower than at 8 GiB by more than the size explains, as published"),
    ("anchor-b200-nvl8-16g", 8, 1, "B200 NVL8", B200, {"NCCL": "2.27.7"}, "not stated", UNNAMED,
     "all_reduce", 16 * GiB, 845.7, ""),
    ("anchor-gb200-2trays", 8, 2, "GB200 NVL72, 2 trays", GB200, {}, "not stated", "lixueduan.com",
     "all_reduce", 0, 811.0, "size not stated"),
    ("anchor-p5-2x8-old", 16, 2, "p5.48xlarge", H100, {}, "not stated", AWS, "all_reduce", 2 * GiB, 438.0,
     "older stack; a tree over two nodes exceeds the wire"),
    ("anchor-p5en-4x8", 32, 4, "p5en.48xlarge", H200, {}, "not stated", UNNAMED, "all_reduce",
     16 * GiB, 369.1, "35.7 of 50 GB/s for each GPU's network"),
    ("anchor-p6-b200-4x8", 32, 4, "p6-b200.48xlarge", B200, {}, "not stated", UNNAMED, "all_reduce",
     16 * GiB, 381.8, "36.9 of 50 GB/s for each GPU's network"),
    ("anchor-b300-ring", 0, 0, "B300, 8 x CX8", B300, {}, "not stated", "NVIDIA/nccl issues",
     "all_reduce", 0, 760.0, "2 to 16 nodes: no one number of ranks; size not stated"),
    ("anchor-b300-nvlstree", 0, 2, "B300, 8 x CX8", B300, {}, "not stated", "NVIDIA/nccl issues",
     "all_reduce", 0, 800.0, "NVLSTree, 2 nodes; 800 or more; no ranks, no size"),
    ("anchor-h100-nvl8-ring", 8, 1, "H100 NVL8", H100, {}, "not stated", UNNAMED, "all_reduce", 0, 365.0,
     "ring; 365 to 370"),
    ("anchor-h200-nvl8-ring", 8, 1, "H200 NVL8", H200, {}, "not stated", UNNAMED, "all_reduce", 0, 367.6,
     "ring"),
    ("anchor-h200-nvl8-all_gather", 8, 1, "H200 NVL8", H200, {}, "not stated", UNNAMED, "all_gather", 0,
     361.4, ""),
    ("anchor-h200-nvl8-reduce_scatter", 8, 1, "H200 NVL8", H200, {}, "not stated", UNNAMED,
     "reduce_scatter", 0, 362.9, ""),
    ("anchor-b200-nvl8-ring", 8, 1, "B200 NVL8", B200, {"NCCL": "2.27.7"}, "not stated", UNNAMED,
     "all_reduce", 8 * GiB, 682.0, "ring"),
    ("anchor-gb200-nvl72-slide-sharp", 72, 18, "GB200 NVL72, 1 rack", GB200, {}, "not stated",
     "a slide of NVIDIA's, second hand", "all_reduce", 0, 850.0, "with SHARP"),
    ("anchor-gb200-nvl72-slide-plain", 72, 18, "GB200 NVL72, 1 rack", GB200, {}, "not stated",
     "a slide of NVIDIA's, second hand", "all_reduce", 0, 680.0, "without SHARP"),
    ("anchor-vendor-h100-multinode", 0, 0, "H100 or H200, multi-node", "", {}, "not stated",
     "Saturn / Crusoe NCCL guide", "all_reduce", 0, 400.0, "called expected, 400 to 450; no ranks, no size"),
)  # fmt: skip
# Why values that have ranks and a size are not used all the same: a reference does not say its algorithm.
NOT_USED = {"anchor-b200-nvl8-ring": "of the ring alone, where the library's own choice had 838"}


def main() -> None:
    folder = Path(sys.argv[1])
    with (folder / "INDEX.tsv").open(encoding="utf-8") as file:
        index = {row["file"]: row for row in csv.DictReader(file, delimiter="\t")}
    made: dict[str, list[Reference]] = {}
    for path in sorted(folder.iterdir()):
        if path.name in LOGS:
            log = LOGS[path.name]
            made.setdefault(log.file, []).extend(from_log(path, log, index[path.name]))
        elif path.name in index:
            made.setdefault(NCCOM.file, []).extend(from_log(path, NCCOM, index[path.name]))
    made["anchors"] = list(anchors())
    made["busbw-h200"] = list(own_results())
    DATA.mkdir(exist_ok=True)
    for name, references in made.items():
        (DATA / f"{name}.json").write_text(dump(tuple(references)), encoding="utf-8")
        print(f"{name}: {len(references)} references, {sum(len(r.points) for r in references)} points")


def from_log(path: Path, log: Log, row: dict[str, str]) -> Iterator[Reference]:
    reading = read_file(path)
    for number, table in enumerate(reading.tables, 1):
        name = log.name if len(reading.tables) == 1 else f"{log.name}-table{number}"
        try:
            record = assemble(table, origin(reading, number), Given("", None, {}), run_id="")
        except UndecidedError as error:
            yield undecided(name, log, table, reading, error.message.split(": ", 1)[-1])
            continue
        if log is NCCOM:
            # One machine is not like another, and the page does not say which one a table is of.
            yield replace(of_record(name, log, row, table, record), left_out="the page names no machine")
        else:
            yield of_record(name, log, row, table, record)


def origin(reading: Reading, number: int) -> Origin:
    return Origin(reading.path, reading.sha256, number, reading.lines, evidence=reading.evidence)


def of_record(name: str, log: Log, row: dict[str, str], table: Table, record: RunRecord) -> Reference:
    first = record.plan.cases[0]
    assert record.world is not None
    assert record.method is not None
    assert record.source is not None
    stated = re.match(r"\d+", row["ranks_label"])
    nodes = re.search(r"-(\d+)x\d+", log.name)
    points = tuple(
        Point(
            case.size_bytes,
            case.placement.value,
            _significant(result.busbw_gb_per_s or 0.0),
            (round((result.time_ns or 0.0) / 1e3, 4),),
        )
        for case, result in zip(record.plan.cases, record.results, strict=True)
        if result.time_ns and case.size_bytes > 0
    )
    return Reference(
        name=name,
        kind="log",
        operation=first.collective,
        ranks=record.world.size,
        nodes=int(nodes[1]) if nodes else 0,
        machine=log.machine,
        device=log.device,
        versions=log.versions,
        date=log.date,
        source=log.source,
        definition=record.method.time,
        points=points,
        dtype=first.dtype,
        op=first.op,
        ranks_stated=int(stated[0]) if stated else None,
        environment=log.environment or None,
        printed=printed(table),
        sha256=record.source.sha256,
        note=row["note"] if log is not NCCOM else "",
    )


def printed(table: Table) -> Printed | None:
    """The largest size's bandwidths in the log's own words; the table has read them as numbers."""
    timing = table.timings[-1]
    if timing.algbw is None or timing.busbw is None or timing.algbw.value[-1] < 5:
        return None
    return Printed(int(table.sizes[-1]), float(timing.algbw.value[-1]), float(timing.busbw.value[-1]))


def undecided(name: str, log: Log, table: Table, reading: Reading, reason: str) -> Reference:
    times = table.timings[0].time_us.value
    points = tuple(
        Point(int(size), "out-of-place", 0.0, (float(time),))
        for size, time in zip(table.sizes, times, strict=True)
    )
    reason = f"operation or ranks are not stated: {re.sub(r'/[^ ]*/', '', reason)}"
    return Reference(
        name=name, kind="log", operation="", ranks=0, nodes=0, machine=log.machine, device=log.device,
        versions=log.versions, date=log.date, source=log.source, definition=table.time, points=points,
        sha256=reading.sha256, left_out=reason,
    )  # fmt: skip


def anchors() -> Iterator[Reference]:
    for name, ranks, nodes, machine, device, versions, date, source, operation, size, busbw, note in VALUES:
        reason = NOT_USED.get(name, "")
        if not ranks or not size:
            reason = "no " + " and no ".join(["number of ranks"] * (not ranks) + ["size"] * (not size))
        yield Reference(
            name=name, kind="value", operation=operation, ranks=ranks, nodes=nodes, machine=machine,
            device=device, versions=versions, date=date, source=source,
            definition="not stated: a published bus bandwidth", points=(Point(size, "out-of-place", busbw),),
            dtype="float", op="sum" if collective(operation).reducing else "", note=note, left_out=reason,
        )  # fmt: skip


def _significant(gb_per_s: float) -> float:
    """To six digits, whatever the size: at 8 B a bandwidth has four zeros behind its point."""
    return float(f"{gb_per_s:.6g}")


def own_results() -> Iterator[Reference]:
    """Launches of busbw in its GPU benchmarks: one time a launch, so with a spread between launches."""
    for file, starts in (
        ("2026-11-21-h200/fidelity-4gpu.json", ("busbw mpirun", "busbw torchrun")),
        ("2026-11-21-h200-operations/fidelity-plain-2gpu.json", ("busbw",)),
    ):
        body: dict[str, Any] = json.loads((GPU_RESULTS / file).read_text(encoding="utf-8"))
        for operation in body["rounds"][0]:
            yield own(file, body, operation, starts)


def own(file: str, body: dict[str, Any], operation: str, starts: tuple[str, ...]) -> Reference:
    ranks, factor = body["ranks"], collective(operation).busbw_factor(body["ranks"])
    launches = [part[operation][start] for part in body["rounds"] for start in starts]
    points = []
    for case in launches[0]:
        size, placement = int(case.split()[0]), case.split()[1]
        moved = collective(operation).shape(size // 4, ranks, 4).algbw_count * 4  # hypercube has other bytes
        if not size:
            continue
        times = [round(launch[case], 4) for launch in launches if case in launch]
        points.append(
            Point(size, placement, _significant(moved / median(times) / 1e3 * factor), tuple(times))
        )
    reducing = collective(operation).reducing
    return Reference(
        name=f"busbw-h200-{ranks}gpu-{operation}", kind="own", operation=operation, ranks=ranks, nodes=1,
        machine="one host with NVLink", device=H200,
        versions={"NCCL": body["nccl"], "driver": "580.159.04"}, date="2026-11-21",
        source=f"busbw, benchmarks/gpu/results/{file}",
        definition="busbw throughput, max", points=tuple(points), dtype="float", op="sum" if reducing else "",
        environment={"NCCL_NVLS_ENABLE": "0"},
        rotated=((16 << 20, 16 << 20), (2 * GiB, 2 * GiB)),  # two sweeps: benchmarks/gpu/fidelity.py
    )  # fmt: skip


if __name__ == "__main__":
    main()
