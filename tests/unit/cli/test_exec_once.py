"""`busbw exec --once`: what concerns ranks is refused beside it."""

from __future__ import annotations

import pytest

from busbw.cli.main import main


@pytest.mark.parametrize(
    ("engine", "words", "flag"),
    [
        ("slurm", ("--ranks", "2"), "--ranks"),
        ("slurm", ("--srun-args=--label",), "--srun-args"),
        ("kubernetes", ("--image", "i", "--mpirun-args=-v"), "--mpirun-args"),
    ],
)
def test_what_concerns_ranks_is_refused(
    engine: str, words: tuple[str, ...], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exec", "--on", engine, "-N", "2", "--once", *words, "--", "train"]) == 2
    told = capsys.readouterr().err
    assert f"without ranks that {flag} could concern" in told
    assert f"hint: leave {flag} out" in told
