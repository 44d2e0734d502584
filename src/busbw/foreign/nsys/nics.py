"""Rates of NICs in an export: InfiniBand from NET_NIC_METRIC, EFA from wherever its counters' names are.

Samples of NET_NIC_METRIC are what was counted between start and end, or a rate where the metric's unit says
so. The sampler of EFA is a plugin whose rows are not documented: GENERIC_EVENTS with JSON are read where a
field carries the name of a counter of the EFA driver, and taken as rates or as counts as their unit says.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from busbw.foreign.nsys.tables import Export, json_object
from busbw.model.profile import NicRate
from busbw.units import gb_per_s

# Hardware counters of the EFA driver in bytes.
_EFA: Final = re.compile(
    r"(tx_bytes|rx_bytes|send_bytes|recv_bytes|rdma_(?:read|write)(?:_resp|_recv)?_bytes)"
)
_OF_BYTES: Final = re.compile(r"\bbytes (?:sent|received)\b", re.IGNORECASE)
_DEVICE_FIELDS: Final = ("device", "nic", "adapter", "name", "interface")
_UNITS: Final = {"b": 1.0, "bytes": 1.0, "byte": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10,
                 "mib": 2**20, "gib": 2**30}  # fmt: skip

_LEAST_RISES: Final = 4  # of one device: rates that scatter rise so often one time in 120

Series = dict[tuple[str, str], list[tuple[int, int, float]]]  # device, counter: start, end, value


def read_nics(export: Export, host: str) -> tuple[tuple[NicRate, ...], tuple[str, ...]]:
    """Every counter of bytes that the export has, and what is missing."""
    found = [*_metrics(export, host), *_generic(export, host)]
    if found:
        return tuple(found), ()
    if not export.tables & {"NET_NIC_METRIC", "GENERIC_EVENTS"}:
        return (), (
            "no NIC was sampled: profile with --nic-metrics (InfiniBand), --enable efa_metrics (EFA)",
        )
    return (), ("no metric of NICs is one of bytes: sample them with --nic-metrics or --enable efa_metrics",)


def _metrics(export: Export, host: str) -> Iterator[NicRate]:
    named = {
        (first, index): (str(name), str(unit or ""))
        for first, index, name, unit in export.rows(
            "TARGET_INFO_NETWORK_METRICS", ("metricsListId", "metricsIdx", "name", "unit")
        )
    }
    devices = {
        number: str(name) for number, name in export.rows("TARGET_INFO_NIC_INFO", ("nicId", "name")) if name
    }
    of_global = {
        one: devices.get(number, "") for number, one in export.rows("NIC_ID_MAP", ("nicId", "globalId"))
    }
    series: Series = defaultdict(list)
    units: dict[str, str] = {}
    wanted = ("start", "end", "globalId", "portId", "metricsListId", "metricsIdx", "value")
    for start, end, one, port, first, index, value in export.rows("NET_NIC_METRIC", wanted):
        name, unit = named.get((first, index), ("", ""))
        if not (_OF_BYTES.search(name) or _EFA.search(name)) or end is None or value is None:
            continue
        device = of_global.get(one) or f"NIC {one}"
        units[name] = unit
        key = (device if port is None else f"{device} port {port}", name)
        series[key].append((int(start), int(end), float(value)))
    for (device, name), rows in series.items():
        rates = _sampled(sorted(rows), units[name])
        if rates:
            yield NicRate(host, device, name, rates)


def _sampled(rows: list[tuple[int, int, float]], unit: str) -> tuple[float, ...]:
    """Each interval's own bytes over its own time, unless the unit is one of rates already."""
    word, slash, _ = unit.strip().partition("/")
    scale = _UNITS.get(word.strip().lower() or "bytes")
    if scale is None:
        return ()
    if slash or word.lower().endswith("ps"):
        return tuple(value * scale / 1e9 for _, _, value in rows)
    return tuple(gb_per_s(value * scale, end - start) for start, end, value in rows if end > start)


def _generic(export: Export, host: str) -> Iterator[NicRate]:
    texts = _type_texts(export)
    series: Series = defaultdict(list)
    said: dict[str, str] = {}
    for time_ns, raw_ns, kind, text in export.rows(
        "GENERIC_EVENTS", ("timestamp", "rawTimestamp", "typeId", "data")
    ):
        body = json_object(text)
        device = next((str(value) for key, value in body.items() if key.lower() in _DEVICE_FIELDS), "")
        at = int(raw_ns if time_ns is None else time_ns)
        for key, value in body.items():
            match = _EFA.search(key)
            if match is None or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            own = key[: match.start()].strip(" ._:/-") or device or texts.get(kind, "NIC")
            series[own, match[1]].append((at, at, float(value)))
            said[match[1]] = key + " " + texts.get(kind, "")
    by_counter: dict[str, dict[str, list[tuple[int, int, float]]]] = defaultdict(dict)
    for (device, counter), rows in series.items():
        by_counter[counter][device] = sorted(rows)
    for counter, devices in by_counter.items():
        is_rate = _is_rate(list(devices.values()), said[counter])
        for device, rows in devices.items():
            rates = () if is_rate is None else _taken(rows, is_rate=is_rate)
            if is_rate is None or rates:
                yield NicRate(host, device, counter, rates)


def _is_rate(devices: Sequence[Sequence[tuple[int, int, float]]], said: str) -> bool | None:
    """Whether the values of a counter are rates in bytes a second: where their description says so, or where
    they fall on some device, as a count never does. They are counts where some device's rise again and again
    and none's fall. None of anything else that is above zero: it is either.
    """
    steps = [[after[2] - before[2] for before, after in pairwise(rows)] for rows in devices]
    if re.search(r"rate|/s\b|per.second", said, re.IGNORECASE):
        return True
    if any(step < 0 for own in steps for step in own):
        return True
    if max(sum(step > 0 for step in own) for own in steps) >= _LEAST_RISES:
        return False
    return None if any(value for rows in devices for *_, value in rows) else True


def _taken(rows: Sequence[tuple[int, int, float]], *, is_rate: bool) -> tuple[float, ...]:
    if is_rate:
        return tuple(value / 1e9 for _, _, value in rows)
    return tuple(
        gb_per_s(after[2] - before[2], after[0] - before[0])
        for before, after in pairwise(rows)
        if after[0] > before[0]
    )


def _type_texts(export: Export) -> Mapping[Any, str]:
    """What an event type calls itself: its JSON has a name, and newer versions a column."""
    rows = export.rows("GENERIC_EVENT_TYPES", ("typeId", "data", "nameId"))
    return {
        kind: str(json_object(data).get("Name") or json_object(data).get("name") or export.string(name_id))
        for kind, data, name_id in rows
    }
