"""``busbw devices``: what would be measured here, and why a backend is not usable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from busbw.cli.app import TextOrJson, flag
from busbw.cli.output import as_json, show
from busbw.errors import BusbwError, ExitCode
from busbw.launch.local import rank_count
from busbw.machine.backends import BackendStatus, backend_status, choose_backend
from busbw.machine.gpus import Gpu, Gpus, read_gpus
from busbw.machine.host import AvailableMemory, Host, available_memory_bytes, read_host
from busbw.machine.libraries import LibraryInfo, library_info, mapped_libraries
from busbw.machine.mpi import find_mpi, library_version_text
from busbw.machine.nics import Nics, read_nics
from busbw.rank.world.identity import identify
from busbw.rank.world.mpi_library import loaded_library
from busbw.report.console import columns
from busbw.report.fields import UNBOUND, aligned
from busbw.units import format_approximate_size

NONE_FOUND: Final = "none found"
# The build id in a table tells copies apart; the whole of it is in --format json.
_BUILD_ID_DIGITS: Final = 12


@dataclass(frozen=True)
class RunDefaults:
    """What ``busbw run`` without flags takes here; ``problem`` where it would refuse, with what to try."""

    backend: str = ""
    ranks: int | None = None
    launcher: str = ""
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Survey:
    """Everything that was found on one machine."""

    choice: RunDefaults
    backends: tuple[BackendStatus, ...]
    gpus: Gpus
    nics: Nics
    libraries: tuple[LibraryInfo, ...]
    host: Host
    memory: AvailableMemory


@dataclass(frozen=True)
class Section:
    """A titled table. ``note`` stands in for the rows where there are none."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = NONE_FOUND


