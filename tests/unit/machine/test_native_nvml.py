from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from busbw.machine.native.nvml import FIELD_NVLINK_DATA_TX_KIB, SCOPE_ALL_LINKS, NvLink, Nvml, open_nvml

BuildLibrary = Callable[..., Path]
UUID = "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1"


@pytest.fixture
def nvml(build_library: BuildLibrary) -> Iterator[Nvml]:
    nvml = open_nvml(str(build_library("nvml")))
    yield nvml
    nvml.close()


def test_absence_is_data(build_library: BuildLibrary) -> None:
    assert open_nvml("libnvidia-ml-absent.so.1") is None
    assert open_nvml(str(build_library("nvml", "INIT_CODE=9"))) is None


def test_device_by_uuid_then_pci(nvml: Nvml) -> None:
    assert nvml.device(uuid=UUID) == nvml.device(uuid="GPU-other", pci_bus_id="0000:1b:00.0") is not None
    assert nvml.device(uuid="GPU-other") is None
    assert nvml.device() is None


def test_links(nvml: Nvml) -> None:
    assert nvml.nvlinks(nvml.device(uuid=UUID)) == (
        NvLink(0, active=True, remote="nvswitch", remote_pci="00000000:c4:00.0"),
        NvLink(1, active=False, remote="", remote_pci=""),
    )


def test_fields_of_both_widths(nvml: Nvml) -> None:
    device = nvml.device(uuid=UUID)
    assert nvml.field(device, FIELD_NVLINK_DATA_TX_KIB, SCOPE_ALL_LINKS) == 1 << 40
    assert nvml.field(device, FIELD_NVLINK_DATA_TX_KIB, 0) is None
