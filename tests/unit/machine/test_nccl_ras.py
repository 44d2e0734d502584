"""What NCCL's RAS answers. The files are of a job of two H200 (NCCL 2.28.9): `skip`, where rank 1 left one
all_reduce out, and `stop`, where it was stopped. Texts of other versions follow client_support.cc.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.errors import UndecidedError
from busbw.machine.nccl_ras import read_answer

ANSWERS = Path(__file__).parents[2] / "data" / "nccl_ras"
OF_2_24 = """SERVER PROTOCOL 2
OK
ERROR: Unknown command SET FORMAT json
NCCL version 2.24.3 compiled with CUDA 12.8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         8        16        16   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different collective operation counts
  13 ranks have launched up to operation 64
  2 ranks have launched up to operation 60
  Rank 7 -- GPU 7 managed by process 11 on node node1
  Rank 9 -- GPU 1 managed by process 12 on node node2
  Rank 3 has not launched any operations -- GPU 3 managed by process 13 on node node1
"""


@pytest.mark.parametrize("form", ["txt", "json"])
def test_a_rank_that_left_a_call_out(form: str) -> None:
    job = read_answer((ANSWERS / f"2.28.9-skip.{form}").read_text())
    (communicator,) = job.communicators
    assert (job.nccl, communicator.name, communicator.size) == ("2.28.9", "3537a12df2a4f441", 2)
    assert [(each.rank, each.pid, each.counts["AllReduce"]) for each in communicator.ranks] == [
        (0, 2069, 301),
        (1, 2070, 300),
    ]


@pytest.mark.parametrize("form", ["txt", "json", "json of later versions"])
def test_a_rank_that_does_not_answer(form: str) -> None:
    """The JSON of 2.28.7 and 2.28.9 is none: a comma is missing."""
    text = (ANSWERS / f"2.28.9-stop.{form.split(maxsplit=1)[0]}").read_text()
    if form == "json":
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
    elif form != "txt":
        text = text.replace('"nvml_dev": 1\n', '"nvml_dev": 1,\n')
        json.loads(text)
    (communicator,) = read_answer(text).communicators
    (missing,) = (each for each in communicator.ranks if each.is_missing)
    assert (missing.rank, missing.host, missing.pid) == (1, "192.0.2.2", 2142)


def test_the_first_version_counts_all_operations_as_one() -> None:
    job = read_answer(OF_2_24)
    (communicator,) = job.communicators
    assert not job.has_counts
    assert {each.rank: each.counts for each in communicator.ranks} == {
        3: {"collective": 0},
        7: {"collective": 60},
        9: {"collective": 60},
    }
    assert communicator.others == (("collective", 64, 13),)
    assert communicator.size == 16


@pytest.mark.parametrize("form", ["txt", "json"])
def test_an_answer_that_is_cut_is_refused(form: str) -> None:
    text = (ANSWERS / f"2.28.9-skip.{form}").read_text()
    for end in range(0, text.index("Warnings") if form == "txt" else len(text) - 3, 7):
        with pytest.raises(UndecidedError):
            read_answer(text[:end])
