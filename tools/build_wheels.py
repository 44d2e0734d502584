"""Build the release wheels of both processors, and with --sdist the source archive, into dist/.

One machine and one compiler (zig) serve both: the core needs nothing but a glibc of 2.17 or newer, which is
what the tag manylinux2014 promises. Every wheel is checked against its tag before it is kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_backend"))

from native_core import GLIBC, zig_environ  # noqa: E402  (the build's own folder, not a package)

MACHINES = ("x86_64", "aarch64")
CORE = "busbw/machine/native/libbusbw_core.so"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machines", nargs="*", help=f"processors; default: {' '.join(MACHINES)}")
    parser.add_argument("--sdist", action="store_true", help="also the source archive")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the results")
    options = parser.parse_args()
    for machine in options.machines or MACHINES:
        wheel = build_wheel(machine, options.out)
        check_wheel(wheel, machine)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e3:.0f} kB")
    if options.sdist:
        _build("--sdist", "--outdir", str(options.out), env=dict(os.environ))
    return 0


def build_wheel(machine: str, out: Path) -> Path:
    """Build one processor's wheel and return its path."""
    tag = f"py3-none-{platform_tag(machine)}.manylinux2014_{machine}"
    with tempfile.TemporaryDirectory() as scratch:
        _build(
            *("--wheel", "--outdir", scratch, f"-Cwheel.tags={tag}", f"-Cbuild-dir={scratch}/build"),
            env={**os.environ, **zig_environ(machine)},
        )
        [built] = Path(scratch).glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        # Not rename: the scratch folder may be on another file system.
        return Path(shutil.move(built, out / built.name))


def check_wheel(wheel: Path, machine: str) -> None:
    """Refuse a wheel that needs more than its tag promises, or is for another processor.

    Raises:
        SystemExit: with what is wrong.
    """
    show = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    report = " ".join(subprocess.run(show, check=True, capture_output=True, text=True).stdout.split())
    if f'platform tag: "{platform_tag(machine)}"' not in report:
        raise SystemExit(f"{wheel.name} is not what its name says: {report}")
    with zipfile.ZipFile(wheel) as archive:
        if b".symtab" in archive.read(CORE):
            raise SystemExit(f"{wheel.name}: {CORE} is not stripped")


def platform_tag(machine: str) -> str:
    """Such as ``manylinux_2_17_aarch64``."""
    return f"manylinux_{GLIBC.replace('.', '_')}_{machine}"


def _build(*arguments: str, env: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", "build", *arguments, str(ROOT)], check=True, env=env, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
