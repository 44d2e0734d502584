"""``busbw nccom-test`` over real MPI ranks: every command line of nccom-test's documentation, scaled to two
ranks and small sizes, and its output read by a reader of the format alone and by ``busbw import``.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.nccom_format import Table, parse
from busbw_testing.runs import start
from busbw_testing.wrong_data import wrong_mpi

from busbw.foreign.nccom.options import parse as options_of
from busbw.foreign.nccom.options import parse_bytes
from busbw.record.folder import run_folders
from busbw.record.read import read_record

pytestmark = pytest.mark.skipif(
    shutil.which("mpiexec", path=str(Path(sys.executable).parent)) is None,
    reason="the bundled mpich is not installed here",
)

# The engine `hosts` as this machine: what is tested is the front door, not SSH.
ON_HOSTS: Final = (
    "import sys; from busbw.plan.flags.engines import ENGINES, EngineRow;"
    "row = EngineRow('busbw_testing.here_engine');"
    "ENGINES.update(dict.fromkeys(('here', 'hosts', 'slurm'), row));"
    "from busbw.cli.main import main; sys.exit(main())"
)
MOST_BYTES: Final = 65536
FILES: Final = {
    "pairs.json": {"src_target_pairs": [[[0, 1], [1, 0], [2, 2]]]},
    "groups.json": {"replica_groups": [[[0, 2], [1, 3]]]},
    "stream_0_rg.json": {"replica_groups": [[[0, 1], [2, 3]]]},
    "streams_example.json": {
        "streams": [
            {
                "operation": "all_reduce",
                "datatype": "bf16",
                "stepfactor": 2,
                "minbytes": "1KB",
                "maxbytes": "8KB",
                "custom_replica_groups": "stream_0_rg.json",
            },
            {
                "operation": "allg",
                "datatype": "fp32",
                "ops_per_iter": 2,
                "minbytes": "1KB",
                "maxbytes": "1KB",
            },
        ]
    },
    "allgv.json": {
        "metadata": [
            {
                "send_counts": [256],
                "send_displs": [0],
                "recv_counts": [256, 256],
                "recv_displs": [0, 256],
            }
        ]
    },
    "alltoallv.json": {
        "metadata": [
            {"send_counts": [512, 1024], "send_displs": [0, 512], "recv_counts": [], "recv_displs": []}
        ]
    },
}

# As documented, or made from the description of a flag.
EXAMPLES: Final = (
    "nccom-test -r 16 allr --minbytes 1kb --maxbytes 1gb --stepfactor 16 --datatype fp32 --show-algorithm",
    (
        "nccom-test -r 8 --minbytes 1kb --maxbytes 1mb --stepfactor 8 --datatype fp32"
        " --stats avg p25 p50 p90 p99 --iters 1000 allg --show-input-output-size"
    ),
    "nccom-test allgv -r 4 -N 1 -b 2048 -e 2048 -d fp16 --variable-size-op-metadata allgv.json",
    "nccom-test -r 2 -n 15 -w 5 -I 10 -W 5 -b 1kb -e 1kb redsct",
    "nccom-test -r 2 --coalesced-cc-size-ratio [1,2,1] -b 4MB -e 4MB allr",
    "nccom-test -r 2 --unique-buff --vcpu-pin-mode -b 1kb -e 1kb alltoall",
    "nccom-test --non-interactive --debug -r 2 all_gather -b 1K -e 2kB -f 2 -t p99.9 avg --seed 7 -c random",
)
MORE_RANKS: Final = (
    ("nccom-test -r 8 --custom-src-target-pairs pairs.json permute -b 1kb -e 1kb -c", 3),
    ("nccom-test -r 64 --custom-replica-groups groups.json -b 1kb -e 1kb -c allr", 4),
)
ON_SEVERAL_NODES: Final = (
    (
        "nccom-test -r 2 -N 2 -d fp32 alltoallv -b 1MB -e 1MB --hosts 127.0.0.1 172.32.253.16"
        " --variable-size-op-metadata alltoallv.json"
    ),
    "nccom-test -r 64 -N 2 allr --slurm-mode --slurm-setup-script setup.sh -e 1kb -b 1kb",
)


def scaled(line: str, ranks: int = 2) -> list[str]:
    """The words after the program: fewer ranks, no size above 64 KiB, no more than 100 calls."""
    words = shlex.split(line)[1:]
    for at, word in enumerate(words[:-1]):
        if word in ("-r", "--nworkers"):
            words[at + 1] = str(ranks)
        elif word in ("-b", "-e", "--minbytes", "--maxbytes"):
            words[at + 1] = str(min(parse_bytes(words[at + 1]), MOST_BYTES))
        elif word == "--iters":
            words[at + 1] = str(min(int(words[at + 1]), 100))
    if not {"-b", "--minbytes"}.intersection(words):  # 32 MiB by default
        words += ["-b", str(MOST_BYTES), "-e", str(MOST_BYTES)]
    return words


class Ran:
    """A finished command and what it printed."""

    def __init__(self, words: list[str], done: subprocess.CompletedProcess[str], home: Path) -> None:
        self.options = options_of(words)
        self.done = done
        self.home = home

    @property
    def table(self) -> Table:
        (table,) = parse(self.done.stdout)
        return table


def run(folder: Path, words: list[str], program: list[str] | None = None, **variables: str) -> Ran:
    for name, content in FILES.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "setup.sh").write_text("true\n")
    home = folder / "home"
    variables = {"BUSBW_BACKEND": "mpi", "BUSBW_NCCOM_TEST": "none", **variables}
    if program is None:
        return Ran(words, start(home, "nccom-test", *words, cwd=folder, **variables), home)
    done = subprocess.run(
        [sys.executable, *program, "nccom-test", *words],
        env=clean_environ(BUSBW_HOME=str(home), **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=folder,
    )
    return Ran(words, done, home)


def check(ran: Ran) -> Table:
    assert ran.done.returncode == 0, ran.done.stderr
    table = ran.table
    assert table.failures == []
    assert len(table.sizes) == len(ran.options.sizes_bytes)
    assert all(abs(got - asked) < 64 for got, asked in zip(table.sizes, ran.options.sizes_bytes, strict=True))
    assert table.times == [f"time:{word}(us)" for word in ran.options.stats]
    assert ("algorithm" in table.columns) == ran.options.show_algorithm
    assert ("total_input_size(B)" in table.columns) == ran.options.show_input_output_size
    (newest, *_) = run_folders(ran.home)
    assert f"busbw show {newest.name}" in ran.done.stderr
    record = read_record(newest)
    assert record.plan.limits.calls == ran.options.iters
    return table


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        (EXAMPLES[0], 2),
        *(pytest.param(line, 2, marks=pytest.mark.slow) for line in EXAMPLES[1:]),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE_RANKS),
    ],
)
def test_examples(line: str, ranks: int, tmp_path: Path) -> None:
    check(run(tmp_path, scaled(line, ranks)))


@pytest.mark.slow
@pytest.mark.parametrize("line", ON_SEVERAL_NODES)
def test_examples_on_several_nodes(line: str, tmp_path: Path) -> None:
    variables = {"NEURON_RT_ROOT_COMM_ID": "127.0.0.1:45654"} if "--hosts" in line else {}
    ran = run(tmp_path, scaled(line), ["-c", ON_HOSTS], **variables)
    check(ran)
    if variables:
        assert "NEURON_RT_ROOT_COMM_ID is not needed" in ran.done.stderr


def test_streams_have_a_table_each_and_run_until_the_longest_sweep_ends(tmp_path: Path) -> None:
    """The documented example, with 4 ranks and 4 sizes: (1KB, 1KB), (2KB, 1KB), (4KB, 1KB), (8KB, 1KB)."""
    words = "-r 4 allg -c --streams-json streams_example.json --report-to-json-file report.json -n 10 -w 2"
    ran = run(tmp_path, words.split())
    assert ran.done.returncode == 0, ran.done.stderr
    reduced, gathered = parse(ran.done.stdout)
    assert reduced.sizes == [1024, 2048, 4096, 8192]
    assert gathered.sizes == [1024] * 4
    assert {row["type"] for row in reduced.rows} == {"bf16"}
    assert {row["type"] for row in gathered.rows} == {"fp32"}
    assert reduced.failures == gathered.failures == []
    rows = json.loads((tmp_path / "report.json").read_text())["results"]
    assert [(row["stream"], row["operation"], row["size(B)"]) for row in rows] == [
        *((0, "all_reduce", size) for size in reduced.sizes),
        *((1, "allg", size) for size in gathered.sizes),
    ]
    # Groups of two have a factor of 1, the four ranks one of 3/4.
    assert all(row["busbw(GB/s)"] == row["algbw(GB/s)"] for row in rows[:4])
    assert all(row["busbw(GB/s)"] == pytest.approx(row["algbw(GB/s)"] * 0.75) for row in rows[4:])
    (newest, *_) = run_folders(ran.home)
    record = read_record(newest)
    assert [case.stream for case in record.plan.cases] == [0, 1] * 4
    for case, result in zip(record.plan.cases, record.results, strict=True):
        assert result.wrong == 0
        assert result.overlap is not None
        assert 0 <= result.overlap <= 1
        calls = result.samples * result.calls_per_sample
        assert calls == (10, 20)[case.stream]
        assert ("all_gather" if case.stream == 0 else "all_reduce") in case.beside[0]
    records = imported(tmp_path, "report.json")
    assert {(one.plan.cases[0].collective, one.world.size, len(one.results)) for one in records} == {
        ("all_reduce", 2, 4),  # of a group
        ("all_gather", 4, 4),
    }


def test_streams_have_their_own_iterations_checks_and_buffers(tmp_path: Path) -> None:
    streams = [
        {"operation": "allr", "iters": 10, "warmup_iters": 2, "check": "all_ones"},
        {"operation": "allg", "iters": 40, "unique_buff": True},
        {"operation": "redsct", "check": "random", "ops_per_iter": 2},
    ]
    (tmp_path / "own.json").write_text(json.dumps({"streams": streams}))
    words = "-r 2 allr -d fp32 -b 1kb -e 1kb -n 20 -w 5 --streams-json own.json"
    ran = run(tmp_path, words.split())
    assert ran.done.returncode == 0, ran.done.stderr
    assert len(parse(ran.done.stdout)) == 3
    (newest, *_) = run_folders(ran.home)
    record = read_record(newest)
    results = record.results
    # With those of a moment without a core, which are left out on a busy machine.
    issued = [(each.samples + each.excluded) * each.calls_per_sample for each in results]
    assert issued == [10, 40, 40]
    assert [each.wrong for each in results] == [0, None, 0]
    # What was sampled before the pace was known is warm-up too.
    warm = [each.warmup_calls for each in results]
    assert [calls % timed for calls, timed in zip(warm, issued, strict=True)] == [2, 5, 10]
    # The first has company as long as it runs, the second for a quarter of its iterations.
    longest = results[1].overlap
    assert longest is not None
    assert longest <= 0.25
    assert "part-alone" in results[1].marks
    assert (
        "stream 0 all_reduce, 1 call an iteration, 10 iterations behind 2 untimed, 1 check, data all_ones"
        in (ran.done.stderr)
    )
    assert "stream 1: a place of its own for every call" in record.method.buffers


@pytest.mark.slow
def test_wrong_data_of_one_stream_fails_its_rows_alone(tmp_path: Path) -> None:
    streams = [
        {"operation": "allr", "minbytes": "512", "maxbytes": "2KB", "stepfactor": 2},
        {"operation": "allg", "minbytes": "1KB", "maxbytes": "1KB"},
    ]
    (tmp_path / "two.json").write_text(json.dumps({"streams": streams}))
    words = "-r 2 allr -d fp32 -n 8 --check random --streams-json two.json"
    ran = run(tmp_path, words.split(), LD_PRELOAD=wrong_mpi(tmp_path))
    assert ran.done.returncode == 1, ran.done.stderr
    reduced, gathered = parse(ran.done.stdout)
    assert reduced.sizes == [512, 2048]
    ((size, text),) = reduced.failures
    assert size == 1024
    assert text.startswith("Failure checking allr: 1 wrong element, first on rank 1 - run folder ")
    assert gathered.sizes == [1024] * 3
    assert gathered.failures == []
    (newest, *_) = run_folders(ran.home)
    for path in (newest / "wrong").iterdir():
        with np.load(path) as found:
            differ = np.flatnonzero(found["received"] != found["expected"])
            assert (differ.tolist(), int(found["first_wrong"]), len(found["sent"])) == ([5], 5, 256)
    assert any((newest / "wrong").iterdir())


@pytest.mark.slow
def test_what_it_prints_and_writes_is_read_back(tmp_path: Path) -> None:
    """A sweep whose times are long enough for two decimals to tell the number of ranks."""
    line = (
        "-r 2 -b 64kb -e 1mb -f 4 -d fp32 -n 40 -c allg --report-to-json-file report.json --mpi-log-dir logs"
    )
    ran = run(tmp_path, shlex.split(line))
    table = check(ran)
    body = json.loads((tmp_path / "report.json").read_text())
    assert body["config"]["operation"] == "allg"
    assert [row["size(B)"] for row in body["results"]] == table.sizes
    for row, shown in zip(body["results"], table.rows, strict=True):
        assert f"{row['time:avg(us)']:.2f}" == shown["time:avg(us)"]
        assert f"{row['busbw(GB/s)']:.2f}" == shown["busbw(GB/s)"]
        assert row["busbw(GB/s)"] == pytest.approx(row["algbw(GB/s)"] / 2, rel=1e-12)
    assert [path.name.endswith("ranks.log") for path in (tmp_path / "logs").iterdir()] == [True]
    (tmp_path / "output.txt").write_text(ran.done.stdout)
    for name in ("output.txt", "report.json"):
        (record,) = imported(tmp_path, name, "--op", "all_gather", "--ranks", "2")
        assert [case.size_bytes for case in record.plan.cases] == table.sizes
        assert record.world.size == 2
        for result, row in zip(record.results, body["results"], strict=True):
            assert result.time_ns == pytest.approx(row["time:avg(us)"] * 1e3, abs=6)


def imported(folder: Path, name: str, *words: str) -> list[Any]:
    """The records of what ``busbw import`` reads of a file."""
    home = folder / f"imported-{name}"
    done = start(home, "import", name, *words, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return [read_record(found) for found in run_folders(home)]


def test_a_refusal_is_one_error_and_a_hint(tmp_path: Path) -> None:
    done = run(tmp_path, ["-r", "4", "-N", "2", "allr"]).done
    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: -N 2 nodes, and no hosts")
    assert hint.startswith("hint: ")


def test_under_a_launcher_it_says_that_it_starts_ranks_itself(tmp_path: Path) -> None:
    done = run(tmp_path, ["-r", "2", "allr"], RANK="0", WORLD_SIZE="4").done
    assert done.returncode == 2
    assert "starts its own ranks" in done.stderr
    other = run(tmp_path, ["-r", "2", "allr"], RANK="1", WORLD_SIZE="4").done
    assert (other.returncode, other.stdout, other.stderr) == (2, "", "")
