"""A rank's facts, read from its process and its host. Some milliseconds; nothing is allocated on a GPU."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from busbw._version import __version__
from busbw.errors import SiteError
from busbw.machine.host import read_memory
from busbw.machine.nics import Nics, read_nics
from busbw.machine.place import image_name
from busbw.machine.preflight.environment import compared_variables
from busbw.machine.preflight.facts import (
    IMAGE,
    NET_PLUGIN,
    GpuFacts,
    MissingFile,
    NicFacts,
    NodeFacts,
    RankFacts,
)
from busbw.machine.sysfs import PROC, SYS, read_int, read_text
from busbw.model.plan import Plan
from busbw.rank.world.base import World, speaks_for_host
from busbw.rank.world.mpi import MpiWorld

_TICKET: Final = Path("request") / "ticket"  # of a run folder: it holds the run's id

# Device nodes that a feature needs: word -> pattern below /.
DEVICES: Final[Mapping[str, str]] = {
    "gdrdrv": "dev/gdrdrv",  # GDRCopy
    "imex": "dev/nvidia-caps-imex-channels/channel*",  # memory shared between the hosts of an NVLink domain
}
# Variables that name a file or folder. What is separated by colons is a list.
_FILES: Final = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE", "NCCL_TUNER_CONFIG_FILE")
_FOLDERS: Final = ("LD_LIBRARY_PATH", "FI_PROVIDER_PATH", "OPAL_PREFIX")
_PLUGINS: Final = ("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN")
# Linux's capability to lock memory without a limit (capabilities(7)).
_CAP_IPC_LOCK: Final = 14


def read_rank(world: World, plan: Plan) -> RankFacts:
    """What this rank says of itself; of its host too where it is the first there."""
    me = world.members[world.rank]
    files = _library_files(plan, os.environ)
    versions, builds = _components(world, files)
    gpu, driver = _gpu(me.local_rank) if plan.backend == "nccl" else (None, "")
    if driver:
        versions["NVIDIA driver"] = driver
    return RankFacts(
        rank=world.rank,
        host=me.host,
        local_rank=me.local_rank,
        versions=versions,
        builds=builds,
        environ=compared_variables(os.environ),
        net_plugin=files.get(NET_PLUGIN, ""),
        missing=tuple(missing_files(os.environ)),
        limits=read_limits(),
        gpu=gpu,
        node=read_node(plan.preflight.folder) if speaks_for_host(world) else None,
    )


# ---- software ----------------------------------------------------------------------------------------


def _components(world: World, files: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """(versions, build ids) of what must be alike."""
    versions = {"busbw": __version__}
    if image := image_name():
        versions[IMAGE] = image
    if isinstance(world, MpiWorld):
        versions["MPI"] = world.library.version
    if not any(files.values()):
        return versions, {}
    from busbw.machine.libraries import library_info

    infos = {name: library_info(path) for name, path in files.items() if path}
    versions |= {name: info.version for name, info in infos.items() if info.version}
    if "NCCL" in infos and "NCCL" not in versions:  # its file's name does not have it
        from busbw.machine.plugins import nccl_version

        versions["NCCL"] = nccl_version(files["NCCL"])
    return versions, {name: info.build_id for name, info in infos.items() if info.build_id}


def _library_files(plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    """Component -> the file that NCCL's processes will load; empty where there is none."""
    net, plugin = environ.get("NCCL_NET", ""), environ.get("NCCL_NET_PLUGIN", "")
    asked = net or plugin or any(word.startswith("net=") for word in plan.preflight.expects)
    if plan.backend != "nccl" and not asked:
        return {}
    from busbw.machine.plugins import find_library, find_plugin, plugin_values

    files = {}
    if plan.backend == "nccl":
        from busbw.machine.plugins import nccl_path

        with contextlib.suppress(SiteError):  # the backend refuses it, with all that there is to say
            files["NCCL"] = nccl_path(plan.nccl_path or None)
    if not plugin or plugin_values(plugin):
        named = next(iter(plugin_values(plugin)), "")
        files[NET_PLUGIN] = find_plugin("NCCL_NET_PLUGIN", named, environ)
    if files.get(NET_PLUGIN):
        files["libfabric"] = find_library("libfabric.so.1", environ)
    return files


