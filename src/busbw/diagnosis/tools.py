"""What other tools would have told, and by which option: hints for their logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from busbw.model.conclusion import Question

_TUNING: Final = "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING and import that log"
_MPI: Final = "MPI libraries do not tell"
_BUSBW: Final = "busbw keeps every sample, and times of each rank"
_NCCL_TESTS: Final = {
    Question.ALGORITHM: _TUNING,
    Question.VARIANCE: f"nccl-tests tells it with -I 1 (2.19 and newer); {_BUSBW}",
}
_HINTS: Final[Mapping[str, Mapping[Question, str]]] = {
    "nccl-tests": _NCCL_TESTS,
    "rccl-tests": {Question.ALGORITHM: _TUNING},
    "nccom-test": {
        Question.ALGORITHM: "nccom-test does not tell",
        Question.VARIANCE: f"nccom-test tells percentiles with --stats p50 p99; {_BUSBW}",
    },
    "osu": {Question.ALGORITHM: _MPI, Question.VARIANCE: f"OSU tells it with -f and -z; {_BUSBW}"},
    "imb": {Question.ALGORITHM: _MPI},
}


def hint(tool: str, question: Question) -> str:
    """What to try with ``tool`` for an answer; busbw itself where that tool has none."""
    return _HINTS.get(tool, {}).get(question, _BUSBW)
