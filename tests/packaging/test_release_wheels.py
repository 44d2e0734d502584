"""The release wheel of the other processor, made on this one, runs under qemu."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]

# Through the typed module, so that its structs are checked on that processor too. The digests say that both
# processors make the same check data; the timing loop runs against the call that does nothing.
EXERCISE = """
import ctypes, json, platform
from busbw.machine.native import core

digests = []
for dtype in range(14):
    data = core.pattern(seed=7, ranks=5, dtype=dtype, op=0)
    buffer = (ctypes.c_uint64 * 1024)()
    region = core.Region(offset=0, count=1024, first_index=3, kind=1, rank=0)
    core.fill(ctypes.addressof(buffer), data, region)
    result = core.new_check_result()
    core.check(ctypes.addressof(buffer), data, region, result)
    digests.append([result.wrong, result.digest])
elapsed_ns = core.Call.null().time_host(lead=1, samples=3, k=10)
print(json.dumps({
    "machine": platform.machine(),
    "digests": digests,
    "samples": len(elapsed_ns),
    "forward": bool((elapsed_ns >= 0).all()),
}))
"""


def _release_wheel(run: Run, tree: Path, machine: str, out: Path) -> Path:
    run(sys.executable, tree / "tools/build_wheels.py", "--out", out, machine)
    [wheel] = out.glob(f"busbw-*{machine}.whl")
    return wheel


@pytest.mark.aarch64
def test_aarch64_wheel_works_on_that_processor(tree: Path, tmp_path: Path, run: Run) -> None:
    python = run(sys.executable, ROOT / "tools/aarch64_python.py").split()
    site = tmp_path / "site"
    version = run(*python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    foreign = ("--only-binary", ":all:", "--python-version", version, "--no-deps")
    platforms = ("--platform", "manylinux_2_28_aarch64", "--platform", "manylinux2014_aarch64")
    run(sys.executable, "-m", "pip", "download", *foreign, *platforms, "--dest", tmp_path, "numpy")
    _release_wheel(run, tree, "aarch64", tmp_path)
    for wheel in tmp_path.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    there = json.loads(run(*python, "-c", EXERCISE, PYTHONPATH=str(site)))
    here = json.loads(run(sys.executable, "-c", EXERCISE, PYTHONPATH=str(ROOT / "src")))
    assert there["machine"] == "aarch64"
    assert there["samples"] == 3
    assert there["forward"]
    assert [wrong for wrong, _ in there["digests"]] == [0] * 14
    assert there["digests"] == here["digests"]
