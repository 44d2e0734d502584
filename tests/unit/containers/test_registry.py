from __future__ import annotations

import pytest

from busbw.containers.registry import before_push, push_steps, read_repository
from busbw.containers.steps import shell
from busbw.containers.tools import TOOLS
from busbw.errors import UsageError

PRIVATE = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


def lines(text: str, tool: str = "podman") -> list[str]:
    return [shell(step) for step in before_push(read_repository(text), TOOLS[tool])]


def test_amazons_private_registry_gets_its_repository_and_a_login() -> None:
    assert lines(f"{PRIVATE}/team/busbw") == [
        (
            "aws ecr describe-repositories --region eu-west-1 --repository-names team/busbw"
            " || aws ecr create-repository --region eu-west-1 --repository-name team/busbw"
        ),
        (
            "aws ecr get-login-password --region eu-west-1"
            f" | podman login --username AWS --password-stdin {PRIVATE}"
        ),
    ]


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("123456789012.dkr-ecr.us-west-2.on.aws", "us-west-2"),
    ],
)
def test_the_region_is_the_registrys(host: str, region: str) -> None:
    assert f"--region {region} " in lines(f"{host}/busbw")[0]


def test_amazons_public_registry_has_an_alias_before_the_name() -> None:
    create, login = lines("public.ecr.aws/team/kits/busbw", "docker")
    assert create.startswith(
        "aws ecr-public describe-repositories --region us-east-1 --repository-names kits/busbw "
    )
    assert login.endswith("docker login --username AWS --password-stdin public.ecr.aws")
    with pytest.raises(UsageError, match="no repository after the alias"):
        lines("public.ecr.aws/team")


@pytest.mark.parametrize("text", ["ghcr.io/me/busbw", "localhost:5000/busbw", "example.amazonaws.com/busbw"])
def test_other_registries_are_left_as_they_are(text: str) -> None:
    assert lines(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("busbw", "names no registry"),
        ("me/busbw", "names no registry"),
        ("ghcr.io/me/busbw:1", "has a tag"),
        ("ghcr.io/Me/busbw", "no name of a repository"),
        ("ghcr.io/", "no name of a repository"),
    ],
)
def test_what_is_no_repository(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_repository(text)


def test_one_image_has_no_list() -> None:
    steps = push_steps(
        TOOLS["docker"], read_repository("ghcr.io/me/busbw"), "t", [("busbw:t-amd64", "t-amd64")]
    )
    assert [shell(step) for step in steps] == [
        "docker tag busbw:t-amd64 ghcr.io/me/busbw:t-amd64",
        "docker push ghcr.io/me/busbw:t-amd64",
    ]


@pytest.mark.parametrize("tool", TOOLS)
def test_two_processors_get_one_name(tool: str) -> None:
    images = [(f"busbw:t-{arch}", f"t-{arch}") for arch in ("amd64", "arm64")]
    steps = push_steps(TOOLS[tool], read_repository("ghcr.io/me/busbw"), "t", images, ("--quiet",))
    told = [shell(step) for step in steps]
    assert "ghcr.io/me/busbw:t" in told[-1].split()[-1 if tool != "docker" else -3]
    assert all("--quiet" in line for line in told if " push " in line)
    assert sum("ghcr.io/me/busbw:t-arm64" in line for line in told) >= 2
