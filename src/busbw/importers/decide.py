"""Operation and number of ranks of a table: by its own words, else solved from its rows, else asked for.

A label that the rows contradict loses, and a finding says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from busbw.errors import UndecidedError
from busbw.importers.check import Checked
from busbw.importers.operations import DOUBLE, PLAIN, SHARED, UNEVEN, operation, operation_in_path
from busbw.importers.solve import Consensus, RankInterval, block_ranks, factor, possible_operations, ranks_of
from busbw.importers.table import Table
from busbw.model.collective import COLLECTIVES
from busbw.model.record import ImportFinding

_KNOWN: Final = DOUBLE | SHARED | PLAIN | UNEVEN | {row.name for row in COLLECTIVES}

_BY_PATH: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Given:
    """What the user says about the logs: empty or None is nothing."""

    operation: str = ""
    ranks: int | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The operation and ranks of a table, whose word that is, and what had to give way."""

    operation: str
    operation_from: str
    ranks: int
    ranks_from: str
    interval: RankInterval | None
    findings: tuple[ImportFinding, ...]


def decide(
    checked: Checked,
    path: str,
    labels: dict[str, str],
    given: Given,
    labels_from: Mapping[str, str] = _BY_PATH,
) -> Decision:
    """Raises UndecidedError where neither the log nor the user says what is needed. ``labels_from`` says
    whose word a label is that the path does not have.
    """
    table = checked.table
    agreed = checked.factor or factor(
        table, checked.gb if checked.scale is not None and _is_unit(checked) else None
    )
    likely = given.operation or table.operation or named_by_path(path, labels)
    # Where the named one fits, nobody asks for the others.
    fits = possible_operations(table, agreed, checked.scale, (likely,)) or possible_operations(
        table, agreed, checked.scale
    )
    by_label = (labels_from.get("test", "path"), named_by_path(path, labels))
    name, word, findings = _operation(table, agreed, fits, by_label, given)
    interval = ranks_of(name, agreed)
    blocks = block_ranks(table, name)
    solved = RankInterval(blocks, blocks) if blocks is not None else interval
    ranks, ranks_word, more = _ranks(table, solved, labels, given, labels_from.get("ranks", "path"))
    if interval is not None and not interval.contains(ranks) and ranks_word != "flag":
        text = f"busbw / algbw says {interval} ranks, size / count says {ranks}"
        more = (*more, ImportFinding("contradiction", text, table.first_line))
    return Decision(name, word, ranks, ranks_word, solved, (*findings, *more))


def _is_unit(checked: Checked) -> bool:
    return checked.gb is not None and checked.scale is not None and checked.scale.contains(1 / checked.gb)


def _operation(
    table: Table,
    agreed: Consensus | None,
    fits: Sequence[str],
    by_label: tuple[str, str],
    given: Given,
) -> tuple[str, str, tuple[ImportFinding, ...]]:
    """The name that is taken, whose word that is, and what was said against others or against it."""
    if given.operation:
        against = (*_foreign(table, given.operation), *_overridden(table, fits, given.operation))
        return given.operation, "flag", against
    named = [(table.operation_from, table.operation), by_label]
    findings = []
    chosen = chosen_word = ""
    for word, name in named:
        if not name or chosen:
            continue
        unfit = bool(fits) and name not in fits and _is_known(name)
        if _contradicted(table, agreed, fits, name) if word == "header" else unfit:
            why = f"size, count and factor fit only {', '.join(fits)}"
            findings.append(ImportFinding("mislabelled", f"{name} by {word}, but {why}", table.first_line))
        else:
            chosen, chosen_word = name, word
    if chosen:
        return chosen, chosen_word, tuple(findings)
    if len(fits) == 1:
        return fits[0], "rows", tuple(findings)
    raise UndecidedError(
        f"cannot tell the operation of {_place(table)}"
        + (f": {', '.join(fits)} all fit" if fits else "")
        + "".join(f"; {finding.text}" for finding in findings),
        hint="give --op, and --table where a log has several tables",
    )


def named_by_path(path: str, labels: dict[str, str]) -> str:
    """The operation that labels or file name say; empty where they say none."""
    label = labels.get("test", labels.get("op", labels.get("collective", "")))
    return operation(label) or operation_in_path(path)


def _foreign(table: Table, name: str) -> list[ImportFinding]:
    """That the user's word is none of ours: maybe it is mistyped."""
    if name in _KNOWN or name == table.operation:
        return []
    text = f"--op {name} is no operation that busbw knows: its bandwidths are those that the log prints"
    return [ImportFinding("foreign", text, table.first_line)]


