"""Install the package in the ways users and developers do."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

pytestmark = pytest.mark.packaging

Run = Callable[..., str]

CORE = "busbw/machine/native/libbusbw_core.so"
PTX = "busbw/machine/native/pattern_device.ptx"
# Needs no dependency: the library is opened directly.
ASK_ABI = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).busbw_core_abi())"


def _abi_of_header(tree: Path) -> int:
    found = re.search(r"kCoreAbi = (\d+);", (tree / "native/core_api.h").read_text())
    assert found
    return int(found[1])


def test_without_any_compiler(tree: Path, fresh_python: Path, tmp_path: Path, run: Run) -> None:
    """A machine with Python and nothing else: the whole of `pip install .`, dependencies too."""
    only_python = tmp_path / "bin"
    only_python.mkdir()
    (only_python / "python3").symlink_to(sys.executable)
    run(fresh_python, "-m", "pip", "install", tree, PATH=str(only_python))
    [core] = fresh_python.parent.parent.glob(f"lib/python3*/site-packages/{CORE}")
    assert int(run(fresh_python, "-c", ASK_ABI, core)) == _abi_of_header(tree)
    assert "busbw" in run(fresh_python.with_name("busbw"), "--help")


@pytest.fixture(scope="module")
def wheel(module_tree: Path, tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """The wheel made of the source archive, which an index would serve, of a checkout that holds what an
    in-place build with some other compiler left there.
    """
    tree = Path(shutil.copytree(module_tree, tmp_path_factory.mktemp("used") / "busbw"))
    for leftover in (CORE, PTX):
        (tree / "src" / leftover).write_bytes(b"stale")
    run(sys.executable, "-m", "build", tree)  # the archive, then a wheel from that
    [_] = (tree / "dist").glob("*.tar.gz")
    [built] = (tree / "dist").glob("*.whl")
    return built


def test_wheel_serves_every_python(wheel: Path, module_tree: Path) -> None:
    source = (module_tree / "src/busbw/_version.py").read_text()
    version = re.search(r'^__version__ = "(.+)"', source, re.MULTILINE)
    assert version
    assert wheel.name.startswith(f"busbw-{version[1]}-py3-none-linux_")


def test_wheel_is_complete_and_fresh(wheel: Path, module_tree: Path, tmp_path: Path, run: Run) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("busbw/")}
        assert archive.read(PTX) == (module_tree / "native/pattern_device.ptx").read_bytes()
        core = archive.extract(CORE, tmp_path)
    source = module_tree / "src"
    sources = {str(path.relative_to(source)) for path in (source / "busbw").rglob("*") if path.is_file()}
    assert packed == sources | {CORE, PTX}
    assert int(run(sys.executable, "-c", ASK_ABI, core)) == _abi_of_header(module_tree)


def test_library_needs_only_libc_and_shows_only_its_own_names(wheel: Path, tmp_path: Path) -> None:
    """Any NCCL job can load it as a plugin: no C++ library comes along, and no symbol gets in the way."""
    with zipfile.ZipFile(wheel) as archive:
        core = Path(archive.extract(CORE, tmp_path))
    with core.open("rb") as stream:
        elf = ELFFile(stream)
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())
    exported = {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"}
    assert needed <= {"libc.so.6", "libm.so.6"}
    assert "busbw_core_abi" in exported
    assert {
        name for name in exported if not name.startswith(("busbw_", "ncclProfiler", "ncclTuner"))
    } == set()
