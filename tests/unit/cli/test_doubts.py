"""``isolate --prior`` and ``--doubt``: whom ranks are told to doubt, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.analysis.late import LateRank
from busbw.cli.doubts import Lost, doubts_without, with_prior
from busbw.cli.main import main
from busbw.errors import ExitCode, UsageError
from busbw.settings.hunt import HuntSettings

LATE = (LateRank(5, "h3", 1, 2, 2), LateRank(0, "h1", 0, 1, 2))
RunWith = Callable[[tuple[LateRank, ...] | None], None]


@pytest.fixture
def run_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunWith:
    """A run of which this is known of late ranks."""

    no_hunt = SimpleNamespace(plan=SimpleNamespace(hunt=None))

    def known(late: tuple[LateRank, ...] | None) -> None:
        monkeypatch.setattr("busbw.record.folder.find_run", lambda name, _: tmp_path / name)
        for reader in ("read_record", "read_samples", "read_digests"):
            monkeypatch.setattr(f"busbw.record.read.{reader}", lambda _: no_hunt)
        monkeypatch.setattr("busbw.analysis.late.late_ranks", lambda *_: late)

    return known


def test_late_ranks_are_doubted_beside_those_that_are_named(
    run_with: RunWith, capsys: pytest.CaptureFixture[str]
) -> None:
    run_with(LATE)
    own = with_prior(HuntSettings(doubt="h9,h3/1", prior="some"))
    assert (own.doubt, own.prior) == ("h9,h3/1,h1/0", "")
    told = capsys.readouterr().err
    assert "rank 5 on h3 was late in 2 of 2 cases of some, and is doubted" in told


def test_nobody_late_is_said(run_with: RunWith, capsys: pytest.CaptureFixture[str]) -> None:
    run_with(())
    assert with_prior(HuntSettings(prior="some")) == HuntSettings()
    assert "nobody is doubted" in capsys.readouterr().err


def test_a_run_that_does_not_tell_is_refused(run_with: RunWith) -> None:
    run_with(None)
    with pytest.raises(UsageError, match="do not tell which rank was late"):
        with_prior(HuntSettings(prior="some"))


MET = [{"rank": rank, "host": f"h{rank // 2}", "local_rank": rank % 2} for rank in range(8)]


@pytest.mark.parametrize(
    ("doubt", "lost", "left"),
    [
        ("h2,3,h1/0", Lost("h1"), "h2"),  # ranks 2 and 3 were on h1
        ("4, 7,h9,99, h1", Lost("h1"), "h2/0,h3/1,h9,99"),
        ("3,h1/1,h1,5", Lost("h1", 2), "h1/0,h1/0,h1,h2/1"),  # rank 3 is rank 2 now, the only one of h1
        ("2,h1/0", Lost("h1", 2), ""),
    ],
)
def test_doubts_go_on_with_those_who_are_left(doubt: str, lost: Lost, left: str) -> None:
    word = HuntSettings(doubt=doubt, loss="7%").to_word("isolate")
    kind, own = HuntSettings.from_word(doubts_without(word, MET, lost))
    assert (kind, own) == ("isolate", HuntSettings(doubt=left, loss="7%"))


def test_numbers_of_ranks_that_have_not_met_mean_nobody() -> None:
    word = HuntSettings(doubt="3,h2").to_word("isolate")
    assert HuntSettings.from_word(doubts_without(word, [], Lost("h1")))[1].doubt == "h2"


def test_doubts_reach_ranks_in_the_word_of_a_job() -> None:
    own = HuntSettings(doubt="h3,h5/0,2")
    assert HuntSettings.from_word(own.to_word("isolate")) == ("isolate", own)


@pytest.mark.parametrize(
    "words",
    [
        ["pairs", "--doubt", "h3"],
        ["rails", "--prior", "last"],
        ["isolate", "--simulate", "8", "--doubt", "3"],
    ],
)
def test_doubts_are_of_isolate(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == ExitCode.USAGE
    assert "says nothing to" in capsys.readouterr().err
