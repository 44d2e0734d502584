"""The JSON file of nccl-tests (-J, since 2.17): the columns of its text, per-iteration times under -I."""

from __future__ import annotations

from typing import Any, Final

from busbw.foreign.logs.entries import found_table
from busbw.foreign.logs.json_text import Document, mapping, sequence, word
from busbw.foreign.logs.table import Cell, Facts, RankLine, Table, number_or_word, rank_line
from busbw.foreign.nccl_tests.read import ALL_COLUMNS, NCCL_TESTS
from busbw.model.record import ImportFinding

_CASE: Final = ("size", "count", "type", "redop", "root")
_SIDES: Final = ("out_of_place", "in_place")
_MEASURES: Final = {"time": "time", "cpu_time": "cputime", "alg_bw": "algbw", "bus_bw": "busbw"}
_STATS: Final = {"min_us": "min", "max_us": "max", "p50_us": "p50", "p95_us": "p95", "p99_us": "p99"}
# Names of the text header, and of the file.
_HEADER: Final = {
    "threads": "nthreads",
    "gpus": "ngpus",
    "min_bytes": "minimum_bytes",
    "max_bytes": "maximum_bytes",
    "warmup_iters": "warmup_iters",
    "iters": "iterations",
    "agg_iters": "aggregated_iterations",
    "validation": "validation",
    "graph": "graph",
}
_RANK: Final = {
    **{name: name for name in ("rank", "group", "pid", "device")},
    "host": "hostname",
    "bus_id": "device_hex",
    "device_name": "device_info",
}


def is_nccl_tests(content: dict[str, Any]) -> bool:
    """Whether a JSON document is one of nccl-tests. A file of nccom-test has results beside a config too."""
    if any("size(B)" in mapping(row) for row in sequence(content.get("results"))):
        return False
    return isinstance(content.get("results"), list) and any(
        key in content for key in ("config", "nccl_version", "average_bus_bandwidth")
    )


def table(document: Document) -> Table:
    """The table of a document, maybe without rows."""
    content = document.content
    entries = enumerate(map(_words, sequence(content.get("results"))), 1)
    facts = Facts(_header(content), _ranks(content))
    found = found_table(NCCL_TESTS, ALL_COLUMNS, entries, facts, "an entry of results")
    found.footer.update(_footer(content))
    return NCCL_TESTS.interpret(found).with_findings(*cut(document, found.last_line))


def cut(document: Document, entries: int) -> list[ImportFinding]:
    """That the text cannot be read to its end."""
    if not document.cut_line:
        return []
    text = f"the JSON text cannot be read from here on; {entries} entries of results stand before"
    return [ImportFinding("cut", text, document.cut_line)]


def _words(row: Any) -> dict[Cell, str]:  # noqa: ANN401 (JSON)
    """The words of an entry by column; none for what is no row."""
    row = mapping(row)
    if not any(isinstance(row.get(side), dict) for side in _SIDES):
        return {}
    words: dict[Cell, str] = {(name, 0): word(row.get(name)) for name in _CASE}
    words["redop", 0] = words["redop", 0] or "none"  # tests that reduce nothing may pass no name
    words["root", 0] = words["root", 0] or "-1"
    for index, name in enumerate(_SIDES):
        side, spread = mapping(row.get(name)), mapping(row.get(f"{name}_per_iter"))
        words |= {(ours, index): word(side[key]) for key, ours in _MEASURES.items() if key in side}
        words |= {(ours, index): word(spread[key]) for key, ours in _STATS.items() if key in spread}
        if side:
            words["wrong", index] = word(side.get("nwrong")).replace("-1", "")
    return words


def _header(content: dict[str, Any]) -> dict[str, Any]:
    """The words of the text header under the text's names; the environment is not among them."""
    config = mapping(content.get("config"))
    args = [word(each) for each in sequence(content.get("args"))]
    program = next((each for each in args if each.endswith("_perf")), "").rpartition("/")[2]
    said = word(mapping(content.get("busbw")).get("time_is")).removesuffix("; of one call, in us")
    return _known(
        {
            **{ours: word(config.get(theirs)) for ours, theirs in _HEADER.items()},
            **{name: word(content.get(name)) for name in ("start_time", "end_time")},
            "library_version": word(content.get("nccl_version")),
            "program": program,
            "command": " ".join(args),
            "time_is": said,
        }
    )


def _footer(content: dict[str, Any]) -> dict[str, Any]:
    average = word(mapping(content.get("average_bus_bandwidth")).get("bandwidth"))
    return _known(
        {"average": average, "out_of_bounds": word(mapping(content.get("out_of_bounds")).get("count"))}
    )


def _known(words: dict[str, str]) -> dict[str, Any]:
    return {name: number_or_word(text) for name, text in words.items() if text}


def _ranks(content: dict[str, Any]) -> list[RankLine]:
    devices = map(mapping, sequence(mapping(content.get("config")).get("devices")))
    named = [{ours: word(device.get(theirs)) for ours, theirs in _RANK.items()} for device in devices]
    return [rank_line(words) for words in named if words["rank"]]


def environment(content: dict[str, Any]) -> dict[str, str]:
    """The variables that nccl-tests saw, all of them, secrets included."""
    pairs = (word(entry).partition("=") for entry in sequence(content.get("env")))
    return {name: value for name, sign, value in pairs if sign}
