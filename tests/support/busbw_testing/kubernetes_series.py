"""What is in the folders of a series of setups that was launched on Kubernetes."""

from __future__ import annotations

import json
from typing import Any


def launches(busbw: Any) -> list[dict[str, Any]]:
    """What is in the folders of the launches that have a record, in their order."""
    found = []
    for folder in sorted((busbw.run_folder / "launches").iterdir()):
        if (folder / "run.json").is_file():
            record = json.loads((folder / "run.json").read_text())
            job = json.loads((folder / "request/job.json").read_text())
            found.append({"name": folder.name, "record": record, "job": job})
    return found


def outcomes(busbw: Any, setup: str) -> list[dict[str, Any]]:
    found = json.loads((busbw.run_folder / "setups.json").read_text())["outcomes"]
    return [one for one in found if one["setup"] == setup]


def places(record: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((place["pod"], place["kubernetes_node"]) for place in record["world"]["places"])
