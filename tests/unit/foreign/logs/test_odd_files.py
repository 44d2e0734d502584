"""Texts as people have them: other encodings, pasted, with reports and prefixes of all sorts."""

import gzip
from collections.abc import Callable

import pytest
from busbw_testing.logs import imported, nccl_table, read


def with_prefix(text: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


# Each is the same log: as other programs store or show it.
FORMS: dict[str, Callable[[str], bytes]] = {
    "UTF-16, as PowerShell redirects": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "UTF-16, compressed": lambda text: gzip.compress(b"\xfe\xff" + text.encode("utf-16-be")),
    "UTF-8 with a mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "tabs": lambda text: "".join("\t".join(line.split()) + "\n" for line in text.splitlines()).encode(),
    "blanks of the web": lambda text: text.replace("  ", "\u00a0\u00a0").encode(),
    "colours": lambda text: with_prefix(text, "\x1b[32m").replace("\n", "\x1b(B\x1b[m\n").encode(),
    "a terminal's title": lambda text: with_prefix(text, "\x1b]0;node1: bash\x07").encode(),
    "empty lines between all": lambda text: text.replace("\n", "\n\n").encode(),
    "other words around it": lambda text: f"# Report\n\n```\n{text}```\n\nAll good?\n".encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_however_a_log_is_stored(form: str) -> None:
    text = nccl_table(1) + nccl_table(2)
    found, wanted = imported(FORMS[form](text)), imported(text)
    assert [(record.plan.cases, record.results, record.source.findings) for record in found] == [
        (record.plan.cases, record.results, ()) for record in wanted
    ]


def test_words_before_a_row_are_no_prefix() -> None:
    """A row and a heading in one line, several times: nothing of a row is taken for a prefix."""
    lines = nccl_table(1).splitlines()
    rows = [line for line in lines if line.strip()[:1].isdigit()]
    joined = [f"{row}# Out of bounds values : 0 OK" for row in rows[-2:]]
    (record,) = imported("\n".join([*lines[:-3], *joined, *lines[-3:]]))
    assert len(record.results) == 58


def test_a_report_of_somebody_else_is_not_taken_apart() -> None:
    trace = b'{"traceEvents": [' + b'{"name": "ncclKernel"},' * 100_000
    assert read(trace).tables == ()
    assert not read(trace).is_log
