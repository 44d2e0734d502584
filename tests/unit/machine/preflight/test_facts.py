from __future__ import annotations

import json
import zlib
from dataclasses import asdict
from typing import Any

from busbw.machine.preflight.facts import MissingFile, RankFacts, decode, encode


def test_facts_travel_whole(ranks: Any, parts: Any) -> None:
    (first, *_) = ranks(at=0, missing=(MissingFile("LD_PRELOAD", "/x.so", "file"),))
    assert decode(encode(first)) == first
    assert decode(encode(RankFacts(3, "h", 1))) == RankFacts(3, "h", 1)


def test_another_busbw_may_say_more_or_less(ranks: Any) -> None:
    """It is named by its version, so it must be readable up to that."""
    fields = asdict(ranks()[0])
    fields["versions"]["busbw"] = "9.0"
    fields["colour"] = "red"
    fields["gpu"]["weight_kg"] = 3
    fields["node"]["nics"][0]["smell"] = "none"
    del fields["limits"], fields["node"]["shm_bytes"]
    other = decode(zlib.compress(json.dumps(fields).encode()))
    assert other.versions["busbw"] == "9.0"
    assert other.limits == {}
    assert other.node is not None
    assert other.node.nics[0].name == "mlx5_0:1"
