from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.machine.cgroups import MemoryGroup, cpu_quota, memory_groups
from busbw.machine.host import (
    Memory,
    available_memory_bytes,
    read_host,
    read_memory,
    read_processors,
    stalled_ns,
)

GIB = 2**30
WriteTree = Callable[[dict[str, str]], Path]

MEMINFO = (
    "MemTotal:       32505856 kB\nMemFree:        1000 kB\nMemAvailable:   31457280 kB\n"  # 31 and 30 GiB
)
V2_MOUNT = "32 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
)


def memory_of(tree: Path) -> Memory:
    return read_memory(sysfs=tree / "sys", proc=tree / "proc")


def groups_of(tree: Path) -> tuple[MemoryGroup, ...]:
    return memory_groups(tree / "proc", tree / "sys")


class TestMemoryGroups:
    def test_version_2_up_the_hierarchy(self, write_tree: WriteTree) -> None:
        tree = write_tree(
            {
                "proc/self/cgroup": "0::/job.slice/step_0/task_1\n",
                "proc/self/mountinfo": V2_MOUNT,
                "sys/fs/cgroup/cgroup.controllers": "memory cpu",
                "sys/fs/cgroup/job.slice/memory.max": f"{16 * GIB}\n",
                "sys/fs/cgroup/job.slice/memory.high": "max\n",
                "sys/fs/cgroup/job.slice/memory.current": f"{9 * GIB}\n",
                "sys/fs/cgroup/job.slice/memory.stat": f"inactive_file {3 * GIB}\nactive_file {GIB}\n",
                "sys/fs/cgroup/job.slice/step_0/memory.max": "max\n",
                "sys/fs/cgroup/job.slice/step_0/task_1/memory.max": f"{20 * GIB}\n",
                "sys/fs/cgroup/job.slice/step_0/task_1/memory.high": f"{18 * GIB}\n",
            }
        )
        inner, outer = groups_of(tree)
        assert (inner.limit_bytes, inner.usage_bytes, inner.free_bytes) == (18 * GIB, 0, 18 * GIB)
        assert outer.path == str(tree / "sys/fs/cgroup/job.slice")
        assert outer.free_bytes == 11 * GIB  # 16 - (9 used - 4 that the kernel would drop)

    def test_version_1(self, write_tree: WriteTree) -> None:
        tree = write_tree(
            {
                "proc/self/cgroup": "4:memory:/slurm/uid_0/job_7\n3:cpu,cpuacct:/slurm\n0::/\n",
                "proc/self/mountinfo": V1_MOUNTS,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/slurm/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.limit_in_bytes": f"{8 * GIB}\n",
                "sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.usage_in_bytes": f"{3 * GIB}\n",
                "sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.stat": f"total_inactive_file {GIB}\n",
            }
        )
        (group,) = groups_of(tree)
        assert (group.version, group.limit_bytes, group.free_bytes) == (1, 8 * GIB, 6 * GIB)

    def test_container_that_shows_only_its_own_subtree(self, write_tree: WriteTree) -> None:
        tree = write_tree(
            {
                "proc/self/cgroup": "4:memory:/docker/abc/worker\n",
                "proc/self/mountinfo": "1 2 0:3 /docker/abc /sys/fs/cgroup/memory ro - cgroup none ro,memory",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{4 * GIB}",
                "sys/fs/cgroup/memory/worker/memory.limit_in_bytes": f"{2 * GIB}",
            }
        )
        assert [group.limit_bytes for group in groups_of(tree)] == [2 * GIB, 4 * GIB]

    def test_container_without_a_namespace_falls_back_to_the_mount(self, write_tree: WriteTree) -> None:
        tree = write_tree(
            {
                "proc/self/cgroup": "0::/../../kubepods/pod1\n",
                "proc/self/mountinfo": V2_MOUNT,
                "sys/fs/cgroup/memory.max": f"{4 * GIB}",
                "sys/kubepods/pod1/memory.max": f"{1 * GIB}",  # where the path would lead outside the mount
            }
        )
        assert [group.limit_bytes for group in groups_of(tree)] == [4 * GIB]

    def test_a_usage_above_the_limit_leaves_nothing(self) -> None:
        assert MemoryGroup("g", 2, limit_bytes=10, usage_bytes=20, reclaimable_bytes=5).free_bytes == 0

    def test_nothing_mounted(self, tmp_path: Path) -> None:
        assert groups_of(tmp_path) == ()
        assert cpu_quota(tmp_path, tmp_path) is None