def devices(
    *,
    nccl: Annotated[str, flag("Look at this libnccl.so (or its folder).")] = "",
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """Print what this machine offers; ENVIRONMENT where no backend is usable."""
    survey = read_survey(nccl or None)
    show(format, lines(sections(survey), columns(UNBOUND)), json=lambda: as_json(to_json(survey)))
    return ExitCode.OK if any(status.usable for status in survey.backends) else ExitCode.ENVIRONMENT


def read_survey(nccl: str | None) -> Survey:
    """Ask all probes. Loads libnccl where a GPU is visible, and libmpi for its version; starts neither."""
    host = read_host()
    backends, choice, gpus = backend_status(nccl), _choice(nccl), read_gpus()
    # Libraries that asking has loaded (driver, NVML, NCCL), and the MPI library that mpi4py would take.
    found = {library.path: library for library in mapped_libraries()}
    library = find_mpi(os.environ).library
    if library is not None and library.path:
        text = library_version_text(Path(library.path))
        version = loaded_library(text).version if text else ""
        found[library.path] = library_info(library.path, version=version)
    return Survey(
        choice=choice,
        backends=backends,
        gpus=gpus,
        nics=read_nics(),
        libraries=tuple(found[path] for path in sorted(found)),
        host=host,
        memory=available_memory_bytes(host.memory),
    )


def to_json(survey: Survey) -> dict[str, Any]:
    """Plain values; ``usable`` beside each backend's reasons."""
    fields = asdict(survey)
    fields["backends"] = [{**asdict(status), "usable": status.usable} for status in survey.backends]
    return fields


def _choice(nccl: str | None) -> RunDefaults:
    try:
        identity = identify(os.environ)
        backend = choose_backend("auto", nccl)
        if identity is not None:
            if backend == "mpi" and identity.world != "mpi":
                problem = f"CPU ranks communicate over MPI, but {identity.launcher} does not set up MPI"
                hint = "start the ranks with mpirun or srun --mpi=..., or use --backend nccl on GPUs"
                return RunDefaults(launcher=identity.launcher, problem=problem, hint=hint)
            return RunDefaults(backend, identity.size, identity.launcher)
        return RunDefaults(backend, rank_count(None, backend))
    except BusbwError as error:
        return RunDefaults(problem=error.message, hint=error.hint)


def sections(survey: Survey) -> tuple[Section, ...]:
    """The survey in the order in which a reader asks: what runs, why not, on what."""
    return (
        Section("run", ("", ""), tuple(_choice_rows(survey.choice))),
        Section("backends", ("backend", "usable", "details"), tuple(_backends(survey.backends))),
        Section(
            "GPUs",
            ("gpu", "name", "memory", "capability", "PCI", "NUMA", "NVLink", "UUID"),
            tuple(_gpu(gpu) for gpu in survey.gpus.gpus),
            survey.gpus.presence.problem or NONE_FOUND,
        ),
        Section(
            "NICs",
            ("nic", "kind", "state", "speed", "driver", "NUMA", "interfaces"),
            tuple(_nics(survey.nics)),
        ),
        Section(
            "libraries",
            ("library", "version", "build id", "path"),
            tuple(
                (
                    each.soname or each.path.rpartition("/")[2],
                    each.version or "unknown",
                    each.build_id[:_BUILD_ID_DIGITS] or "none",
                    each.path,
                )
                for each in survey.libraries
            ),
        ),
        Section("host", ("", ""), tuple(_host(survey.host, survey.memory))),
    )


def _choice_rows(choice: RunDefaults) -> Iterator[tuple[str, ...]]:
    if choice.backend:
        size = "?" if choice.ranks is None else str(choice.ranks)
        start = f"joining {choice.launcher}" if choice.launcher else "started on this host"
        yield "takes", f"backend {choice.backend}, {size} rank{'' if size == '1' else 's'}, {start}"
    if choice.problem:
        yield "refuses", choice.problem
    if choice.hint:
        yield "hint", choice.hint


def _backends(statuses: Sequence[BackendStatus]) -> Iterator[tuple[str, ...]]:
    for status in statuses:
        if status.usable:
            yield status.name, "yes", status.detail
        for index, reason in enumerate(status.reasons):
            yield ("" if index else status.name), ("" if index else "no"), reason.text
            if reason.hint:
                yield "", "", f"hint: {reason.hint}"


def _gpu(gpu: Gpu) -> tuple[str, ...]:
    active = sum(link.active for link in gpu.nvlinks)
    speed = f" x {gpu.nvlink_gb_per_s:g} GB/s" if gpu.nvlink_gb_per_s else ""
    links = f"{active} of {len(gpu.nvlinks)}{speed}" if gpu.nvlinks else "none"
    capability = ".".join(map(str, gpu.compute_capability))
    memory, numa = format_approximate_size(gpu.memory_bytes), _numa(gpu.numa_node)
    return str(gpu.ordinal), gpu.name, memory, capability, gpu.pci, numa, links, gpu.uuid


def _nics(nics: Nics) -> Iterator[tuple[str, ...]]:
    for device in nics.rdma:
        for port in device.ports:
            rate = f"{port.rate_gbit_per_s:g} Gbit/s" if port.rate_gbit_per_s else port.rate_note or "unknown"
            name = device.name if len(device.ports) == 1 else f"{device.name}:{port.port}"
            interfaces = " ".join(device.netdevs)
            yield name, device.kind, port.state, rate, device.driver, _numa(device.numa_node), interfaces
    for cxi in nics.cxi:
        yield cxi.name, "slingshot", cxi.state, cxi.speed, "cxi", _numa(cxi.numa_node), " ".join(cxi.netdevs)
    for link in nics.interfaces:
        if not link.pci and link.state != "up":
            continue  # bridges and other virtual ones that carry nothing; all are in --format json
        rate = f"{link.speed_gbit_per_s:g} Gbit/s" if link.speed_gbit_per_s else "unknown"
        kind = "ethernet" if link.pci else "virtual"
        yield link.name, kind, link.state, rate, link.driver, _numa(link.numa_node), ""


def _host(host: Host, memory: AvailableMemory) -> Iterator[tuple[str, ...]]:
    processors = host.processors
    yield "name", f"{host.hostname}, {host.os}, Linux {host.kernel}"
    counts = f"{processors.cores} cores, {processors.threads} threads; {processors.usable_cores} usable here"
    yield "processors", f"{processors.sockets} x {processors.model}, {counts}"
    size = "unknown" if memory.size_bytes is None else format_approximate_size(memory.size_bytes)
    yield "memory", f"{size} available ({memory.reason})"


def _numa(node: int | None) -> str:
    return "" if node is None else str(node)


_UUID_COLUMNS: Final = 150  # of a terminal with room for one


def lines(parts: Sequence[Section], width: int = UNBOUND) -> Iterator[str]:
    """Each section under its title, in columns that line up. Where a terminal has no room for a UUID, it is
    in --format json alone.
    """
    for position, part in enumerate(parts):
        yield from ("",) if position else ()
        yield part.title
        shown = [at for at, title in enumerate(part.columns) if title != "UUID" or width >= _UUID_COLUMNS]
        head = [part.columns] if any(part.columns) else []
        rows = [[row[at] for at in shown] for row in (*head, *part.rows)]
        yield from (f"  {line}" for line in (aligned(rows) if part.rows else [part.note]))
