"""The recipes of GPU images, without what only NVIDIA, AWS and GitHub have: every stage is run, and those of
such components do nothing (`none`). The images have their layout, variables, runner and front doors.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from busbw_testing.images import Container, Images

pytestmark = [pytest.mark.container, pytest.mark.timeout(1500)]

# As AWS's own line names them: the first five are its build arguments.
_EFA = ("GDRCOPY", "EFA_INSTALLER", "AWS_OFI_NCCL", "NCCL", "NCCL_TESTS")
_HPCX = ("GDRCOPY", "TARGET_NCCL", "NVBANDWIDTH", "NCCL_TESTS", "DCGM", "NV_CUDNN")
WITHOUT = {
    "efa": tuple(f"{name}_VERSION" for name in _EFA),
    "hpcx": (*(f"{name}_VERSION" for name in _HPCX), "HPCX_DISTRIBUTION", "PERFTEST_COMMIT"),
}


@pytest.fixture(scope="module", params=WITHOUT)
def gpu_container(
    request: pytest.FixtureRequest, images: Images, base: str
) -> Iterator[tuple[str, Container]]:
    """(recipe, a container of its image)."""
    arguments = dict.fromkeys(WITHOUT[request.param], "none")
    if request.param == "hpcx":
        arguments["OFED_VERSION"] = "distro"
    image = images.build(request.param, arguments)
    made = Container(images, image)
    yield request.param, made
    made.close()
    images.good("buildah", "rmi", image)


def test_it_runs_ranks_under_the_old_path(gpu_container: tuple[str, Container]) -> None:
    _, container = gpu_container
    out = container.good(
        "/opt/busbw/bin/mpirun -np 2 /opt/nccl_tests/build/all_reduce_perf -b 8 -e 1K -f 2 -n 10"
    )
    assert "# Out of bounds values : 0 OK" in out


def test_the_asked_for_versions_win_over_the_base_images_variables(
    gpu_container: tuple[str, Container],
) -> None:
    _, container = gpu_container
    assert container.good("echo $NCCL_VERSION").strip() == "9.9.9"
    assert '"nccl": "none"' in container.good("cat /etc/busbw-image.json")


def test_sessions_get_the_images_variables(gpu_container: tuple[str, Container]) -> None:
    recipe, container = gpu_container
    name = {"efa": "OPAL_PREFIX", "hpcx": "HPCX_DIR"}[recipe]
    value = {"efa": "/opt/amazon/openmpi", "hpcx": "/opt/hpcx"}[recipe]
    assert container.good(f"env -i bash -lc 'echo ${name}'").strip() == value
    assert f'Defaults env_keep += "{name}"' in container.good("cat /etc/sudoers.d/busbw-image")
    assert f"{name}={value}" in container.good("mkdir -p /run/sshd; /usr/sbin/sshd -T | grep -i setenv")
    path = container.good("env -i bash -lc 'echo $LD_LIBRARY_PATH'").strip().split(":")
    assert path[0] == "/opt/nccl/build/lib"
    assert "" not in path  # it would be the current folder


def test_the_user_space_of_infiniband_is_there(gpu_container: tuple[str, Container]) -> None:
    recipe, container = gpu_container
    if recipe == "hpcx":
        assert "ibv_devinfo" in container.good("command -v ibv_devinfo")
        assert '"libibverbs1"' in container.good("cat /etc/busbw-image.json")