class TestCpuQuota:
    def test_tightest_of_the_hierarchy_counts(self, write_tree: WriteTree) -> None:
        tree = write_tree(
            {
                "proc/self/cgroup": "0::/a/b\n",
                "proc/self/mountinfo": V2_MOUNT,
                "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
            }
        )
        assert cpu_quota(tree / "proc", tree / "sys") == 1.5
        processors = read_processors(sysfs=tree / "sys", proc=tree / "proc")
        assert processors.quota_cores == 1.5
        assert processors.usable_cores == 1

    def test_version_1_and_no_limit(self, write_tree: WriteTree) -> None:
        tree = write_tree(
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/\n",
                "proc/self/mountinfo": V1_MOUNTS,
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            }
        )
        assert cpu_quota(tree / "proc", tree / "sys") is None
        (tree / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us").write_text("250000\n")
        assert cpu_quota(tree / "proc", tree / "sys") == 2.5


class TestProcessors:
    def test_topology_and_model(self, write_tree: WriteTree) -> None:
        files = {"proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\n\nprocessor\t: 1\n"}
        for cpu in range(8):  # 2 sockets of 2 cores with 2 threads each
            topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
            files[f"{topology}/physical_package_id"] = str(cpu // 4)
            files[f"{topology}/core_id"] = str(cpu % 2)
        files["sys/devices/system/cpu/cpu8/online"] = "0"  # unplugged: no topology
        files["sys/devices/system/cpu/cpufreq/boost"] = "1"
        tree = write_tree(files)
        processors = read_processors(sysfs=tree / "sys", proc=tree / "proc")
        assert (processors.threads, processors.cores, processors.sockets) == (8, 4, 2)
        assert processors.model == "AMD EPYC 9654"
        assert processors.quota_cores is None
        assert processors.usable_cores == processors.affinity_cores == len(os.sched_getaffinity(0))

    def test_affinity_is_this_process_s(self, write_tree: WriteTree) -> None:
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(before)})
        try:
            assert read_processors().usable_cores == 1
        finally:
            os.sched_setaffinity(0, before)


class TestMemory:
    @pytest.mark.parametrize(
        ("limit", "size", "reason"),
        [
            (None, 30, "MemAvailable of the host"),
            (8, 8, "limit of the control group"),
            (31, 30, "MemAvailable of the host"),  # more than the machine has left
        ],
    )
    def test_a_machine_and_a_group_below_it(
        self, write_tree: WriteTree, limit: int | None, size: int, reason: str
    ) -> None:
        memory = memory_of(write_tree({"proc/meminfo": MEMINFO} | limited_to(limit)))
        assert (memory.total_bytes, memory.available_bytes) == (31 * GIB, 30 * GIB)
        assert memory.grows_on_demand == ""
        available = available_memory_bytes(memory)
        assert available.size_bytes == size * GIB
        assert available.reason.startswith(reason)

    @pytest.mark.parametrize("limit", [None, 20])
    def test_memory_that_grows_is_not_known_without_a_limit(
        self, write_tree: WriteTree, limit: int | None
    ) -> None:
        files = {"sys/bus/virtio/drivers/virtio_mem/virtio3": "-> sys/devices/virtio3"} | limited_to(limit)
        available = available_memory_bytes(memory_of(write_tree({"proc/meminfo": MEMINFO} | files)))
        assert available.size_bytes == (None if limit is None else limit * GIB)
        assert ("virtio_mem" in available.reason) is (limit is None)

    def test_a_driver_without_a_device_says_nothing(self, write_tree: WriteTree) -> None:
        tree = write_tree({"proc/meminfo": MEMINFO, "sys/bus/virtio/drivers/virtio_mem/bind": ""})
        assert memory_of(tree).grows_on_demand == ""

    def test_gvisor(self, write_tree: WriteTree) -> None:
        tree = write_tree({"proc/meminfo": MEMINFO, "proc/version": "Linux version 4.19.0-gvisor #1 SMP\n"})
        assert "gVisor" in memory_of(tree).grows_on_demand


def limited_to(limit: int | None) -> dict[str, str]:
    """Files of a control group with a limit in GiB, if any."""
    files = {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": V2_MOUNT}
    return {} if limit is None else {**files, "sys/fs/cgroup/memory.max": str(limit * GIB)}


def test_host_of_a_tree(write_tree: WriteTree) -> None:
    tree = write_tree(
        {
            "proc/meminfo": MEMINFO,
            "proc/sys/kernel/osrelease": "6.8.0-1018-aws\n",
            "os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n',
        }
    )
    host = read_host(sysfs=tree / "sys", proc=tree / "proc", os_release=tree / "os-release")
    assert (host.kernel, host.os) == ("6.8.0-1018-aws", "Ubuntu 24.04.1 LTS")


def test_time_in_which_something_waited_for_a_core(tmp_path: Path) -> None:
    pressure = tmp_path / "cpu"
    pressure.write_text("some avg10=1.53 avg60=0.87 avg300=0.36 total=78124\nfull avg10=0.00 total=0\n")
    assert stalled_ns(pressure) == 78_124_000
    pressure.write_text("not as it was\n")
    assert stalled_ns(pressure) == stalled_ns(tmp_path / "none") == 0
