"""Operation and number of ranks of a table: stated by the log, else solved from its rows, else asked for.

If the rows contradict a label, the rows win and a finding says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from busbw.errors import UndecidedError
from busbw.foreign.logs.check import (
    block_ranks,
    factor,
    possible_operations,
    ranks_of,
)
from busbw.foreign.logs.operations import (
    KNOWN,
    PLAIN,
    SHARED,
    UNEVEN,
    operation,
    operation_in_path,
)
from busbw.foreign.logs.table import Consensus, RankInterval, Table
from busbw.model.collective import COLLECTIVES
from busbw.model.record import ImportFinding

_Findings = list[tuple[str, str]]  # kinds and texts
_NAMES: Final = KNOWN | UNEVEN | {row.name for row in COLLECTIVES}


@dataclass(frozen=True)
class Given:
    """What the user states about the logs; empty or None if nothing."""

    operation: str = ""
    ranks: int | None = None
    labels: dict[str, str] = field(default_factory=dict)


def decide(table: Table, path: str, labels: dict[str, str], given: Given) -> Table:
    """The table with its operation and ranks, where they come from, and what contradicts them. Raises
    UndecidedError if neither the log nor the user states the operation or the ranks.
    """
    scale, agreed = table.scale, factor(table, table.gb if table.is_in_its_unit else None)
    by_path = named_by_path(path, labels)
    fits = possible_operations(table, agreed, scale)
    likely = given.operation or table.operation or by_path
    if likely in fits:
        fits = (likely,)  # the others do not matter
    name, word, found = _operation(table, agreed, fits, by_path, given)
    # Where algbw leaves a rank's own block out, it is busbw: its ratio to size / time says the ranks.
    is_old = table.formulas == "old" and name in SHARED and scale is not None and not scale.contains(1.0)
    interval, blocks = ranks_of(name, scale if is_old else agreed), block_ranks(table, name)
    solved = RankInterval(blocks, blocks) if blocks is not None else interval
    ranks, ranks_word, more = _ranks(table, solved, labels, given)
    if interval is not None and not interval.contains(ranks) and ranks_word != "flag":
        more.append(("contradiction", f"busbw / algbw gives {interval} ranks, size / count gives {ranks}"))
    findings = [ImportFinding(kind, text, table.first_line) for kind, text in dict.fromkeys([*found, *more])]
    decided = replace(
        table,
        operation=name,
        operation_from=word,
        world_size=ranks,
        ranks_from=ranks_word,
        interval=solved,
    )
    return decided.with_findings(*findings)


def _place(table: Table) -> str:
    return f"the table in line {table.first_line}" if table.first_line else "the table"


# ---- operation ---------------------------------------------------------------------------------------------


def _operation(
    table: Table, agreed: Consensus | None, fits: Sequence[str], by_path: str, given: Given
) -> tuple[str, str, _Findings]:
    """The operation, where it comes from, and the findings on contradictions."""
    against = f"size, count and factor fit only {', '.join(fits)}"
    if given.operation:
        return given.operation, "flag", _against_flag(table, fits, against, given.operation)
    found: _Findings = []
    for word, name in ((table.operation_from, table.operation), ("path", by_path)):
        if not name:
            continue
        # Only a factor that it cannot have says something against a header: old versions leave columns out.
        may_be = word == "header" and _has_factor(name, agreed)
        if name in fits or not fits or may_be or name not in KNOWN:
            return name, word, found
        found.append(("mislabelled", f"the {word} says {name}, but {against}"))
    if len(fits) == 1:
        return fits[0], "rows", found
    raise UndecidedError(
        f"cannot determine the operation of {_place(table)}"
        + (f": {', '.join(fits)} all fit" if fits else "")
        + "".join(f"; {text}" for _, text in found),
        hint="give --op, and --table where a log has several tables",
    )


def named_by_path(path: str, labels: dict[str, str]) -> str:
    """The operation in the labels or the file name; empty if there is none."""
    label = labels.get("test", labels.get("op", labels.get("collective", "")))
    return operation(label) or operation_in_path(path)


def _has_factor(name: str, agreed: Consensus | None) -> bool:
    """Whether the factor of the rows is one that the operation can have."""
    if agreed is None:
        return True
    return agreed.contains(1.0) if name in PLAIN else ranks_of(name, agreed) is not None


def _against_flag(table: Table, fits: Sequence[str], against: str, name: str) -> _Findings:
    """Findings if busbw does not know the operation that the user gave, or the log contradicts it. Raises
    UndecidedError where the title of a table, whose rows do not say what was run, names another test. One
    that busbw does not have may be taken as its kin: persistent_allreduce as all_reduce.
    """
    said = table.operation
    is_kin = said not in KNOWN and name.replace("_", "") in said.replace("_", "")
    if said not in ("", name) and table.operation_from == "header" and not fits and not is_kin:
        raise UndecidedError(
            f"--op {name} contradicts the title of {_place(table)}, which says {said}",
            hint=f"leave --op out, or read the table of {name} with --table",
        )
    found: _Findings = []
    if name not in _NAMES and name != said:
        text = f"busbw does not know the operation {name}: its bandwidths are those printed in the log"
        found.append(("foreign", text))
    if said:
        against = f"the log says {said}"
    if name != said and (said or (fits and name not in fits and name in KNOWN)):
        found.append(("overridden", f"--op {name} was taken, but {against}"))
    return found


# ---- ranks -------------------------------------------------------------------------------------------------


def _ranks(
    table: Table, solved: RankInterval | None, labels: dict[str, str], given: Given
) -> tuple[int, str, _Findings]:
    """The number of ranks, where it comes from, and the findings on contradictions: the only number that
    fits the rows, else the first claim that fits them.
    """
    claims = sorted(table.claims, key=lambda claim: claim[0] != "header")
    claims += [("path", int(labels["ranks"]))] if "ranks" in labels else []
    if given.ranks is not None:
        unfit = solved is not None and not solved.contains(given.ranks)
        against = [f"the rows fit {solved} ranks only"] if unfit else []
        against += [f"{source} says {said}" for source, said in claims if said != given.ranks]
        return (
            given.ranks,
            "flag",
            [("overridden", f"--ranks {given.ranks} was taken, but {words}") for words in against],
        )
    if solved is not None and solved.only is not None:
        chosen, by = solved.only, f"the rows fit {solved.only} only"
        word = next((source for source, ranks in claims if ranks == chosen), "rows")
    else:
        guesses = (*claims, *_path_guesses(labels, solved))
        fitting = [claim for claim in guesses if solved is None or solved.contains(claim[1])]
        if not fitting:
            unfit_claims = "".join(
                f"; the {source} says {ranks}, which does not fit" for source, ranks in claims
            )
            allowed = (
                ": its rows do not show it" if solved is None else f": its rows allow {solved}{unfit_claims}"
            )
            raise UndecidedError(
                f"cannot determine the number of ranks of {_place(table)}{allowed}", hint="give --ranks N"
            )
        word, chosen = fitting[0]
        by = f"the {word} says {chosen}" + (f" (the rows allow {solved})" if solved is not None else "")
    others = [(source, ranks) for source, ranks in claims if ranks != chosen]
    said_against = [("mislabelled", f"the {source} says {ranks} ranks, but {by}") for source, ranks in others]
    return chosen, word, said_against


def _path_guesses(labels: dict[str, str], solved: RankInterval | None) -> list[tuple[str, int]]:
    """Nodes and GPUs of a path, whose product or whose GPUs are the ranks: taken where the rows admit one of
    them only.
    """
    if solved is None or not {"nodes", "gpus"} <= set(labels):
        return []
    nodes, gpus = int(labels["nodes"]), int(labels["gpus"])
    fitting = {ranks for ranks in (nodes * gpus, gpus) if solved.contains(ranks)}
    return [("path", ranks) for ranks in fitting] if len(fitting) == 1 else []
