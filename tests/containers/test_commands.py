"""Errors of a real tool, and a real registry."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

import pytest

from busbw._version import __version__

if TYPE_CHECKING:
    from busbw_testing.images import Images

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]

_LISTS = "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.index.v1+json"


def asked(registry: str, path: str) -> dict[str, object]:
    request = urllib.request.Request(f"http://{registry}/v2/{path}", headers={"Accept": _LISTS})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def test_a_base_that_is_not_there(images: Images) -> None:
    done = images.busbw(
        *("build", "cpu", "--base", "localhost/none:1", "--tool", "buildah"),
        *("--tool-args", "--isolation chroot --pull-never"),
    )
    assert (done.code, done.out) == (4, "")
    *_, error, hint = [line for line in done.err.splitlines() if line.startswith(("error: ", "hint: "))]
    assert error.startswith("error: buildah build failed: ")
    assert "localhost/none:1" in error
    assert hint == "hint: check the image's name: buildah images lists those that are here"


def test_two_processors_become_one_name_in_a_real_registry(
    images: Images, cpu_image: str, registry: str
) -> None:
    """The second image is empty but for its processor: what is tested is the list."""
    plain = cpu_image.partition(":")[2].removesuffix("-amd64")
    name = images.good("buildah", "from", "scratch")
    images.good("buildah", "config", "--arch", "arm64", name)
    images.good("buildah", "commit", "--rm", name, f"localhost/busbw:{plain}-arm64")
    words = ("push", "cpu", "--to", f"{registry}/team/busbw", "--base", "localhost/busbw-test-base:1")
    more = ("--arch", "amd64,arm64", "--tool", "buildah", "--tool-args", "--tls-verify=false")
    for _ in range(2):  # a list of that name from before is no hindrance
        done = images.busbw(*words, *more)
        assert (done.code, done.out) == (0, f"{registry}/team/busbw:{plain}\n"), done.err
    tags = asked(registry, "team/busbw/tags/list")["tags"]
    assert sorted(tags) == sorted([plain, f"{plain}-amd64", f"{plain}-arm64"])
    manifests = asked(registry, f"team/busbw/manifests/{plain}")["manifests"]
    assert sorted(each["platform"]["architecture"] for each in manifests) == ["amd64", "arm64"]


def test_an_image_that_was_not_built(images: Images, registry: str) -> None:
    done = images.busbw("push", "efa", "--to", f"{registry}/busbw", "--tool", "buildah")
    assert done.code == 4
    assert f"busbw{__version__}" in done.err
