"""Build the native core with whatever compiler there is; `make core` and the build backend share it."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("c++", "g++", "clang++")
# The oldest that zig's builds run on; 2.17 is CentOS 7 and the manylinux2014 wheels.
GLIBC = "2.17"


def has_compiler(environ: Mapping[str, str]) -> bool:
    """Whether CMake will find a C++ compiler: a set ``$CXX`` is the user's word, else one is on PATH."""
    if environ.get("CXX"):
        return True
    path = environ.get("PATH", os.defpath)
    return any(shutil.which(name, path=path) for name in COMPILERS)


def zig_environ(machine: str) -> dict[str, str]:
    """Variables that make CMake build with zig, for a processor (``x86_64``, ``aarch64``) and old glibc."""
    import ziglang  # a build requirement only where no compiler was found

    return {
        "BUSBW_ZIG": str(Path(ziglang.__file__).parent / "zig"),
        "BUSBW_ZIG_TARGET": f"{machine}-linux-gnu.{GLIBC}",
        "CMAKE_TOOLCHAIN_FILE": str(Path(__file__).with_name("zig.cmake")),
    }


def compiler_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment to build in: ``environ`` itself where it has a compiler, else with zig's variables."""
    return dict(environ) if has_compiler(environ) else {**environ, **zig_environ(platform.machine())}


def build_in_place(build_dir: Path, environ: Mapping[str, str], options: Sequence[str] = ()) -> None:
    """Configure and build the core into ``src/busbw/machine/native``; unchanged files are not compiled again.

    Raises:
        subprocess.CalledProcessError: CMake or the compiler failed; its output says why.
    """
    environ = compiler_environ(environ)
    path = environ.get("PATH", os.defpath)
    generator = ["-G", "Ninja"] if shutil.which("ninja", path=path) else []
    cmake = shutil.which("cmake", path=path) or "cmake"
    configure = [cmake, "-S", str(ROOT), "-B", str(build_dir), *generator, "-DBUSBW_INPLACE=ON", *options]
    build_dir.mkdir(parents=True, exist_ok=True)
    with (build_dir / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two makes at once the second finds it built
        for command in (configure, [cmake, "--build", str(build_dir)]):
            # stderr: a build backend's stdout belongs to the front end.
            subprocess.run(command, check=True, env=environ, stdout=sys.stderr)


if __name__ == "__main__":
    # The tools beside this Python first, activated or not.
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    build_in_place(ROOT / "build" / "core", {**os.environ, "PATH": search}, sys.argv[1:])
