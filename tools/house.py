"""How large the package is, where its imports run in circles, and how long its ways are.

    .venv/bin/python tools/house.py [--source src] [--json]

Prints three tables: files and lines of every room (a folder of the package); circles of imports between files
and between rooms, with imports for types and inside functions counted; the functions and files that three
commands execute: a run of two ranks with exact times, a dry run on Slurm, the import of a log of 16 rows.
A function counts once, however often it is called and in however many processes; bodies of modules, classes,
comprehensions and lambdas do not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOG_ROWS = 16
# Loaded by every Python below the command (as sitecustomize): it notes which functions of the package begin.
TRACER = """
import atexit, os, sys, threading
package, folder, seen = os.environ["HOUSE_PACKAGE"], os.environ["HOUSE_FOLDER"], set()

def note(frame, event, _):
    code = frame.f_code
    is_function = event == "call" and code.co_flags & 1 and code.co_name[0] != "<"
    if is_function and code.co_filename.startswith(package):
        seen.add(f"{code.co_filename[len(package):]}:{code.co_firstlineno}:{code.co_name}")

def write(*_):
    sys.setprofile(None)
    with open(os.path.join(folder, str(os.getpid())), "w") as file:
        file.write("\\n".join(seen))

leave = os._exit
os._exit = lambda code: (write(), leave(code))
atexit.register(write)
threading.setprofile(note)
sys.setprofile(note)
"""


@dataclass(frozen=True)
class Room:
    """A folder of the package: its Python files and their lines."""

    name: str
    files: int
    lines: int


@dataclass(frozen=True)
class Way:
    """What a command executed: functions of the package, and the files they stand in."""

    command: str
    functions: int
    files: int


def rooms(package: Path) -> list[Room]:
    """The package's rooms in the order of their size; files at its top are the room ``.``."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).parts
        name = parts[0] if len(parts) > 1 else "."
        files[name] += 1
        lines[name] += len(path.read_text(encoding="utf-8").splitlines())
    return [Room(name, files[name], count) for name, count in lines.most_common()]


def imports(package: Path) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, for types and inside functions too."""
    paths = {_module(path, package): path for path in package.rglob("*.py")}
    return {name: _imported(path, paths.keys()) - {name} for name, path in paths.items()}


def _module(path: Path, package: Path) -> str:
    words = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def _imported(path: Path, modules: Set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= modules else names | {node.module}
    return found & modules


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Circles of a graph, one for each knot: the arrow that closes a found one is cut, and it goes on."""
    left = {name: set(targets) for name, targets in graph.items()}
    found = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle = list(error.args[1])
            found.append(circle)
            left[circle[-1]].discard(circle[-2])  # graphlib lists a node before those that need it
        else:
            return found


def between_rooms(graph: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """The same arrows between the rooms of the package; files at its top are rooms of their own."""
    arrows: dict[str, set[str]] = {}
    for name, targets in graph.items():
        own = _room(name)
        arrows.setdefault(own, set()).update(room for room in map(_room, targets) if room not in (own, ""))
    return arrows


def _room(module: str) -> str:
    words = module.split(".")
    return words[1] if len(words) > 1 else ""


def ways(source: Path, folder: Path) -> list[Way]:
    """What the three commands execute, measured in ``folder``."""
    log = folder / "all_reduce.log"
    log.write_text(nccl_tests_log())
    commands = {
        "run all_reduce (null, 2 ranks)": (
            *("run", "all_reduce", "--backend", "null", "--world", "nccl"),
            *("--ranks", "2", "-b", "8", "-e", "1M"),
        ),
        "run --on slurm --dry-run": ("run", "all_reduce", "--on", "slurm", "-N", "2", "--dry-run"),
        f"import of {LOG_ROWS} rows": ("import", str(log)),
    }
    return [way(source, folder, name, words) for name, words in commands.items()]


def way(source: Path, folder: Path, name: str, words: tuple[str, ...]) -> Way:
    """What one command executed. Raises CalledProcessError where it fails."""
    seen = Path(tempfile.mkdtemp(dir=folder))
    tracer = Path(tempfile.mkdtemp(dir=folder))
    (tracer / "sitecustomize.py").write_text(TRACER)
    environ = {
        **os.environ,
        "PYTHONPATH": f"{tracer}:{source}",
        "HOUSE_PACKAGE": f"{source / 'busbw'}/",
        "HOUSE_FOLDER": str(seen),
        "BUSBW_HOME": str(folder / "home"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "busbw", *words], env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"busbw {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    functions = {line for path in seen.iterdir() for line in path.read_text().splitlines()}
    return Way(name, len(functions), len({line.split(":")[0] for line in functions}))


def nccl_tests_log() -> str:
    """A log of nccl-tests' all_reduce with 16 rows: one host of four GPUs, 20 us and 100 GB/s."""
    lines = [
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 262144 step: 2(factor) warmup iters: 5 iters: 20",
        "#",
        "# Using devices",
        *(
            f"#  Rank {rank:2} Group  0 Pid   {4242 + rank} on      node1 device  {rank} [0x18] NVIDIA H100"
            for rank in range(4)
        ),
        "#",
        f"#{'out-of-place':>73}{'in-place':>34}",
        f"#{'size count type redop root':>44}" + "  time algbw busbw #wrong" * 2,
        f"#{'(B) (elements)':>25}" + "  (us) (GB/s) (GB/s)" * 2,
    ]
    bandwidths = []
    for power in range(LOG_ROWS):
        size = 8 << power
        time = round(20 + size / 1e5, 2)
        algbw = size / time / 1e3
        bandwidths.append(round(1.5 * algbw, 2))
        half = f"{time:8.2f}{algbw:8.2f}{1.5 * algbw:8.2f}{0:7d}"
        lines.append(f"{size:12d}{size // 4:14d}     float     sum      -1 {half} {half}")
    average = sum(bandwidths) / len(bandwidths)
    lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {average:.5g} ", "#"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Sizes, circles and ways of the package.")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that has busbw/")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    package = given.source.resolve() / "busbw"
    sizes, graph = rooms(package), imports(package)
    knots = {"files": circles(graph), "rooms": circles(between_rooms(graph))}
    with tempfile.TemporaryDirectory() as folder:
        walked = ways(package.parent, Path(folder))
    if given.json:
        found = {"rooms": [asdict(room) for room in sizes], "circles": knots}
        print(json.dumps({**found, "ways": [asdict(one) for one in walked]}))
        return
    print(f"{'room':12}{'files':>7}{'lines':>9}")
    for room in (*sizes, Room("all", sum(one.files for one in sizes), sum(one.lines for one in sizes))):
        print(f"{room.name:12}{room.files:7}{room.lines:9,}")
    for what, found in knots.items():
        print(f"\ncircles between {what}: {len(found)}")
        for circle in found:
            print("  " + " <- ".join(circle))
    print(f"\n{'way':34}{'functions':>10}{'files':>7}")
    for one in walked:
        print(f"{one.command:34}{one.functions:10}{one.files:7}")


if __name__ == "__main__":
    main()
