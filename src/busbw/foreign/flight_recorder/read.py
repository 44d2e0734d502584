"""Dumps of PyTorch's flight recorder, a file a rank: JSON, or pickles of plain values.

PyTorch writes them to TORCH_FR_DUMP_TEMP_FILE (before 2.9 TORCH_NCCL_DEBUG_INFO_TEMP_FILE) and the rank; the
fields are those of torch/csrc/distributed/c10d/FlightRecorder.hpp, version 2.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError, why
from busbw.model.hang import Group, Recorded

_RANK: Final = re.compile(r"(\d+)(?:\.(?:json|pkl|pickle))?$")
_LARGEST_BYTES: Final = 256 * 2**20  # 2,000 entries with stacks are a few MiB


class _PlainValues(pickle.Unpickler):
    """Builds nothing but dictionaries, lists, texts and numbers: a stranger's pickle can run no code."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 (as Unpickler has it)
        raise pickle.UnpicklingError(f"it holds an object ({module}.{name}), which is not loaded")


def read_folder(folder: Path) -> tuple[Group, ...]:
    """The groups of all dumps in a folder, the largest first. Raises UsageError where there is none, or one
    cannot be read.
    """
    try:
        files = [path for path in folder.iterdir() if path.is_file()]
    except OSError as error:
        raise UsageError(f"{folder}: {why(error)}", hint="name the folder that holds the dumps") from error
    ranks = {int(found[1]): path for path in files if (found := _RANK.search(path.name))}
    if not ranks:
        raise UsageError(
            f"{folder} holds no dump of a flight recorder",
            hint="name the folder with the files that PyTorch wrote, such as nccl_trace_rank_0",
        )
    members: dict[str, set[int]] = {}
    entries: dict[str, dict[int, dict[int, Recorded]]] = {}  # by group, rank and number
    for rank, path in sorted(ranks.items()):
        of_groups, of_rank = _read(path)
        for name, own in of_groups.items():
            members.setdefault(name, set()).update(own)
        for entry_group, entry in of_rank:
            entries.setdefault(entry_group, {}).setdefault(rank, {})[entry.number] = entry
    groups = []
    for name, recorded in entries.items():
        own = members.get(name) or set(ranks)
        by_rank = {rank: recorded.get(rank, {}) for rank in sorted(own & set(ranks))}
        groups.append(Group(name, tuple(sorted(own)), by_rank))
    return tuple(sorted(groups, key=lambda group: -len(group.members)))


def _read(path: Path) -> tuple[dict[str, set[int]], list[tuple[str, Recorded]]]:
    """The ranks of each group that a rank knows, and its entries with their groups."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
        if len(data) > _LARGEST_BYTES:
            raise ValueError("it is too large")
        told = json.loads(data) if data.lstrip()[:1] == b"{" else _PlainValues(io.BytesIO(data)).load()
        members = {  # ranks are a text such as "[0, 1]", or a list
            str(name): {int(rank) for rank in re.findall(r"\d+", str(config.get("ranks", "")))}
            for name, config in (told.get("pg_config") or {}).items()
        }
        collectives = [each for each in told["entries"] if not each.get("is_p2p")]
        return members, [(str(each["process_group"][0]), _entry(each)) for each in collectives]
    except Exception as error:  # a damaged pickle raises nearly anything
        raise UsageError(
            f"{path} is no dump of a flight recorder: {why(error)}", hint="move other files elsewhere"
        ) from error


def _entry(told: Mapping[str, Any]) -> Recorded:
    frames = told.get("frames") or ()
    return Recorded(
        number=int(told["collective_seq_id"]),
        operation=str(told.get("profiling_name", "")).removeprefix("nccl:"),
        sizes=tuple(tuple(int(n) for n in size) for size in told.get("input_sizes", ())),
        types=tuple(str(name) for name in told.get("input_dtypes", ())),
        state=str(told.get("state", "")),
        frames=tuple(f"{each.get('name')} ({each.get('filename')}:{each.get('line')})" for each in frames),
    )