def missing_files(environ: Mapping[str, str]) -> Iterator[MissingFile]:
    """What variables name and is not there."""
    for name in _FILES:
        if (path := environ.get(name, "")) and not Path(path).is_file():
            yield MissingFile(name, path, "file")
    for name in _FOLDERS:
        for path in dict.fromkeys(filter(None, environ.get(name, "").split(":"))):
            if not Path(path).is_dir():
                yield MissingFile(name, path, "folder")
    preloaded = environ.get("LD_PRELOAD", "").replace(":", " ").split()
    lacking = (path for path in preloaded if "/" in path and not Path(path).is_file())
    yield from (MissingFile("LD_PRELOAD", path, "file") for path in lacking)
    for name in filter(environ.get, _PLUGINS):
        from busbw.machine.plugins import find_plugin, plugin_values

        for value in plugin_values(environ[name]):
            if not find_plugin(name, value, environ):
                yield MissingFile(name, value, "plugin")


def read_limits(proc: Path = PROC) -> dict[str, int]:
    """Soft limits of this process, -1 where there is none."""
    memlock, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = {"memlock": memlock, "nofile": files}
    for line in read_text(proc / "self" / "status").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff" and int(value, 16) >> _CAP_IPC_LOCK & 1:
            found["memlock"] = -1  # the kernel does not check the limit of a process with this
    return {name: -1 if value == resource.RLIM_INFINITY else value for name, value in found.items()}


# ---- hardware ----------------------------------------------------------------------------------------


def _gpu(local_rank: int) -> tuple[GpuFacts | None, str]:
    from busbw.machine.gpus import read_clocks, read_own_gpu

    gpu, driver = read_own_gpu(local_rank)
    if gpu is None:
        return None, driver
    clocks = next(iter(read_clocks((gpu.uuid,))), None)
    lanes, most_lanes = _lanes(gpu.pci, SYS)
    return GpuFacts(
        uuid=gpu.uuid,
        name=gpu.name,
        links=len(gpu.nvlinks),
        links_active=sum(link.active for link in gpu.nvlinks),
        sm_max_mhz=clocks.sm_max_mhz if clocks is not None else None,
        limits=(clocks.limits or ()) if clocks is not None else (),
        lanes=lanes,
        most_lanes=most_lanes,
        sm_set_mhz=clocks.sm_set_mhz if clocks is not None else None,
        sm_default_mhz=clocks.sm_default_mhz if clocks is not None else None,
    ), driver


def read_node(folder: str = "", *, root: Path = Path("/")) -> NodeFacts:
    """This host; ``folder`` is the run folder that it should see."""
    return NodeFacts(
        nics=tuple(_nics(read_nics(sysfs=root / "sys"), root / "sys")),
        memory_bytes=read_memory(sysfs=root / "sys", proc=root / "proc").total_bytes,
        shm_bytes=_shm_bytes(root / "dev" / "shm"),
        devices=tuple(word for word, pattern in DEVICES.items() if any(root.glob(pattern))),
        # The ticket has the run's id, so another host's folder of that name is not taken for it.
        sees_folder=read_text(Path(folder) / _TICKET) == Path(folder).name if folder else None,
    )


def _nics(nics: Nics, sysfs: Path) -> Iterator[NicFacts]:
    for device in nics.rdma:
        lanes, most_lanes = _lanes(device.pci, sysfs)
        for port in device.ports:
            yield NicFacts(
                name=f"{device.name}:{port.port}",
                kind="rdma",
                up=port.state == "ACTIVE" if port.state else None,
                state=port.state,
                rate_gbit_per_s=port.rate_gbit_per_s,
                lanes=lanes,
                most_lanes=most_lanes,
                efa=device.kind == "efa",
            )
    for cxi in nics.cxi:
        lanes, most_lanes = _lanes(cxi.pci, sysfs)
        up = cxi.state.lower() == "up" if cxi.state else None
        yield NicFacts(cxi.name, "cxi", up, cxi.state, None, lanes, most_lanes)
    for each in nics.interfaces:
        # "unknown" is what drivers without a notion of it say of an interface that works.
        up = {"up": True, "unknown": None}.get(each.state, False)
        yield NicFacts(each.name, "net", up, each.state, each.speed_gbit_per_s)


def _lanes(pci: str, sysfs: Path) -> tuple[int, int]:
    """PCIe lanes in use and of the device; (0, 0) where the kernel does not say."""
    device = sysfs / "bus" / "pci" / "devices" / pci
    if not pci:
        return 0, 0
    return read_int(device / "current_link_width") or 0, read_int(device / "max_link_width") or 0


def _shm_bytes(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize
