"""Who this host is to those who rent it out, schedule it and wire it up."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from busbw.machine.native.nvml import LIBRARY, nvml_meanwhile
from busbw.machine.sysfs import SYS, read_text
from busbw.model.record import HostInfo

# A process cannot see the labels of its image, so its build writes them to a file.
IMAGE_FILE: Final = Path("/etc/busbw-image.json")
# Only there the asset tag is the instance's id; elsewhere it is whatever the owner had printed on the board.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html (Nitro instances)
_EC2: Final = "Amazon EC2"
_INSTANCE: Final = re.compile(r"i-[0-9a-f]+\Z")
# What our manifests set from the pod's own fields (launch/kubernetes/templates).
POD_VARIABLES: Final[Mapping[str, str]] = {
    "pod": "BUSBW_POD",
    "pod_namespace": "BUSBW_POD_NAMESPACE",
    "kubernetes_node": "BUSBW_POD_NODE",
}
_SLURM_VARIABLES: Final[Mapping[str, str]] = {
    "slurm_node": "SLURMD_NODENAME",
    "slurm_job": "SLURM_JOB_ID",
    "slurm_topology": "SLURM_TOPOLOGY_ADDR",
}


def read_place(
    host: str,
    environ: Mapping[str, str],
    gpu_uuid: str = "",
    *,
    sysfs: Path = SYS,
    nvml_library: str = LIBRARY,
    image_file: Path = IMAGE_FILE,
) -> HostInfo:
    """What firmware, environment and (for a GPU of it) NVML say of this host. About a millisecond."""
    dmi = sysfs / "class" / "dmi" / "id"
    vendor, tag = read_text(dmi / "sys_vendor"), read_text(dmi / "board_asset_tag")
    variables = {**POD_VARIABLES, **_SLURM_VARIABLES}
    return HostInfo(
        host=host,
        vendor=vendor,
        product=read_text(dmi / "product_name"),
        instance=tag if vendor == _EC2 and _INSTANCE.match(tag) else "",
        nvlink_domain=nvlink_domain(gpu_uuid, nvml_library),
        image=image_name(image_file),
        **{name: environ.get(variable, "") for name, variable in variables.items()},
    )


def nvlink_domain(gpu_uuid: str, library: str = LIBRARY) -> str:
    """As Kubernetes nodes are labelled (nvidia.com/gpu.clique); empty where the GPU is in none."""
    if not gpu_uuid:
        return ""
    with nvml_meanwhile(library) as nvml:
        device = nvml.device(uuid=gpu_uuid) if nvml is not None else None
        fabric = nvml.fabric(device) if nvml is not None and device is not None else None
    return "" if fabric is None else f"{fabric[0]}.{fabric[1]}"


def read_image(file: Path = IMAGE_FILE) -> dict[str, Any]:
    """``recipe``, ``image``, ``base``, ``versions`` and ``packages``; empty outside such an image."""
    try:
        told = json.loads(read_text(file) or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def image_name(file: Path = IMAGE_FILE) -> str:
    """The image's tag, empty outside such an image."""
    return str(read_image(file).get("image", ""))
