"""What stands around a table: prefixes, NCCL's own lines, gaps, cuts, rows in pieces."""

import pytest
from busbw_testing.logs import NEW_HEADING, PUBLISHED, format_row, imported, read

from busbw.foreign.logs.context import Evidence, keep, said
from busbw.model.record import RunStatus
from busbw.model.tuning_line import tuning_lines

INFO = "ip-10-0-1-2:14:20 [0] NCCL INFO "


@pytest.mark.parametrize(
    ("prefix", "stream"),
    [
        ("0: ", "0:"),
        ("[1,0]<stdout>:", "[1,0]<stdout>:"),
        ("[pod/nccl-test-launcher-x7k2p/mpi-launcher] ", "[pod/nccl-test-launcher-x7k2p/mpi-launcher]"),
        ("2026-11-21T18:15:02.123456Z ", ""),
        ("[2026-11-21 18:15:02] 0: ", "0:"),
        ("Sat Nov 21 18:15:02 2026[1,0]<stdout>:", "[1,0]<stdout>:"),
        ("        ", ""),
    ],
)
def test_prefixes(prefix: str, stream: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in PUBLISHED["GB200 one rack"].text().splitlines())
    (record,) = imported(text)
    assert len(record.results) == 10
    assert record.source.stream == stream
    assert record.source.findings == ()


def test_lines_of_nccl_are_evidence() -> None:
    lines = PUBLISHED["GB200 one rack"].text().splitlines()
    said = [
        "NCCL version 2.26.2+cuda12.8",
        INFO + "NET/OFI Selected Provider is efa (found 4 nics)",
        INFO + "Using network AWS Libfabric",
        INFO + "NCCL_ALGO set by environment to Ring",
        INFO + "AllReduce: 536870912 Bytes -> Algo NVLS proto Simple channel{Lo..Hi}={0..15}",
    ]
    text = "\n".join([*said, *[line for row in lines for line in (row, INFO + "Launch mode Parallel")]])
    (record,) = imported(text)
    assert record.source.evidence == {
        "nccl_version": ["NCCL 2.26.2+cuda12.8"],
        "provider": ["efa"],
        "network": ["AWS Libfabric"],
        "setting": ["NCCL_ALGO Ring"],
        "algorithm": ["AllReduce: 536870912 Bytes -> Algo NVLS proto Simple channel{Lo..Hi}={0..15}"],
    }
    assert record.world.ranks[0].library_version == "2.26.2+cuda12.8"
    assert len(record.results) == 10
    assert record.source.findings == ()


def test_lines_of_calls_are_kept_in_nccls_own_words() -> None:
    new = "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"
    engines = "AllGather [Hierarchical CE]: 1048576 Bytes -> RMA proxy + CE"
    keys = [[key for key, _ in said(INFO + line)] for line in (new, "Using network IB")]
    assert keys == [["algorithm"], ["network"]]
    evidence: Evidence = {}
    for line in (new, new, "8 Bytes -> Algo 0 proto 2 time 12.5", engines):
        keep(evidence, said(INFO + line))
    kept = list(evidence["algorithm"])
    assert kept[:2] == [new, "8 Bytes -> Algo 0 proto 2"]
    assert [line.choice.algorithm for line in tuning_lines(kept[2])] == ["HIERARCHICAL CE"]


def test_a_row_that_other_output_cut_is_joined() -> None:
    def side(size: int) -> str:
        return f"100.0 {size / 1e5:.2f} {size / 1e5 * 1.75:.2f} 0"

    rows = [format_row(f"{n} {n // 4} float sum -1 {side(n)} {side(n)}") for n in (1 << 20, 1 << 21, 1 << 22)]
    whole = imported(NEW_HEADING + "\n".join(rows) + "\n", op="all_reduce", ranks=8)[0]
    cut = rows[1][:52] + INFO + "Launch mode Parallel\n" + rows[1][52:]
    (record,) = imported(NEW_HEADING + "\n".join([rows[0], cut, rows[2]]) + "\n", op="all_reduce", ranks=8)
    assert record.results == whole.results
    assert [finding.kind for finding in record.source.findings] == ["joined", "no-end"]


def test_a_row_that_was_cut_and_not_continued_is_damaged() -> None:
    lines = PUBLISHED["GB200 one rack"].text().splitlines()
    lines[6] = lines[6][:52] + INFO + "abort"
    (record,) = imported("\n".join(lines))
    assert len(record.results) == 8
    assert [finding.kind for finding in record.source.findings] == ["damaged", "rows-missing"]
    assert record.source.findings[0].line == 7


def test_a_log_cut_in_a_row_keeps_its_good_rows() -> None:
    text = PUBLISHED["GB200 one rack"].text()
    end = text.index("20299")
    (record,) = imported(text[:end])
    assert record.status is RunStatus.INTERRUPTED
    assert len(record.results) == 8
    assert [finding.kind for finding in record.source.findings] == ["damaged", "cut"]


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"\x00\x01\x02", b"{", b"{}", b"[]", b"\xff\xfe# size count", b"#" * 10_000]
)
def test_what_is_no_log_has_no_tables(data: bytes) -> None:
    assert read(data).tables == ()


@pytest.mark.parametrize(
    "line",
    [
        "mpirun " * 30_000 + "all_reduce_perf",
        "nccom-test " + "'a " * 40_000,
        "# algbw " + "x" * 3_000_000,
    ],
)
def test_long_lines_take_no_time(line: str) -> None:
    import time

    text = PUBLISHED["GB200 one rack"].text().splitlines()
    start = time.process_time()
    (record,) = imported("\n".join([*text[:7], line, *text[7:]]))
    assert time.process_time() - start < 1.0
    assert len(record.results) == 10
    assert record.source.findings == ()


def test_what_a_progress_display_wrote_last_is_read() -> None:
    lines = PUBLISHED["GB200 one rack"].text().splitlines()
    lines[7] = "".join(f" {n}%|#####\r" for n in range(3_000)) + lines[7]
    (record,) = imported("\n".join(lines))
    assert len(record.results) == 10


def test_what_nccl_said_of_a_call_is_in_the_cases_of_its_table() -> None:
    """Two tables of the same sizes, the second without such lines."""
    plain = PUBLISHED["GB200 one rack"].text().splitlines()
    said = INFO + "AllReduce: {} Bytes -> Algo NVLS proto SIMPLE channel{{Lo..Hi}}={{0..15}}"
    rows = [line for line in plain if line.split()[:1] and line.split()[0].isdigit()]
    lines = [told for row in plain for told in ([said.format(row.split()[0])] * (row in rows) + [row])]
    lines.insert(lines.index(rows[0]), INFO + f"AllReduce: {rows[0].split()[0]} Bytes -> Algo RING proto LL")
    first, second = imported("\n".join([*lines, *plain]))
    words = {case.size_bytes: result.algorithm for case, result in first.timed}
    assert list(words.values()) == ["", *["NVLS SIMPLE"] * (len(words) - 1)]  # two things of the first
    assert first.results[-1].choice is not None
    assert first.results[-1].choice.channels == 16
    assert {result.algorithm for result in second.results} == {""}
    assert "algorithm" not in second.source.evidence
