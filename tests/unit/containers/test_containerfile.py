from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw._version import __version__
from busbw.containers.containerfile import build_arguments, copied, read_payload, render, write
from busbw.containers.table import Choice, Image, choose, recipe_files, recipes
from busbw.errors import SiteError, UsageError

IMAGES = [choose(Choice(name, "0.1.0", "amd64")) for name in recipes()]
WHEEL = "busbw-0.2.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.recipe)
class TestEveryRecipe:
    def test_every_version_is_a_build_argument_that_a_stage_takes(self, image: Image) -> None:
        text = render(image)
        top, *stages = re.split(r"^FROM ", text, flags=re.MULTILINE)
        arguments = {"BASE_IMAGE": image.base, **build_arguments(image)}
        assert dict(re.findall(r'^ARG (\w+)="(.*)"$', top, re.MULTILINE)) == arguments
        # The last stage has them all, for its labels; a stage before it has what it uses.
        for stage in stages:
            used = set(re.findall(r"\$\{(\w+)\}", stage.partition("\n")[2])) & arguments.keys()
            assert used <= set(re.findall(r"^ARG (\w+)$", stage, re.MULTILINE))
        # The base image is chosen by these two.
        for name in arguments.keys() - {"WITH_UBUNTU", "WITH_CUDA"}:
            assert f"${{{name}}}" in text.partition("\nLABEL ")[0]

    def test_labels_and_the_file_in_the_image_say_the_same(self, image: Image) -> None:
        text = render(image)
        labels = dict(re.findall(r'busbw\.(\w+)="(.*?)"', text))
        told = dict(re.findall(r'"version:(\w+)=(.*?)"', text))
        assert labels.pop("busbw") == "0.1.0"
        assert labels == told
        assert told.keys() == image.values.keys() - {"busbw", "python"}

    def test_everything_that_is_copied_is_there(self, image: Image, tmp_path: Path) -> None:
        write(image, read_payload("", "amd64"), tmp_path)
        names = copied(render(image))
        assert {"lib.sh", "install-busbw.sh", "finish.sh"} <= set(names)
        for name in names:
            assert (tmp_path / name).read_bytes() == (recipe_files() / name).read_bytes()
        assert (tmp_path / "busbw/requirement.txt").read_text() == f"busbw=={__version__}\n"


def test_no_variable_of_a_base_image_can_take_the_place_of_a_version() -> None:
    """NVIDIA's images set CUDA_VERSION and NCCL_VERSION, and ENV wins over ARG."""
    assert all(name.startswith("WITH_") for image in IMAGES for name in build_arguments(image))


def test_a_wheel_goes_along(tmp_path: Path) -> None:
    wheel = tmp_path / WHEEL
    wheel.write_bytes(b"wheel")
    payload = read_payload(str(wheel), "amd64")
    assert (payload.requirement, payload.version) == (f"./{WHEEL}", "0.2.0")
    write(IMAGES[0], payload, tmp_path / "context")
    assert (tmp_path / "context/busbw" / WHEEL).read_bytes() == b"wheel"


@pytest.mark.parametrize(
    ("name", "arch", "said"),
    [
        (WHEEL, "arm64", "is not for arm64"),
        ("other-1.0-py3-none-any.whl", "amd64", "is no wheel of busbw"),
        ("busbw-9-py3-none-linux_x86_64.whl", "amd64", "no file"),
    ],
)
def test_a_wheel_that_would_not_do(name: str, arch: str, said: str, tmp_path: Path) -> None:
    (tmp_path / WHEEL).touch()
    with pytest.raises(UsageError, match=said):
        read_payload(str(tmp_path / name), arch)


def test_what_pip_installs_by() -> None:
    assert read_payload("busbw[all]==0.3.1", "arm64").version == "0.3.1"
    assert read_payload("git+https://example.org/busbw", "arm64").version == "latest"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SiteError, match="cannot write"):
        write(IMAGES[0], read_payload("", "amd64"), tmp_path / "file")
