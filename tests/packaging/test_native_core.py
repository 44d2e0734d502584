"""Which compiler a build uses."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from busbw_testing.programs import program


@pytest.fixture(scope="module")
def native_core() -> ModuleType:
    return program("build_backend/native_core.py")


def _program(folder: Path, name: str) -> None:
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)


@pytest.mark.parametrize("name", ["c++", "g++", "clang++"])
def test_a_compiler_on_path_is_used_as_it_is(tmp_path: Path, native_core: ModuleType, name: str) -> None:
    _program(tmp_path, name)
    environ = {"PATH": str(tmp_path)}
    assert native_core.compiler_environ(environ) == environ


def test_cxx_is_the_users_word_even_with_nothing_on_path(tmp_path: Path, native_core: ModuleType) -> None:
    environ = {"PATH": str(tmp_path), "CXX": "my-clang --driver-mode=g++"}
    assert native_core.compiler_environ(environ) == environ


@pytest.mark.parametrize("cxx", [{}, {"CXX": ""}], ids=["unset", "empty"])
def test_zig_steps_in_where_there_is_none(
    tmp_path: Path, native_core: ModuleType, cxx: dict[str, str]
) -> None:
    pytest.importorskip("ziglang")
    _program(tmp_path, "gcc")  # a C compiler is not enough
    environ = native_core.compiler_environ({"PATH": str(tmp_path), **cxx})
    assert Path(environ["BUSBW_ZIG"]).is_file()
    assert environ["BUSBW_ZIG_TARGET"].endswith("-linux-gnu.2.17")
    assert Path(environ["CMAKE_TOOLCHAIN_FILE"]).is_file()
