"""The build backend: scikit-build-core, plus a compiler from PyPI where the machine has none.

``pip install .`` must work on a login node or in a container without a C++ compiler. Where none is found,
``ziglang`` (a complete clang with its own C and C++ libraries, as a wheel) joins the build requirements
and compiles the native core. A first such build takes some twenty seconds: zig makes its start-up files once.

An editable install puts the core beside the Python sources, in ``src/busbw/machine/native``: the package is
then the source folder itself, for Python, mypy and editors alike.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import scikit_build_core.build as _skbuild
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from native_core import build_in_place, compiler_environ, has_compiler

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, str | list[str]] | None

# The version that the release wheels are built with.
_ZIGLANG = "ziglang==0.17.1"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    compiler = [] if has_compiler(os.environ) else [_ZIGLANG]
    return [*_skbuild.get_requires_for_build_wheel(config_settings), *compiler]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    # Asked as for a wheel: our editable build runs CMake itself and needs the same tools.
    return get_requires_for_build_wheel(config_settings)


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    with _compiler():
        return _skbuild.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    # A build folder of its own: pip's CMake and ninja are gone after this build, so nothing can be reused.
    with tempfile.TemporaryDirectory(prefix="busbw-core-") as build_dir:
        build_in_place(Path(build_dir), os.environ)
    # pyproject.toml turns CMake off for this state: the core is already where it belongs.
    return _skbuild.build_editable(wheel_directory, config_settings, metadata_directory)


@contextmanager
def _compiler() -> Iterator[None]:
    """Let scikit-build-core, which reads ``os.environ``, find zig when there is nothing else."""
    before = dict(os.environ)
    os.environ.update(compiler_environ(before))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
