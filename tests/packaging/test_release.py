"""What `make release-check` refuses, and the released wheel in an empty environment of each Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from busbw_testing.programs import program
from busbw_testing.pythons import find_python

pytestmark = pytest.mark.packaging

Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@pytest.fixture(scope="module")
def dist(module_tree: Path, tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """The wheels of both processors and the source archive."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, module_tree / "tools/build_wheels.py", "--sdist", "--out", out)
    return out


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return program("tools/release_check.py")


def test_what_is_built_passes(dist: Path, run: Run) -> None:
    """build_wheels.py itself refuses a wheel that auditwheel does not find to be what its tag promises."""
    assert "0 problems" in run(sys.executable, ROOT / "tools/release_check.py", "--dist", dist)


def test_what_does_not_belong_into_a_release_is_named(dist: Path, tmp_path: Path, check: ModuleType) -> None:
    [x86] = dist.glob("*_x86_64.whl")
    wrong = tmp_path / x86.name.replace("x86_64", "aarch64")  # a library of the other processor
    shutil.copy(x86, wrong)
    with zipfile.ZipFile(wrong, "a") as archive:
        archive.writestr("tests/test_one.py", "")
        archive.writestr("busbw/more.so", "")
    said = "\n".join(check.check_wheel(wrong))
    assert "tests/test_one.py is not to be released" in said
    assert "its libraries are" in said
    shutil.copy(x86, wrong)
    assert list(check.check_wheel(wrong)) == [f"{wrong.name}: {check.CORE} is not for aarch64"]
    assert len(list(check.check_names(tmp_path, "9.9"))) == 4  # three that lack, one of another version


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_measures_in_an_empty_environment(
    version: str, dist: Path, tmp_path: Path, run: Run
) -> None:
    python = find_python(version, tmp_path)
    if python is None:
        pytest.skip(
            f"no Python {version} here, nor a Debian with it: that needs root, mmdebstrap, the archive"
        )
    [wheel] = dist.glob(f"*_{os.uname().machine}.whl")
    packages = tmp_path / "packages"
    fetch = ("--quiet", "--only-binary", ":all:", "--python-version", version, "--dest", packages)
    run(sys.executable, "-m", "pip", "download", *fetch, wheel)
    run(*python, "-m", "venv", tmp_path / "environment")
    own, inside = tmp_path / "environment" / "bin", python[:-1]
    offline = ("--quiet", "--no-index", "--find-links", packages)
    run(*inside, own / "python", "-m", "pip", "install", *offline, "busbw", PIP_FIND_LINKS="")
    words = ("run", "all_reduce", "--ranks", "2", "-b", "1K", "-e", "1K", "-n", "20", "--format", "csv")
    home = {"BUSBW_HOME": str(tmp_path / "home")}
    rows = run(*inside, own / "busbw", *words, **home).splitlines()
    assert [row.split(",")[9] for row in rows[1:]] == ["good", "good"]
    # Without an extra the record is there, and frames name what they need.
    script = "import busbw; run = busbw.open_run(); print(run.record.status, len(run.record.results)); run.df"
    done = subprocess.run(
        [*inside, own / "python", "-c", script],
        env=os.environ | home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "complete 2\n"
    assert (
        done.stderr.splitlines()[-2] == "busbw.errors.UsageError: frames need polars, which is not installed"
    )
