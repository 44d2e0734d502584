"""Who a host is, from firmware, environment and NVML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.machine.place import read_place
from busbw.model.record import HostInfo

BuildLibrary = Callable[..., Path]
WriteTree = Callable[[dict[str, str]], Path]
UUID = "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1"
DMI = "class/dmi/id/"
EC2 = {
    f"{DMI}sys_vendor": "Amazon EC2\n",
    f"{DMI}product_name": "p5.48xlarge\n",
    f"{DMI}board_asset_tag": "i-0123456789abcdef0\n",
}


def test_an_instance_of_ec2(write_tree: WriteTree) -> None:
    place = read_place("ip-10-0-0-1", {}, sysfs=write_tree(EC2))
    assert place == HostInfo(
        "ip-10-0-0-1", vendor="Amazon EC2", product="p5.48xlarge", instance="i-0123456789abcdef0"
    )


@pytest.mark.parametrize(
    ("vendor", "tag"),
    [("Dell Inc.", "i-0123456789abcdef0"), ("Amazon EC2", "Not Specified"), ("Amazon EC2", "")],
)
def test_a_tag_that_is_no_instance_s_is_not_taken_for_one(
    write_tree: WriteTree, vendor: str, tag: str
) -> None:
    """Owners have their own numbers on boards, which are nobody's business."""
    tree = write_tree({f"{DMI}sys_vendor": vendor, f"{DMI}board_asset_tag": tag})
    place = read_place("h", {}, sysfs=tree)
    assert (place.vendor, place.instance) == (vendor, "")


def test_slurm_and_kubernetes_by_their_variables(tmp_path: Path) -> None:
    environ = {
        "SLURMD_NODENAME": "n1",
        "SLURM_JOB_ID": "4711",
        "SLURM_TOPOLOGY_ADDR": "s0.s1.n1",
        "BUSBW_POD": "job-0-x7k2p",
        "BUSBW_POD_NAMESPACE": "team",
        "BUSBW_POD_NODE": "g1",
    }
    assert read_place("h", environ, sysfs=tmp_path) == HostInfo(
        "h",
        slurm_node="n1",
        slurm_job="4711",
        slurm_topology="s0.s1.n1",
        pod="job-0-x7k2p",
        pod_namespace="team",
        kubernetes_node="g1",
    )


@pytest.mark.parametrize(
    ("defines", "gpu", "domain"),
    [
        (("FABRIC_STATE=3",), UUID, "10111213-1415-1617-1819-1a1b1c1d1e1f.7"),
        *((("FABRIC_STATE=3",), other, "") for other in ("GPU-another", "")),
        ((), UUID, ""),  # a driver that does not know of them
        *(((f"FABRIC_STATE={state}",), UUID, "") for state in (0, 2)),
        (("FABRIC_STATE=3", "LONELY"), UUID, ""),
    ],
)
def test_the_nvlink_domain_as_kubernetes_labels_it(
    tmp_path: Path, build_library: BuildLibrary, defines: tuple[str, ...], gpu: str, domain: str
) -> None:
    nvml = str(build_library("nvml", *defines))
    assert read_place("h", {}, gpu, sysfs=tmp_path, nvml_library=nvml).nvlink_domain == domain


def test_the_image_that_says_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "busbw-image.json"
    file.write_text('{"image": "cpu-busbw0.1.0-amd64", "versions": {"python": "3.12.1"}}')
    assert read_place("h", {}, sysfs=tmp_path, image_file=file).image == "cpu-busbw0.1.0-amd64"
    assert read_place("h", {}, sysfs=tmp_path, image_file=tmp_path / "none").image == ""
