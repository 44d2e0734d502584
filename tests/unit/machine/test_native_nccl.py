from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from busbw.errors import SiteError
from busbw.machine.loader import loader_cache_paths
from busbw.machine.native.nccl import (
    NcclError,
    NcclLibrary,
    NcclSearch,
    SearchPlaces,
    find_nccl,
    load_nccl,
    mapped_nccl,
)

BuildLibrary = Callable[..., Path]
NO_MAPS = Path("/nonexistent/maps")


@pytest.fixture
def nccl(build_library: BuildLibrary) -> NcclLibrary:
    return NcclLibrary(str(build_library("nccl", "VERSION=22809")))


def places(
    tmp_path: Path,
    *,
    module_path: Sequence[Path | str] = (),
    maps: Path = NO_MAPS,
    cache: Path = NO_MAPS,
    **environ: str,
) -> SearchPlaces:
    return SearchPlaces(
        environ, [str(path) for path in module_path], str(tmp_path / "prefix"), maps, cache, ()
    )


def put(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"library")
    return str(path)


def maps_of(tmp_path: Path, *libraries: str) -> Path:
    maps = tmp_path / "maps"
    lines = [
        f"7f00{i:08x}-7f01{i:08x} r-xp 00000000 08:01 {i} {'':20}{path}" for i, path in enumerate(libraries)
    ]
    maps.write_text("\n".join([*lines, "7fff0000-7fff1000 rw-p 00000000 00:00 0 [stack]", ""]))
    return maps


def cache_of(tmp_path: Path, old_format_bytes: bytes = b"", **paths: str) -> Path:
    """A loader cache of the format that glibc writes since 2.2."""
    names = {name.encode() + b"\0": path.encode() + b"\0" for name, path in paths.items()}
    strings, entries, start = b"", b"", 48 + 24 * len(names)
    for name, path in names.items():
        key = start + len(strings)
        strings += name + path
        entries += struct.pack("<iIIIQ", 0x303, key, key + len(name), 0, 0)
    header = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(names), len(strings)) + bytes(20)
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(old_format_bytes + header + entries + strings)
    return cache


class TestFind:
    def test_order_is_explicit_mapped_site_packages_environment_system(self, tmp_path: Path) -> None:
        wheel = put(tmp_path / "site-packages/nvidia/nccl/lib/libnccl.so.2")
        conda = put(tmp_path / "prefix/lib/libnccl.so.2")
        on_path = put(tmp_path / "cluster/libnccl.so.2")
        cached = put(tmp_path / "usr/libnccl.so.2.19.3")
        where = {
            "module_path": [tmp_path / "site-packages"],
            "cache": cache_of(tmp_path, **{"libnccl.so.2": cached, "libz.so.1": "/lib/libz.so.1"}),
            "LD_LIBRARY_PATH": f"/nowhere:{tmp_path}/cluster",
        }
        assert find_nccl(None, places(tmp_path, maps=maps_of(tmp_path, "/gone/libnccl.so.2"), **where)) == (
            NcclSearch("/gone/libnccl.so.2", "mapped", ())
        )
        for path, found in (
            (wheel, "site-packages"),
            (conda, "environment"),
            (on_path, "system"),
            (cached, "system"),
        ):
            search = find_nccl(None, places(tmp_path, **where))
            assert (search.path, search.found) == (path, found)
            Path(path).unlink()
        assert "/nowhere" in search.looked_at

    def test_explicit_path_wins_and_may_be_a_folder_or_a_variable(self, tmp_path: Path) -> None:
        put(tmp_path / "site-packages/nvidia/nccl/lib/libnccl.so.2")
        own = put(tmp_path / "own/libnccl.so.2")
        where = [tmp_path / "site-packages"]
        for search in (
            find_nccl(own, places(tmp_path, module_path=where)),
            find_nccl(str(tmp_path / "own"), places(tmp_path, module_path=where)),
            find_nccl(None, places(tmp_path, module_path=where, BUSBW_NCCL=own)),
        ):
            assert (search.path, search.found) == (own, "explicit")

    def test_links_to_one_file_are_one_copy(self, tmp_path: Path) -> None:
        real = put(tmp_path / "lib/libnccl.so.2.28.9")
        (tmp_path / "lib/libnccl.so.2").symlink_to("libnccl.so.2.28.9")
        maps = maps_of(tmp_path, real)
        search = find_nccl(str(tmp_path / "lib/libnccl.so.2"), places(tmp_path, maps=maps))
        assert search.path == real

    def test_two_mapped_copies_are_refused(self, tmp_path: Path) -> None:
        copies = put(tmp_path / "a/libnccl.so.2"), put(tmp_path / "b/libnccl.so.2.18.1")
        with pytest.raises(SiteError, match="load two copies of NCCL"):
            find_nccl(None, places(tmp_path, maps=maps_of(tmp_path, *copies)))

    def test_plugins_are_not_copies(self, tmp_path: Path) -> None:
        maps = maps_of(
            tmp_path, "/opt/libnccl-net.so", "/opt/libnccl-tuner.so", "/opt/libnccl.so.2", "/opt/libnccl.so.2"
        )
        assert mapped_nccl(maps) == ("/opt/libnccl.so.2",)

    def test_nothing_found_says_where(self, tmp_path: Path) -> None:
        (tmp_path / "site-packages").mkdir()
        where = places(tmp_path, module_path=[tmp_path / "site-packages", "/usr/lib/python3.11"])
        looked_at = f"{tmp_path}/site-packages/nvidia/nccl/lib", f"{tmp_path}/prefix/lib"
        assert find_nccl(None, where) == NcclSearch("", "", looked_at)
        with pytest.raises(SiteError, match=r"looked at .*site-packages/nvidia/nccl/lib"):
            load_nccl(None, where)

    def test_loader_cache_after_an_old_table(self, tmp_path: Path) -> None:
        cache = cache_of(tmp_path, b"ld.so-1.7.0\0" + bytes(52), **{"libnccl.so.2": "/usr/lib/libnccl.so.2"})
        assert loader_cache_paths(cache, "libnccl.so.2") == ("/usr/lib/libnccl.so.2",)
        assert loader_cache_paths(cache, "libnccl.so") == ()

    @pytest.mark.skipif(not Path("/etc/ld.so.cache").exists(), reason="no glibc loader cache")
    def test_loader_cache_of_this_machine(self) -> None:
        assert all(Path(path).exists() for path in loader_cache_paths(Path("/etc/ld.so.cache"), "libc.so.6"))
        assert loader_cache_paths(Path("/etc/ld.so.cache"), "libc.so.6")


