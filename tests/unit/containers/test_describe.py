from __future__ import annotations

import json
from pathlib import Path
from platform import python_version

from busbw._version import __version__
from busbw.containers.describe import describe, main
from busbw.probes.image import image_name, read_image


def test_versions_and_the_packages_that_came_without_one() -> None:
    installed = "libfabric1-aws\t2.1.0\nlibnccl-ofi\t1.19.0-1\nbash\t5.2\nlibibverbs1\t59.0\n"
    told = describe(
        ("recipe=efa", "image=t", "base=a=b", "version:efa_flags=-y -g", "version:sm=80 90"), installed
    )
    assert told == {
        "recipe": "efa",
        "image": "t",
        "base": "a=b",
        "versions": {"efa_flags": "-y -g", "sm": "80 90", "python": python_version(), "busbw": __version__},
        "packages": {"libfabric1-aws": "2.1.0", "libnccl-ofi": "1.19.0-1", "libibverbs1": "59.0"},
    }


def test_what_is_written_is_what_a_run_reads(tmp_path: Path) -> None:
    file = tmp_path / "busbw-image.json"
    assert main(["recipe=cpu", "image=cpu-1-amd64", "version:nccl=2.30.4-1"], file) == 0
    assert read_image(file)["versions"]["nccl"] == "2.30.4-1"
    assert image_name(file) == "cpu-1-amd64"


def test_outside_an_image_and_with_a_file_that_somebody_else_wrote(tmp_path: Path) -> None:
    assert read_image(tmp_path / "none") == {}
    for text in ("", "not json", "[1]", "null"):
        (tmp_path / "file").write_text(text)
        assert read_image(tmp_path / "file") == {}
        assert image_name(tmp_path / "file") == ""
    (tmp_path / "file").write_text(json.dumps({"image": "theirs:1"}))
    assert image_name(tmp_path / "file") == "theirs:1"
