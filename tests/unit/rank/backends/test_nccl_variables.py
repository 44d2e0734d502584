"""What NCCL finds in its environment while a communicator is made."""

from __future__ import annotations

from pathlib import Path

from busbw.rank.backends.nccl_variables import own_ras
from busbw.rank.world.select import SoloWorld

NAME = "NCCL_RAS_ADDR"


def test_a_run_answers_at_a_port_of_its_own_and_the_record_does_not_see_it() -> None:
    environ: dict[str, str] = {}
    with own_ras(SoloWorld(), environ) as first:
        assert environ == {NAME: first}
    assert environ == {}
    assert first.startswith("127.0.0.1:")


def test_the_users_own_address_stays(tmp_path: Path) -> None:
    environ = {NAME: "localhost:4242"}
    with own_ras(SoloWorld(), environ) as address:
        assert (address, environ[NAME]) == ("localhost:4242", "localhost:4242")
    assert environ == {NAME: "localhost:4242"}
    file = tmp_path / "nccl.conf"
    file.write_text(f"{NAME}=localhost:4243\n")
    environ = {"NCCL_CONF_FILE": str(file)}
    with own_ras(SoloWorld(), environ) as address:
        assert address == "localhost:4243"
        assert NAME not in environ
