"""All readers together, in the form that a record keeps: plain dictionaries, ready for JSON."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from busbw.machine.environment import read_environment
from busbw.machine.gpus import read_clocks, read_gpus
from busbw.machine.host import available_memory_bytes, read_host
from busbw.machine.libraries import mapped_libraries
from busbw.machine.nics import read_nics
from busbw.machine.place import read_image


def read_machine() -> dict[str, Any]:
    """This host as it is now."""
    return with_libraries(read_hardware())


def with_libraries(hardware: dict[str, Any]) -> dict[str, Any]:
    """With the libraries that are mapped into this process: call it once the backend has loaded its own."""
    libraries = [asdict(library) for library in mapped_libraries()]
    return {**hardware, "libraries": libraries, "image": read_image()}


def read_hardware() -> dict[str, Any]:
    """This host without what this process has loaded."""
    host, gpus = read_host(), read_gpus()
    return {
        "host": asdict(host),
        "available_memory": asdict(available_memory_bytes(host.memory)),
        "nics": asdict(read_nics()),
        "gpus": asdict(gpus),
        "gpu_clocks": [asdict(clocks) for clocks in read_clocks(tuple(gpu.uuid for gpu in gpus.gpus))],
    }


def read_environment_record() -> dict[str, Any]:
    """The environment of this process, by allow-list and without secrets."""
    return asdict(read_environment(os.environ))
