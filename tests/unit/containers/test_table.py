from __future__ import annotations

import re

import pytest

from busbw.containers.table import Choice, capabilities, choose, read_recipe, recipes, this_arch
from busbw.errors import UsageError

CHOICES = [
    Choice(recipe.name, "0.1.0", "amd64", cuda, ubuntu, release.date)
    for recipe in recipes().values()
    for release in recipe.releases
    for cuda, ubuntu in release.pairs or (("", ""),)
]


def test_the_table_has_what_the_kits_build() -> None:
    hpcx = read_recipe("hpcx")
    assert [(release.date, len(release.pairs)) for release in hpcx.releases] == [
        ("2026-05", 10),
        ("2025-07", 10),
    ]
    assert {ubuntu for release in hpcx.releases for _, ubuntu in release.pairs} == {"20.04", "22.04", "24.04"}
    efa = {release.date: release for release in read_recipe("efa").releases}
    assert efa["2024-04"].values["ofi_nccl"] == "1.8.1"
    assert efa["2026-07"].pairs == (("13.0.2", "22.04"),)


@pytest.mark.parametrize(
    "choice", CHOICES, ids=lambda choice: f"{choice.recipe}-{choice.cuda}-{choice.ubuntu}"
)
def test_every_image_has_every_version_and_a_tag_that_registries_take(choice: Choice) -> None:
    image = choose(choice)
    assert re.fullmatch(r"[\w][\w.-]{0,127}", image.full_tag)
    assert image.values.keys() >= read_recipe(choice.recipe).arguments.keys()
    assert all(value and "{" not in value for value in image.values.values())
    assert image.notes == ()
    if choice.cuda:
        assert image.base == f"docker.io/nvidia/cuda:{choice.cuda}-devel-ubuntu{choice.ubuntu}"
        assert image.values["sm"]


def test_tags_are_one_for_each_image() -> None:
    tags = [choose(choice).full_tag for choice in CHOICES]
    assert len(set(tags)) == len(tags)


def test_the_newest_values_that_have_the_pair_are_taken() -> None:
    assert choose(Choice("hpcx", "0", "amd64")).tag == "13.2.1-devel-ubuntu24.04-nccl2.30.4-1-hpcx2.26-busbw0"
    old = choose(Choice("hpcx", "0", "arm64", cuda="12.4.1"))
    assert (old.date, old.values["ubuntu"], old.values["nccl"]) == ("2025-07", "22.04", "2.27.6-1")
    assert choose(Choice("efa", "0", "amd64", cuda="12.9.1")).values["efa"] == "1.47.0"


def test_a_newer_cuda_is_taken_with_a_note() -> None:
    image = choose(Choice("efa", "0", "amd64", cuda="13.9.0"))
    assert image.base.endswith("cuda:13.9.0-devel-ubuntu22.04")
    assert image.notes == (
        "CUDA 13.9.0 with Ubuntu 22.04 is in no source's table: nobody is known to build it",
    )


def test_other_parts_make_another_tag() -> None:
    plain = choose(Choice("efa", "0", "amd64"))
    named = choose(Choice("efa", "0", "amd64", values={"nccl": "2.31.2-1"}))
    hidden = choose(Choice("efa", "0", "amd64", values={"gdrcopy": "2.6"}))
    same = choose(Choice("efa", "0", "amd64", values={"gdrcopy": "2.5.2"}))
    based = choose(Choice("efa", "0", "amd64", base="ours:1"))
    assert "nccl2.31.2-1" in named.tag
    assert len({each.tag for each in (plain, named, hidden, based)}) == 4
    assert re.fullmatch(re.escape(plain.tag) + "-[0-9a-f]{8}", hidden.tag)
    assert same.tag == plain.tag
    assert based.base == "ours:1"


@pytest.mark.parametrize(
    ("cuda", "kept"),
    [
        ("12.6.3", "70 80 90"),
        ("12.8.1", "70 80 90 100 120"),
        ("12.9.1", "70 80 90 100 103 120"),
        ("13.0.2", "80 90 100 103 120"),
    ],
)
def test_no_capability_that_the_compiler_does_not_know(cuda: str, kept: str) -> None:
    assert capabilities("70 80 90 100 103 120", cuda) == kept


def test_hpcx_is_the_one_for_its_cuda() -> None:
    found = {
        cuda: choose(Choice("hpcx", "0", "amd64", cuda=cuda)).values["hpcx_cuda"]
        for cuda in ("12.9.1", "13.0.2")
    }
    assert found == {"12.9.1": "12", "13.0.2": "13"}


@pytest.mark.parametrize(
    ("choice", "said", "hint"),
    [
        (Choice("hpc", "0", "amd64"), "no recipe 'hpc'", "hpcx"),
        (Choice("cpu", "0", "amd64", cuda="13.0.2"), "cpu has no CUDA", "--cuda"),
        (Choice("efa", "0", "amd64", cuda="13"), "no version of CUDA", "13.0.2"),
        (Choice("efa", "0", "amd64", date="2020-01"), "no values of 2020-01", "2026-07"),
        (Choice("efa", "0", "amd64", base='x"\nRUN reboot'), "is no image", "IMAGE:TAG"),
        (Choice("efa", "0", "amd64", values={"ncl": "2"}), "efa has no 'ncl'", "nccl"),
        (Choice("efa", "0", "amd64", values={"nccl": "2; reboot"}), "is no version", "none"),
        (Choice("efa", "0", "amd64", values={"efa_flags": "-y $(reboot)"}), "is no version", "none"),
    ],
)
def test_what_cannot_be_meant(choice: Choice, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(choice)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert this_arch() == "arm64"
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UsageError, match="riscv64"):
        this_arch()
