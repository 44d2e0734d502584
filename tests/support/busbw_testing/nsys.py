"""SQLite exports in the format that Nsight Systems documents (SQLite schema reference, 2021 to 2025), with
the tables and columns that busbw reads and some that it does not.

Their contents are made up: not run on hardware. NVTX_EVENTS is as 2022.4.2 wrote it on a host without GPUs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA: Mapping[str, str] = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL,"
    " nameEnum INTEGER NOT NULL, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,"
    " streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,"
    " shortName INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER,"
    " globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,"
    " globalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, jsonTextId INTEGER,"
    " jsonText TEXT",
    "TARGET_INFO_NIC_INFO": "globalId INTEGER, stateName TEXT NOT NULL, nicId INTEGER NOT NULL,"
    " name TEXT NOT NULL, deviceId INTEGER NOT NULL, vendorId INTEGER NOT NULL, linkLayer INTEGER NOT NULL",
    "NIC_ID_MAP": "nicId INTEGER NOT NULL, globalId INTEGER NOT NULL",
    "TARGET_INFO_NETWORK_METRICS": "metricsListId INTEGER NOT NULL, metricsIdx INTEGER NOT NULL,"
    " name TEXT NOT NULL, description TEXT NOT NULL, unit TEXT NOT NULL",
    "NET_NIC_METRIC": "start INTEGER NOT NULL, end INTEGER NOT NULL, globalId INTEGER NOT NULL,"
    " portId INTEGER, metricsListId INTEGER NOT NULL, metricsIdx INTEGER NOT NULL, value INTEGER NOT NULL",
    "GENERIC_EVENT_TYPES": "typeId INTEGER NOT NULL PRIMARY KEY, sourceId INTEGER NOT NULL, data TEXT",
    "GENERIC_EVENTS": "rawTimestamp INTEGER NOT NULL, timestamp INTEGER, typeId INTEGER NOT NULL, data TEXT",
}
PROCESS = (281906738 << 24) >> 0
THREAD = PROCESS | 7
PUSH_POP = 59


@dataclass
class Recorded:
    """What a rank's export holds. ``drop`` are tables that this version or recording does not have."""

    rank: int = 0
    ranks: int = 2
    host: str = "node0"
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    strings: list[str] = field(default_factory=list)
    now_ns: int = 1_000_000
    launches: int = 0

    def add(self, table: str, **values: Any) -> None:
        self.rows.setdefault(table, []).append(values)

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text) + 1

    def communicator(self) -> None:
        """NCCL's range of making it, which says who this rank is."""
        said = {"NCCL communicator ID": 77, "No. of ranks": self.ranks, "Rank": self.rank, "CUDA device": 0}
        self._range("ncclCommInitRank", 500, json.dumps(said))

    def call(
        self, kernel: str, duration_ns: int, *, size_bytes: int | None = None, own: str = "", nccl: str = ""
    ) -> None:
        """A call: ranges of busbw (``own``) and NCCL around the launch, and its kernel later."""
        start = self.now_ns
        self.launches += 1
        if own:
            self.add("NVTX_EVENTS", start=start, end=start + 900, eventType=PUSH_POP, text=own,
                     globalTid=THREAD, domainId=2)  # fmt: skip
        if size_bytes is not None:
            said = {"NCCL communicator ID": 77, "Message size [bytes]": size_bytes}
            self.add("NVTX_EVENTS", start=start + 10, end=start + 800, eventType=PUSH_POP,
                     globalTid=THREAD, textId=self.string(nccl or "ncclAllReduce"), domainId=1,
                     jsonText=json.dumps(said))  # fmt: skip
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=start + 100, end=start + 200, globalTid=THREAD,
                 correlationId=self.launches, nameId=self.string("cudaLaunchKernelExC"),
                 returnValue=0)  # fmt: skip
        began = start + 5_000  # long after its range: only the launch ties them
        self.add("CUPTI_ACTIVITY_KIND_KERNEL", start=began, end=began + duration_ns, deviceId=0, streamId=7,
                 correlationId=self.launches, globalPid=PROCESS, shortName=self.string(kernel),
                 demangledName=self.string(f"{kernel}(ncclDevKernelArgsStorage<4096ul>)"))  # fmt: skip
        self.now_ns += 1_000

    def infiniband(
        self, device: str, number: int, counter: str, values: Sequence[int], unit: str = "bytes"
    ) -> None:
        """Samples of 1 ms; ``number`` is the NIC's."""
        index = {"IB: Bytes sent": 1, "IB: Bytes received": 2}.get(counter, 3)
        self.add("TARGET_INFO_NIC_INFO", globalId=1, stateName="s", nicId=number, name=device, deviceId=1,
                 vendorId=1, linkLayer=1)  # fmt: skip
        self.add("NIC_ID_MAP", nicId=number, globalId=9000 + number)
        self.add("TARGET_INFO_NETWORK_METRICS", metricsListId=4, metricsIdx=index, name=counter,
                 description=counter, unit=unit)  # fmt: skip
        for at, value in enumerate(values):
            self.add("NET_NIC_METRIC", start=at * 1_000_000, end=(at + 1) * 1_000_000, globalId=9000 + number,
                     portId=1, metricsListId=4, metricsIdx=index, value=value)  # fmt: skip

    def generic(self, body: Mapping[str, object], at_ns: int, kind: str = "EFA metrics") -> None:
        if not self.rows.get("GENERIC_EVENT_TYPES"):
            self.add("GENERIC_EVENT_TYPES", typeId=5, sourceId=1, data=json.dumps({"Name": kind}))
        self.add("GENERIC_EVENTS", rawTimestamp=at_ns, timestamp=at_ns, typeId=5, data=json.dumps(body))

    def write(self, path: Path, *, drop: Sequence[str] = (), drop_columns: Mapping[str, str] = {}) -> Path:
        """The file, with tables for what was recorded only."""
        self.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.4.1.136")
        self.add("TARGET_INFO_SYSTEM_ENV", globalVid=1, devStateName="Local (CLI)", name="Hostname",
                 nameEnum=619, value=self.host)  # fmt: skip
        with sqlite3.connect(path) as database:
            for table in (*self.rows, "StringIds"):
                if table in drop:
                    continue
                database.execute(f"CREATE TABLE {table} ({SCHEMA[table]})")
                for row in self.rows.get(table, []):
                    names = ", ".join(row)
                    database.execute(
                        f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})",
                        tuple(row.values()),
                    )
            database.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(self.strings, 1))
            for table, column in drop_columns.items():
                database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        database.close()
        return path

    def _range(self, name: str, duration_ns: int, said: str) -> None:
        self.add("NVTX_EVENTS", start=self.now_ns, end=self.now_ns + duration_ns, eventType=PUSH_POP,
                 globalTid=THREAD, textId=self.string(name), domainId=1, jsonText=said)  # fmt: skip
        self.now_ns += duration_ns
