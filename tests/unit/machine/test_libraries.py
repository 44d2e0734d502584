from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.machine.libraries import is_library, library_info, mapped_libraries, wheel_of

BuildLibrary = Callable[..., Path]
ID = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def library(build_library: BuildLibrary) -> Path:
    flags = ("-Wl,-soname,libnccl.so.2", f"-Wl,--build-id=0x{ID}")
    return build_library("nccl", "VERSION=22809", name="libnccl.so.2.28.9", flags=flags)


def test_elf_tells_soname_and_build_id(library: Path) -> None:
    info = library_info(library)
    assert (info.path, info.soname, info.version, info.build_id) == (
        str(library),
        "libnccl.so.2",
        "2.28.9",
        ID,
    )
    assert library_info(str(library)).build_id == ID


def test_the_build_id_may_come_after_other_notes(tmp_path: Path) -> None:
    def note(name: bytes, kind: int, data: bytes) -> bytes:
        return struct.pack("<III", len(name), len(data), kind) + name.ljust(8, b"\0") + data.ljust(4, b"\0")

    notes = note(b"Other\0\0", 3, b"no") + note(b"GNU\0\0\0\0", 1, b"abi")
    notes += struct.pack("<III", 4, 5, 3) + b"GNU\0" + b"\x01\x02\x03\x04\x05" + bytes(3)
    header = b"\x7fELF\x02\x01" + bytes(26) + struct.pack("<Q", 64) + bytes(14) + struct.pack("<HH", 56, 1)
    segment = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), len(notes), 4)
    path = tmp_path / "libnccl.so.2"
    path.write_bytes(header.ljust(64, b"\0") + segment + notes)
    assert library_info(path).build_id == "0102030405"


def test_links_are_followed_and_a_known_version_wins(library: Path, tmp_path: Path) -> None:
    link = tmp_path / "libnccl.so.2"
    link.symlink_to(library)
    assert library_info(link, version="2.28.9+cuda13.0").version == "2.28.9+cuda13.0"
    assert library_info(link).path == str(library)


@pytest.mark.parametrize("cut", [0, 3, 40, 64, 200, 0x1000])
def test_damaged_files_tell_nothing_and_do_not_fail(library: Path, tmp_path: Path, cut: int) -> None:
    broken = tmp_path / "libnccl.so.2"
    broken.write_bytes(library.read_bytes()[:cut])
    assert library_info(broken).soname == ""
    assert is_library(broken) is (cut >= 6)


def test_absent_file_and_linker_script(tmp_path: Path) -> None:
    assert library_info(tmp_path / "absent.so").build_id == ""
    script = tmp_path / "libmpi.so"
    script.write_text("INPUT(libmpi.so.12)\n")
    assert not is_library(script)
    assert not is_library(tmp_path / "absent.so")


def test_wheel(tmp_path: Path) -> None:
    library = tmp_path / "nvidia/nccl/lib/libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    assert wheel_of(library) == ("", "")
    (tmp_path / "nvidia_nccl_cu12-2.28.9.dist-info").mkdir()
    assert wheel_of(library) == ("nvidia_nccl_cu12", "2.28.9")
    assert library_info(library).version == "2.28.9"
    assert wheel_of("/usr/lib/libnccl.so.2") == ("", "")


def test_mapped_libraries_of_a_table(library: Path, tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    rows = [
        str(library),
        str(library),
        "/usr/lib/libz.so.1",
        "/opt/libnccl-net.so",
        "/usr/lib/libncclx.so",
        "[heap]",
    ]
    maps.write_text(
        "\n".join(f"7f00-7f01 r-xp 00000000 08:01 5   {path}" for path in rows) + "\n7f02-7f03 r 0 0:0 0\n"
    )
    assert [info.path for info in mapped_libraries(maps)] == sorted([str(library), "/opt/libnccl-net.so"])
