"""Tables of counts that no file has: how uneven alltoallv and all_gatherv are, from a number (``--spread``)
or as the router of a mixture of experts makes them, or made them (``--skew``).

Expert e, from 0, is the (e+1)-th most popular. Experts are dealt to the ranks in turn, so expert e is on rank
e mod n: the busiest rank is rank 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Final

from busbw.errors import UsageError
from busbw.model.counts import ELEMENTS, SEGMENT_ALIGNMENT_BYTES, SHARES, CountTable
from busbw.plan.flags.skew import COUNTS, EVEN_TO_BUSIEST, Skew
from busbw.plan.json_file import named, read_text, shown, whole_numbers

_MOST_DRAWS: Final = 2**29  # random numbers for one plan: some seconds
_TOKENS_AT_ONCE: Final = 1024


def skew_tables(skew: Skew, collective: str, ranks: int, seed: int = 0) -> tuple[CountTable, ...]:
    """The tables that a sweep takes in turn: one a line of the file, or a draw. Raises UsageError."""
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


# ---- tables from a number -----------------------------------------------------------------------------


# Weights of a skew are multiples of 1 / this: fine enough for any size, coarse enough to multiply with.
_WEIGHT_UNIT: Final = 2**30
_BISECTIONS: Final = 100


def spread_table(spread: float, ranks: int) -> CountTable:
    """Traffic by distance, as nccl-tests generates it: of what a rank sends, the rank d further on (modulo n)
    gets (1 - s) / n + s * 2d / (n (n - 1)), cut to 16 bytes. Every rank sends and receives the same.
    """
    if not 0 <= spread <= 1:
        raise UsageError(
            f"--spread {spread:g} is not between 0 and 1", hint="give 0 (even) to 1 (by distance)"
        )
    part = Fraction(str(spread))
    uneven, even = part.numerator, part.denominator - part.numerator
    row = (
        tuple(even * (ranks - 1) + 2 * uneven * distance for distance in range(ranks)) if ranks > 1 else (1,)
    )
    return CountTable(
        origin=f"spread {spread:g}",
        ranks=ranks,
        send=(row,),
        whole=sum(row),
        unit=SHARES,
        by_distance=True,
        spread=spread,
        align_bytes=SEGMENT_ALIGNMENT_BYTES,
        collective="alltoallv",
    )


def skew_table(skew: float, collective: str, ranks: int) -> CountTable:
    """One busy rank, as an expert that most tokens go to: rank 0 gets ``skew`` times the mean of all ranks,
    and rank j r^j of what rank 0 gets, with the r for which this mean holds. In an all_gatherv rank 0 gives,
    not gets.

    All ranks send alike. The size is the busiest rank's; ``skew`` runs from 1 (even) to the number of ranks
    (everything to rank 0). Raises UsageError outside.
    """
    if not 1 <= skew <= ranks:
        raise UsageError(
            f"--skew {skew:g} is not between 1 and {ranks}",
            hint=f"give 1 (even) to {ranks}: no rank can get more than {ranks} times the mean",
        )
    # The r in [0, 1] with 1 + r + ... + r^(n-1) = n / skew, by bisection: the sum grows with r.
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if math.fsum(middle**rank for rank in range(ranks)) < ranks / skew:
            low = middle
        else:
            high = middle
    decay = 1.0 if skew == 1 else high if skew < ranks else 0.0
    return table_of_shares([decay**rank for rank in range(ranks)], collective, f"skew {skew:g}")


def table_of_shares(shares: Sequence[float], collective: str, origin: str) -> CountTable:
    """Rank j gets (in an all_gatherv: gives) in proportion to ``shares[j]``; the first is the largest."""
    # Rounded up, or a share of a third would end a segment short of the bytes that it is a third of.
    weights = tuple(math.ceil(_WEIGHT_UNIT * share / shares[0]) for share in shares)
    ranks, gathered = len(weights), collective == "all_gatherv"
    return CountTable(
        origin=origin,
        ranks=ranks,
        send=tuple((weight,) for weight in weights) if gathered and ranks > 1 else (weights,),
        whole=sum(weights) if gathered else ranks * weights[0],
        unit=SHARES,
        align_bytes=SEGMENT_ALIGNMENT_BYTES,
        collective=collective,
    )
