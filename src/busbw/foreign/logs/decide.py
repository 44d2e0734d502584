"""Operation and number of ranks of a table: stated by the log, else solved from its rows, else asked for.

If the rows contradict a label, the rows win and a finding says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from busbw.errors import UndecidedError
from busbw.foreign.logs.check import Checked
from busbw.foreign.logs.operations import (
    DOUBLE,
    PLAIN,
    SHARED,
    UNEVEN,
    is_known,
    operation,
    operation_in_path,
)
from busbw.foreign.logs.solve import (
    Consensus,
    RankInterval,
    block_ranks,
    factor,
    possible_operations,
    ranks_of,
)
from busbw.foreign.logs.table import Table
from busbw.model.collective import COLLECTIVES
from busbw.model.record import ImportFinding

_NAMES: Final = DOUBLE | SHARED | PLAIN | UNEVEN | {row.name for row in COLLECTIVES}


@dataclass(frozen=True)
class Given:
    """What the user states about the logs; empty or None if nothing."""

    operation: str = ""
    ranks: int | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The operation and ranks of a table, where they come from, and what contradicts them."""

    operation: str
    operation_from: str
    ranks: int
    ranks_from: str
    interval: RankInterval | None
    findings: tuple[ImportFinding, ...]


def decide(checked: Checked, path: str, labels: dict[str, str], given: Given) -> Decision:
    """Raises UndecidedError if neither the log nor the user states the operation or the ranks."""
    table, scale = checked.table, checked.scale
    agreed = factor(table, checked.gb if checked.is_in_its_unit else None)
    by_path = named_by_path(path, labels)
    likely = given.operation or table.operation or by_path
    # If the named one fits, the others do not matter.
    fits = possible_operations(table, agreed, scale, (likely,)) or possible_operations(table, agreed, scale)
    name, word, findings = _operation(table, agreed, fits, by_path, given)
    # Where algbw leaves a rank's own block out, it is busbw: its ratio to size / time says the ranks.
    is_old = table.formulas == "old" and name in SHARED and scale is not None and not scale.contains(1.0)
    interval, blocks = ranks_of(name, scale if is_old else agreed), block_ranks(table, name)
    solved = RankInterval(blocks, blocks) if blocks is not None else interval
    ranks, ranks_word, more = _ranks(table, solved, labels, given)
    if interval is not None and not interval.contains(ranks) and ranks_word != "flag":
        text = f"busbw / algbw gives {interval} ranks, size / count gives {ranks}"
        more = (*more, ImportFinding("contradiction", text, table.first_line))
    return Decision(name, word, ranks, ranks_word, solved, (*findings, *more))


# ---- operation ---------------------------------------------------------------------------------------------


def _operation(
    table: Table, agreed: Consensus | None, fits: Sequence[str], by_path: str, given: Given
) -> tuple[str, str, tuple[ImportFinding, ...]]:
    """The operation, where it comes from, and the findings on contradictions."""
    if given.operation:
        _refuse_another_test(table, fits, given.operation)
        return given.operation, "flag", tuple(_against_flag(table, fits, given.operation))
    findings = []
    for word, name in ((table.operation_from, table.operation), ("path", by_path)):
        if not name:
            continue
        unfit = bool(fits) and name not in fits and is_known(name)
        if unfit and (word != "header" or not _has_factor(name, agreed)):
            why = f"size, count and factor fit only {', '.join(fits)}"
            findings.append(
                ImportFinding("mislabelled", f"the {word} says {name}, but {why}", table.first_line)
            )
        else:
            return name, word, tuple(findings)
    if len(fits) == 1:
        return fits[0], "rows", tuple(findings)
    raise UndecidedError(
        f"cannot determine the operation of {_place(table)}"
        + (f": {', '.join(fits)} all fit" if fits else "")
        + "".join(f"; {finding.text}" for finding in findings),
        hint="give --op, and --table where a log has several tables",
    )


def _refuse_another_test(table: Table, fits: Sequence[str], name: str) -> None:
    """Raise UndecidedError where the title of a table, whose rows do not say what was run, names another test
    than the user. One that busbw does not have may be taken as its kin: persistent_allreduce as all_reduce.
    """
    said = table.operation if table.operation_from == "header" else ""
    is_kin = not is_known(said) and name.replace("_", "") in said.replace("_", "")
    if said and said != name and not fits and not is_kin:
        raise UndecidedError(
            f"--op {name} contradicts the title of {_place(table)}, which says {said}",
            hint=f"leave --op out, or read the table of {name} with --table",
        )


