"""Check what is about to be released in dist/: names, metadata, contents, and that the source archive builds.

`make wheels` makes what is checked. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = "busbw/machine/native/libbusbw_core.so"
# e_machine in the header of an ELF file, at byte 18.
MACHINES = {"x86_64": 62, "aarch64": 183}
NEEDED_IN_SDIST = (
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "PKG-INFO",
    "native/core_api.h",
    "build_backend/busbw_build.py",
)
_NOT_RELEASED = re.compile(r"(^|/)(tests?|\.git|\.venv|__pycache__|docs|benchmarks)/|\.pyc$")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder with what is to be released")
    parser.add_argument("--list", action="store_true", help="print every file of the archives")
    options = parser.parse_args()
    version = read_version()
    problems = [*check_names(options.dist, version), *check_pages(version)]
    for wheel in sorted(options.dist.glob("*.whl")):
        problems += check_wheel(wheel)
    for sdist in sorted(options.dist.glob("*.tar.gz")):
        problems += check_sdist(sdist)
    if not problems:
        problems += [*check_metadata(options.dist), *check_build(options.dist)]
    show(options.dist, whole=options.list)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"busbw {version}: {len(problems)} problems")
    return 1 if problems else 0


def read_version() -> str:
    found = re.search(r'^__version__ = "(.+)"', (ROOT / "src/busbw/_version.py").read_text(), re.MULTILINE)
    assert found
    return found[1]


def check_names(dist: Path, version: str) -> Iterator[str]:
    """A wheel a processor and the source archive, of this version and no other."""
    wanted = {f"busbw-{version}.tar.gz"} | {
        f"busbw-{version}-py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.whl"
        for machine in MACHINES
    }
    there = {path.name for path in dist.iterdir()} if dist.is_dir() else set()
    yield from (f"{dist} lacks {name}: run `make wheels`" for name in sorted(wanted - there))
    yield from (
        f"{dist} has {name}, which is not of version {version}: remove it" for name in sorted(there - wanted)
    )


def check_pages(version: str) -> Iterator[str]:
    """The changelog has a section with a date for it."""
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    ):
        yield f"CHANGELOG.md has no section `## [{version}] - DATE`"


def check_wheel(wheel: Path) -> Iterator[str]:
    """The package, its licence, one library, of the processor in the wheel's name."""
    machine = next(name for name in MACHINES if name in wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        yield from _unwanted(wheel, names)
        libraries = [name for name in names if ".so" in Path(name).suffixes]
        if libraries != [CORE]:
            yield f"{wheel.name}: its libraries are {libraries}, not {CORE} alone"
        elif int.from_bytes(archive.read(CORE)[18:20], "little") != MACHINES[machine]:
            yield f"{wheel.name}: {CORE} is not for {machine}"
    yield from (
        f"{wheel.name}: {name} is neither the package nor its metadata"
        for name in names
        if not re.match(r"busbw(-[^/]+\.dist-info)?/", name)
    )
    if not any(re.search(r"\.dist-info/licenses/LICENSE$", name) for name in names):
        yield f"{wheel.name}: no LICENSE in it"
    if "busbw/py.typed" not in names:
        yield f"{wheel.name}: no py.typed in it"


def check_sdist(sdist: Path) -> Iterator[str]:
    """Sources and the licence; nothing that was built."""
    names = _of_sdist(sdist)
    yield from _unwanted(sdist, names)
    yield from (f"{sdist.name}: {name} was built" for name in names if ".so" in Path(name).suffixes)
    yield from (f"{sdist.name}: no {name} in it" for name in NEEDED_IN_SDIST if name not in names)


def check_metadata(dist: Path) -> Iterator[str]:
    """As an index would refuse it."""
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(dist.iterdir()))]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        yield f"twine: {done.stdout.strip()} {done.stderr.strip()}"


def check_build(dist: Path) -> Iterator[str]:
    """The source archive makes a wheel with the same files as the released one of this processor."""
    machine = os.uname().machine
    [sdist], [released] = dist.glob("*.tar.gz"), dist.glob(f"*_{machine}.whl")
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch, filter="data")
        [tree] = Path(scratch).iterdir()
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", f"{scratch}/out", str(tree)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            yield f"{sdist.name} does not build: {done.stderr.strip()[-2000:]}"
            return
        [built] = Path(scratch, "out").glob("*.whl")
        missing = sorted(_of_package(released) ^ _of_package(built))
    if missing:
        yield f"{sdist.name}: the wheel that it makes differs in {', '.join(missing)}"


def show(dist: Path, *, whole: bool) -> None:
    """How large each archive is, and what is in it."""
    for path in sorted(dist.glob("busbw-*")):
        names = _of_sdist(path) if path.suffix == ".gz" else zipfile.ZipFile(path).namelist()
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB, {len(names)} files")
        print(*(f"  {name}" for name in names if whole), sep="\n", end="\n" if whole else "")


def _of_sdist(sdist: Path) -> list[str]:
    """Its files, without the folder that they are in."""
    with tarfile.open(sdist) as archive:
        return [member.name.partition("/")[2] for member in archive if member.isfile()]


def _of_package(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if name.startswith("busbw/")}


def _unwanted(path: Path, names: list[str]) -> Iterator[str]:
    yield from (f"{path.name}: {name} is not to be released" for name in names if _NOT_RELEASED.search(name))


if __name__ == "__main__":
    sys.exit(main())
