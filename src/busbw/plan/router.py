"""Tables of counts as the router of a mixture of experts makes them, or made them: ``--skew``.

Expert e, from 0, is the (e+1)-th most popular. Experts are dealt to the ranks in turn, so expert e is on rank
e mod n: the busiest rank is rank 0.
"""

from __future__ import annotations

import json
import math
from statistics import NormalDist
from typing import Final

from busbw.errors import UsageError
from busbw.model.counts import ELEMENTS, SEGMENT_ALIGNMENT_BYTES, SHARES, CountTable
from busbw.plan.flags.skew import COUNTS, EVEN_TO_BUSIEST, Skew
from busbw.plan.generated import skew_table, table_of_shares
from busbw.plan.json_file import named, read_text, shown, whole_numbers

_MOST_DRAWS: Final = 2**29  # random numbers for one plan: some seconds
_TOKENS_AT_ONCE: Final = 1024


def skew_tables(skew: Skew, collective: str, ranks: int, seed: int = 0) -> tuple[CountTable, ...]:
    """The tables that a sweep takes in turn: a line of the file each, or a draw of tokens, else one. Raises
    UsageError.
    """
    if skew.kind == EVEN_TO_BUSIEST:
        return (skew_table(skew.shape, collective, ranks),)
    if (skew.kind == COUNTS or skew.tokens) and collective != "alltoallv":
        raise UsageError(
            f"--skew {skew} has a row for every sender, and {collective} has one segment a rank",
            hint="run alltoallv",
        )
    if skew.kind == COUNTS:
        return read_counts(skew.path, ranks)
    shares = popularity(skew.kind, skew.shape, skew.experts or ranks)
    if skew.tokens:
        return tuple(_drawn(shares, skew, ranks, (seed, draw)) for draw in range(skew.draws))
    by_rank = [math.fsum(shares[rank::ranks]) for rank in range(ranks)]
    return (table_of_shares(by_rank, collective, f"skew {skew}"),)


def popularity(kind: str, shape: float, experts: int) -> list[float]:
    """The share of all tokens that each expert gets, the most popular first. zipf: in proportion to
    (e+1)^-shape. lognormal: to exp(shape z), z the normal quantiles in the middle of equal parts.
    """
    if kind == "zipf":
        weights = [(expert + 1) ** -shape for expert in range(experts)]
    else:
        normal = NormalDist()
        weights = [math.exp(-shape * normal.inv_cdf((e + 0.5) / experts)) for e in range(experts)]
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]


def _drawn(shares: list[float], skew: Skew, ranks: int, seed: tuple[int, int]) -> CountTable:
    """A matrix of tokens: every rank draws different experts for each of its tokens, by their shares (the
    largest of log(share) + Gumbel noise).
    """
    import numpy as np  # a front process may do without

    experts, topk = len(shares), skew.topk
    if topk > experts:
        raise UsageError(f"--skew {skew}: top {topk} of {experts} experts", hint="give more experts=")
    if ranks * skew.tokens * experts > _MOST_DRAWS:
        raise UsageError(
            f"--skew {skew}: {skew.tokens} tokens on {ranks} ranks take too long to draw",
            hint=f"give tokens={max(1, _MOST_DRAWS // (ranks * experts))} or fewer",
        )
    log_shares, send = np.log(shares), []
    for rank in range(ranks):
        generator, row = np.random.default_rng((*seed, rank)), np.zeros(ranks, np.int64)
        for first in range(0, skew.tokens, _TOKENS_AT_ONCE):
            tokens = min(_TOKENS_AT_ONCE, skew.tokens - first)
            keys = log_shares + generator.gumbel(size=(tokens, experts))
            chosen = np.argpartition(keys, experts - topk)[:, experts - topk :]
            row += np.bincount(chosen.reshape(-1) % ranks, minlength=ranks)
        send.append(tuple(row.tolist()))
    return _matrix(tuple(send), f"skew {skew}", SHARES, SEGMENT_ALIGNMENT_BYTES)


def read_counts(path: str, ranks: int = 0) -> tuple[CountTable, ...]:
    """A table a line, each a JSON matrix of elements from rank (row) to rank (column); without ``ranks``, of
    as many as the first line has. Raises UsageError naming the line.
    """
    tables, name = [], f"counts:{named(path)}"
    for number, line in enumerate(read_text(path, "--skew", f"{COUNTS}:FILE.jsonl").splitlines(), 1):
        if not line.strip():
            continue
        place = f"--skew {name}: line {number}"
        try:
            rows = json.loads(line)
        except (RecursionError, ValueError) as error:
            raise UsageError(f"{place} is not JSON: {error}", hint="write [[0, 5], [3, 2]] a line") from error
        ranks = ranks or (len(rows) if isinstance(rows, list) else 0)
        if not isinstance(rows, list) or len(rows) != ranks:
            found = f"{len(rows)} rows" if isinstance(rows, list) else shown(rows)
            raise UsageError(f"{place} has {found} for {ranks} ranks", hint="give a row for every rank")
        send = tuple(whole_numbers(row, f"{place}, row {rank}") for rank, row in enumerate(rows))
        if widths := {len(row) for row in send} - {ranks}:
            raise UsageError(f"{place} has a row of {min(widths)} numbers for {ranks} ranks")
        if not any(map(any, send)):
            raise UsageError(f"{place} moves nothing: all counts are 0")
        tables.append(_matrix(send, f"skew {name}", ELEMENTS, 1))
    if not tables:
        raise UsageError(f"--skew {name} is empty", hint="write a matrix a line: [[0, 5], [3, 2]]")
    return tuple(tables)


def _matrix(send: tuple[tuple[int, ...], ...], origin: str, unit: str, align_bytes: int) -> CountTable:
    return CountTable(
        origin=origin,
        ranks=len(send),
        send=send,
        whole=max(*map(sum, send), *map(sum, zip(*send, strict=True))),
        unit=unit,
        align_bytes=align_bytes,
        collective="alltoallv",
    )