def named_by_path(path: str, labels: dict[str, str]) -> str:
    """The operation in the labels or the file name; empty if there is none."""
    label = labels.get("test", labels.get("op", labels.get("collective", "")))
    return operation(label) or operation_in_path(path)


def _has_factor(name: str, agreed: Consensus | None) -> bool:
    """Whether the factor of the rows is one that the operation can have. The other columns say nothing
    against the word of a header: old versions leave some out.
    """
    if agreed is None:
        return True
    return agreed.contains(1.0) if name in PLAIN else ranks_of(name, agreed) is not None


def _against_flag(table: Table, fits: Sequence[str], name: str) -> list[ImportFinding]:
    """Findings if busbw does not know the operation that the user gave, or the log contradicts it."""
    found = []
    if name not in _NAMES and name != table.operation:
        text = f"busbw does not know the operation {name}: its bandwidths are those printed in the log"
        found.append(ImportFinding("foreign", text, table.first_line))
    against = f"the log says {table.operation}" if table.operation not in ("", name) else ""
    if not table.operation and fits and name not in fits and is_known(name):
        against = f"size, count and factor fit only {', '.join(fits)}"
    if against:
        text = f"--op {name} was taken, but {against}"
        found.append(ImportFinding("overridden", text, table.first_line))
    return found


# ---- ranks -------------------------------------------------------------------------------------------------


def _ranks(
    table: Table, solved: RankInterval | None, labels: dict[str, str], given: Given
) -> tuple[int, str, tuple[ImportFinding, ...]]:
    """The number of ranks, where it comes from, and the findings on contradictions."""
    claims = sorted(table.claims, key=lambda claim: claim[0] != "header")
    claims += [("path", int(labels["ranks"]))] if "ranks" in labels else []
    if given.ranks is not None:
        return given.ranks, "flag", tuple(_overridden_ranks(table, solved, claims, given.ranks))
    chosen, word = _chosen_ranks(solved, claims)
    if chosen is None:
        said = "".join(f"; the {source} says {ranks}, which does not fit" for source, ranks in claims)
        allowed = f": its rows allow {solved}{said}" if solved is not None else ": its rows do not show it"
        raise UndecidedError(
            f"cannot determine the number of ranks of {_place(table)}{allowed}", hint="give --ranks N"
        )
    by = _by(word, chosen, solved)
    against = [
        ImportFinding("mislabelled", f"the {source} says {ranks} ranks, but {by}", table.first_line)
        for source, ranks in claims
        if ranks != chosen
    ]
    return chosen, word, tuple(dict.fromkeys(against))


def _chosen_ranks(solved: RankInterval | None, claims: Sequence[tuple[str, int]]) -> tuple[int | None, str]:
    """The only number that fits the rows, else the first claim that fits them."""
    only = solved.only if solved is not None else None
    if only is not None:
        return only, next((source for source, ranks in claims if ranks == only), "rows")
    return next(
        ((ranks, source) for source, ranks in claims if solved is None or solved.contains(ranks)), (None, "")
    )


def _overridden_ranks(
    table: Table, solved: RankInterval | None, claims: Sequence[tuple[str, int]], ranks: int
) -> list[ImportFinding]:
    """Findings if the rows or the labels contradict the number that the user gave."""
    against = [f"{source} says {said}" for source, said in claims if said != ranks]
    if solved is not None and not solved.contains(ranks):
        against.insert(0, f"the rows fit {solved} ranks only")
    return [
        ImportFinding("overridden", f"--ranks {ranks} was taken, but {words}", table.first_line)
        for words in dict.fromkeys(against)
    ]


def _by(word: str, chosen: int, solved: RankInterval | None) -> str:
    if solved is not None and solved.only is not None:
        return f"the rows fit {chosen} only"
    allowed = f" (the rows allow {solved})" if solved is not None else ""
    return f"the {word} says {chosen}{allowed}"


def _place(table: Table) -> str:
    return f"the table in line {table.first_line}" if table.first_line else "the table"
