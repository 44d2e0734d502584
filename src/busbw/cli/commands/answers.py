"""Commands that judge runs and logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from busbw.cli.app import PRINTED, RunCommand, RunOrLog, TextOrJson, command, command_line, flag, word
from busbw.errors import ExitCode
from busbw.plan.flags.compare import CompareSettings, ExpectSettings
from busbw.plan.flags.hang import HangSettings
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings


@command(
    "busbw compare setups.yaml --ops all_reduce,alltoall -b 8 -e 1G -f 4",
    "busbw compare 20261121-1815 20261121-1902 --gate --detect 10%",
    "busbw compare before=old1.log,old2.log after=new1.log,new2.log",
)
def compare(
    *words: Annotated[str, word("A file of setups to measure, or runs and logs: the first is the baseline.")],
    options: CompareSettings = CompareSettings(),
    settings: RunSettings = RunSettings(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Say which setup, run or log is faster: FASTER, SLOWER, SAME or AMBIGUOUS."""
    from busbw.cli.compare import compare_command

    return compare_command(options, RunCommand(words, settings, launch, command_line()))


@command(
    "busbw expect last",
    "busbw expect all_reduce.log --reference aws-p4de-2x8",
    "busbw expect last --save node7",
)
def expect(
    run: RunOrLog = "last",
    /,
    *,
    options: ExpectSettings = ExpectSettings(),
    format: Annotated[Literal["table", "csv", "json"], PRINTED] = "table",  # noqa: A002
) -> ExitCode:
    """Say whether a run is as fast as it should be: like other runs, and as the wires allow."""
    from busbw.cli.expect import expect_command

    return expect_command(run, options, format)


@command("busbw diagnose last", "busbw diagnose last --all", "busbw diagnose all_reduce.log --format json")
def diagnose(
    run: RunOrLog = "last",
    /,
    *,
    nsys: Annotated[
        tuple[Path, ...],
        flag(
            "Nsight Systems exports (SQLite) of this run, one for each rank. [default: those that"
            " `busbw run --profile nsys` left in the run folder]",
            consume_multiple=True,
        ),
    ] = (),
    all: Annotated[bool, flag("Show the evidence for each answer.")] = False,  # noqa: A002
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """Say what is wrong with a run: links, algorithm, variance, ranks."""
    from busbw.cli.diagnose import diagnose_command

    return diagnose_command(run, format, nsys, every=all)


@command(
    "busbw report last --output report.html",
    "busbw report 20261121-1815 20261121-1902 --output both.html",
    "busbw report last --output - --plot bandwidth",
    name="report",
)
def write_report(
    *runs: Annotated[
        str,
        word(
            "Runs, hunts and series of setups (names, folders, `last`, or a selection as `busbw list` takes"
            " it, its terms joined by +), and logs. [default: last]"
        ),
    ],
    output: Annotated[
        Path,
        flag(
            "File to write: a page (.html), text (.md, .txt), or one picture for each plot (.svg, .png); -"
            " draws in this terminal.",
            name=["--output", "-o"],
            allow_leading_hyphen=True,
        ),
    ] = Path("report.html"),
    plot: Annotated[str, flag("Draw only plots whose name contains this word.")] = "",
) -> ExitCode:
    """Write runs as one page that opens offline, as text or as pictures."""
    from busbw.cli.report import report_command

    return report_command(runs, output, plot)


@command(
    "busbw hang",
    "busbw hang --host h1,h2",
    "busbw hang --job-id 4711",
    "busbw hang --flight-recorder /tmp/dumps",
)
def hang(
    *,
    options: HangSettings = HangSettings(),
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """Name the rank that a hanging job waits for. Any job over NCCL or PyTorch."""
    from busbw.cli.hang import hang_command

    return hang_command(options, format)