class TestLibrary:
    def test_older_than_2_18_is_refused_with_version_and_path(self, build_library: BuildLibrary) -> None:
        path = build_library("nccl", "VERSION=21003")
        with pytest.raises(SiteError) as caught:
            NcclLibrary(str(path))
        assert caught.value.message == f"NCCL 2.10.3 at {path} is older than 2.18.0"

    def test_missing_symbol_is_named(self, build_library: BuildLibrary) -> None:
        with pytest.raises(SiteError, match="lacks ncclCommDestroy"):
            NcclLibrary(str(build_library("nccl", "VERSION=22809", "INCOMPLETE")))

    def test_not_a_library(self, tmp_path: Path) -> None:
        with pytest.raises(SiteError, match="cannot be loaded"):
            NcclLibrary(put(tmp_path / "libnccl.so.2"))

    def test_unique_id_keeps_its_zero_bytes_and_makes_a_communicator(self, nccl: NcclLibrary) -> None:
        unique_id = nccl.unique_id()
        assert len(unique_id) == 128
        assert unique_id[:6] == bytes([0, 1, 2, 0, 4, 5])
        comm = nccl.comm_init(4, unique_id, 3)
        assert comm == 0x4003
        nccl.comm_destroy(comm)

    def test_failures_carry_nccls_words(self, nccl: NcclLibrary) -> None:
        with pytest.raises(NcclError) as caught:
            nccl.comm_init(2, nccl.unique_id(), 7)
        assert caught.value.code == 4
        assert caught.value.message == (
            "ncclCommInitRank failed: invalid argument (code 4): Invalid rank requested"
        )
        assert "NCCL_DEBUG" in caught.value.hint

    def test_exports(self, nccl: NcclLibrary) -> None:
        assert nccl.has("ncclAllReduce")
        assert not nccl.has("ncclPutSignal")
        assert nccl.address("ncclAllReduce") > 0
        with pytest.raises(SiteError, match="lacks ncclPutSignal"):
            nccl.address("ncclPutSignal")

    def test_memory_and_registration(self, nccl: NcclLibrary) -> None:
        address = nccl.mem_alloc(64)
        assert nccl.comm_register(0x1000, address, 64) == address + 1
        assert nccl.window_register(0x1000, address, 64) == address + 2
        nccl.comm_deregister(0x1000, address + 1)
        nccl.window_deregister(0x1000, address + 2)
        nccl.mem_free(address)
        with pytest.raises(NcclError, match="ncclCommDeregister failed"):
            nccl.comm_deregister(0x1000, 0)

    def test_what_an_older_copy_lacks_is_named_at_its_first_use(self, build_library: BuildLibrary) -> None:
        older = NcclLibrary(str(build_library("nccl", "VERSION=21805")))
        with pytest.raises(SiteError, match="lacks ncclMemAlloc"):
            older.mem_alloc(64)

    def test_premultiplied_sum_is_passed_by_value(
        self, nccl: NcclLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "asked"))
        op = nccl.premul_sum_create(0x1000, struct.pack("f", 0.5), 7)
        nccl.reduction_destroy(0x1000, op)
        lines = (tmp_path / "asked").read_text().splitlines()
        assert lines == [f"RedOpCreatePreMulSum 0.5 7 1 {0x1000}", f"RedOpDestroy {op} {0x1000}"]


def test_two_copies_in_a_real_process(build_library: BuildLibrary, tmp_path: Path) -> None:
    """The copy that is mapped wins over the search path; another one is refused."""
    first = build_library("nccl", "VERSION=22809", name="libnccl.so.2")
    second = Path(shutil.copy(first, tmp_path / "libnccl.so.2"))
    code = f"""
import ctypes, os
from busbw.machine.native.nccl import load_nccl
from busbw.errors import SiteError
os.environ["LD_LIBRARY_PATH"] = {str(second.parent)!r}
ctypes.CDLL({str(first)!r})
print(load_nccl().path)
try:
    load_nccl({str(second)!r})
except SiteError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    used, refusal = done.stdout.splitlines()
    assert used == str(first)
    assert refusal.startswith("this process would load two copies of NCCL")
    assert str(first) in refusal
    assert str(second) in refusal
