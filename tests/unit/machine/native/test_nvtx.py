"""Ranges reach a real injection library, by the interface that profilers use; without one there are none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# A tool as small as one can be: it asks for the tables, puts its functions there, and writes what it is told.
TOOL = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>

struct Callbacks { size_t size; int (*functions)(uint32_t, void (****)(), unsigned*); };
struct Version { size_t size; uint32_t version, reserved; void (*tell)(uint32_t); };
struct Attributes {
  uint16_t version, size; uint32_t category; int32_t color_type; uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload; int32_t message_type; const char* message;
};
static FILE* out;
static void* create(const char* name) { fprintf(out, "domain %s\n", name); fflush(out); return out; }
static int push(void* domain, const Attributes* a) {
  fprintf(out, "push %d %d %u %d %llu %d %s\n", domain == out, a->version, a->size, a->payload_type,
          (unsigned long long)a->payload, a->message_type, a->message);
  fflush(out);
  return 0;
}
static int pop(void* domain) { fprintf(out, "pop %d\n", domain == out); fflush(out); return 0; }

extern "C" int InitializeInjectionNvtx2(const void* (*table)(uint32_t)) {
  out = fopen(getenv("TOLD"), "w");
  auto callbacks = static_cast<const Callbacks*>(table(1));
  auto version = static_cast<const Version*>(table(3));
  if (callbacks == nullptr || version == nullptr || table(9) != nullptr) return 0;
  version->tell(3);
  fprintf(out, "version %u tables", version->version);
  for (uint32_t module = 1; module < 7; ++module) {
    void (***places)() = nullptr;
    unsigned count = 0;
    if (!callbacks->functions(module, &places, &count)) return 0;
    fprintf(out, " %u", count);
    for (unsigned i = 1; i < count; ++i) if (places[i] == nullptr) return 0;
    if (places[count] != nullptr) return 0;
    if (module == 5 && !getenv("LAME")) {
      *places[4] = reinterpret_cast<void (*)()>(push);
      *places[5] = reinterpret_cast<void (*)()>(pop);
      *places[12] = reinterpret_cast<void (*)()>(create);
    }
  }
  fprintf(out, "\n");
  fflush(out);
  return getenv("UNWILLING") ? 0 : 1;
}
"""

PROGRAM = """
import json
from busbw.machine.native import core, nvtx
plain = core.Call.null()
handle = plain.handle
call = nvtx.ranged(plain, "all_reduce float sum 1024 B out-of-place", 1024)
call.issue(0)
call.time_host(1, 2, 2)
print(json.dumps({"attached": nvtx.attach(), "same": call.handle == handle}))
call.close()
"""


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler for the tool")
    folder = tmp_path_factory.mktemp("tool")
    (folder / "tool.cpp").write_text(TOOL)
    words = [compiler, "-std=c++17", "-shared", "-fPIC", "-o", "libtool.so", "tool.cpp"]
    subprocess.run(words, cwd=folder, check=True)
    return folder / "libtool.so"


def told(program: str, tmp_path: Path, **environ: str) -> tuple[dict[str, bool], list[str]]:
    out = tmp_path / "told"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NVTX_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**clean, "TOLD": str(out), **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout), out.read_text().splitlines() if out.exists() else []


def test_every_call_is_a_range_with_its_text_and_bytes(tool: Path, tmp_path: Path) -> None:
    answer, lines = told(PROGRAM, tmp_path, NVTX_INJECTION64_PATH=str(tool))
    assert answer == {"attached": True, "same": False}
    assert lines[:2] == ["version 3 tables 16 9 16 7 16 7", "domain busbw"]
    # One by itself, one lead, two samples of two.
    ranges = ["push 1 3 48 1 1024 1 all_reduce float sum 1024 B out-of-place", "pop 1"]
    assert lines[2:] == ranges * (1 + 1 + 4)


@pytest.mark.parametrize("environ", [{}, {"NVTX_INJECTION64_PATH": "/nowhere/libtool.so"}])
def test_without_a_tool_a_call_is_the_very_same(tmp_path: Path, environ: dict[str, str]) -> None:
    answer, lines = told(PROGRAM, tmp_path, **environ)
    assert answer == {"attached": False, "same": True}
    assert lines == []


@pytest.mark.parametrize("fault", ["UNWILLING", "LAME"])
def test_a_tool_that_does_not_want_or_lacks_functions_gets_none(
    tool: Path, tmp_path: Path, fault: str
) -> None:
    answer, lines = told(PROGRAM, tmp_path, NVTX_INJECTION64_PATH=str(tool), **{fault: "1"})
    assert answer == {"attached": False, "same": True}
    assert not [line for line in lines if line.startswith(("push", "domain"))]


MPI_CASE = """
import json
from busbw.rank.backends.mpi import MpiBackend
from busbw.plan.make import make_plan
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create
world = create(None, "mpi", lambda failure: None)
plan = make_plan(("all_reduce",), RunSettings(minbytes=Size("4K"), maxbytes=Size("4K")), "mpi", 1)
backend = MpiBackend(plan)
backend.connect(world)
prepared = [backend.prepare(case) for case in plan.cases]
prepared[0].run(0)
prepared[1].time(0, 1, 2)
for each in prepared:
    each.close()
backend.close()
print(json.dumps({}))
world.close()
"""


def test_a_case_of_mpi_says_operation_bytes_and_placement(tool: Path, tmp_path: Path) -> None:
    _, lines = told(MPI_CASE, tmp_path, NVTX_INJECTION64_PATH=str(tool))
    pushed = [line.split(" ", 5)[5] for line in lines if line.startswith("push")]
    assert pushed == [
        "4096 1 all_reduce float sum 4096 B out-of-place",
        "4096 1 all_reduce float sum 4096 B in-place",
        "4096 1 all_reduce float sum 4096 B in-place",
    ]