def _overridden(table: Table, fits: Sequence[str], name: str) -> list[ImportFinding]:
    """What the user's word stands against."""
    against = f"the log says {table.operation}" if table.operation not in ("", name) else ""
    if table.operation != name and not against and fits and name not in fits and _is_known(name):
        against = f"size, count and factor fit only {', '.join(fits)}"
    text = f"--op {name} was taken, but {against}"
    return [ImportFinding("overridden", text, table.first_line)] if against else []


def _contradicted(table: Table, agreed: Consensus | None, fits: Sequence[str], name: str) -> bool:
    """Whether the rows have a factor that the operation of the header cannot have, while another fits all
    of their columns. The other columns alone say nothing against a header: old versions leave some out.
    """
    if agreed is None or not fits or name in fits or not _is_known(name):
        return False
    if name in PLAIN:
        return not agreed.contains(1.0)
    interval = ranks_of(name, agreed)
    if interval is None:
        return True
    claims = [ranks for source, ranks in table.claims if source == "header"]
    if len(fits) > 1 or not claims or any(interval.contains(ranks) for ranks in claims):
        return False
    other = ranks_of(fits[0], agreed)
    return other is None or any(other.contains(ranks) for ranks in claims)


def _is_known(name: str) -> bool:
    """Foreign operations, and those with uneven blocks, fit anything: nothing is said against them."""
    return name in (DOUBLE | SHARED | PLAIN) - UNEVEN


def _ranks(
    table: Table, solved: RankInterval | None, labels: dict[str, str], given: Given, label_word: str
) -> tuple[int, str, tuple[ImportFinding, ...]]:
    claims = [claim for claim in table.claims if claim[0] == "header"]
    claims += [claim for claim in table.claims if claim[0] != "header"]
    claims += [(label_word, int(labels["ranks"]))] if "ranks" in labels else []
    if given.ranks is not None:
        return given.ranks, "flag", tuple(_overridden_ranks(table, solved, claims, given.ranks))
    chosen = solved.only if solved is not None else None
    word = "rows" if chosen is not None else ""
    if chosen is None:
        for source, ranks in (*claims, *_path_guesses(labels, solved)):
            if solved is None or solved.contains(ranks):
                chosen, word = ranks, source
                break
    elif any(ranks == chosen for _, ranks in claims):
        word = next(source for source, ranks in claims if ranks == chosen)
    if chosen is None:
        raise UndecidedError(_question(table, solved, claims), hint="give --ranks N")
    against = [
        ImportFinding(
            "mislabelled", f"{ranks} ranks by {source}, but {_by(word, chosen, solved)}", table.first_line
        )
        for source, ranks in claims
        if ranks != chosen
    ]
    return chosen, word, tuple(dict.fromkeys(against))


def _overridden_ranks(
    table: Table, solved: RankInterval | None, claims: Sequence[tuple[str, int]], ranks: int
) -> list[ImportFinding]:
    """What the user's number stands against: the rows, else the log's labels."""
    against = [f"{source} says {said}" for source, said in claims if said != ranks]
    if solved is not None and not solved.contains(ranks):
        against.insert(0, f"the rows are those of {solved} ranks")
    return [
        ImportFinding("overridden", f"--ranks {ranks} was taken, but {words}", table.first_line)
        for words in dict.fromkeys(against)
    ]


def _path_guesses(labels: dict[str, str], solved: RankInterval | None) -> list[tuple[str, int]]:
    """Nodes and GPUs of a path, whose product or whose GPUs are the ranks: taken where the rows admit one of
    them only.
    """
    if solved is None or not {"nodes", "gpus"} <= set(labels):
        return []
    nodes, gpus = int(labels["nodes"]), int(labels["gpus"])
    fitting = {ranks for ranks in (nodes * gpus, gpus) if solved.contains(ranks)}
    return [("path", ranks) for ranks in fitting] if len(fitting) == 1 else []


def _by(word: str, chosen: int, solved: RankInterval | None) -> str:
    if solved is not None and solved.only is not None:
        return f"the rows are those of {chosen} ranks"
    allowed = f" (the rows allow {solved})" if solved is not None else ""
    return f"{chosen} by {word}{allowed}"


def _question(table: Table, solved: RankInterval | None, claims: Sequence[tuple[str, int]]) -> str:
    said = "".join(f"; {ranks} by {source} does not fit" for source, ranks in claims)
    allowed = f": its rows allow {solved}{said}" if solved is not None else ": its rows do not tell"
    return f"cannot tell the number of ranks of {_place(table)}{allowed}"


def _place(table: Table) -> str:
    return f"the table in line {table.first_line}" if table.first_line else "the table"
