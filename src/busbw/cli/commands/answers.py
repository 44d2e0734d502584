"""Commands that judge runs and logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from busbw.cli.app import FLAGS, RUN_OR_LOG, TextOrJson, app, examples
from busbw.cli.command_line import command_line
from busbw.errors import ExitCode
from busbw.settings.compare import CompareSettings, ExpectSettings
from busbw.settings.launch import LaunchSettings
from busbw.settings.run import RunSettings

COMPARE_EXAMPLES: Final = (
    "busbw compare setups.yaml --ops all_reduce,alltoall -b 8 -e 1G -f 4",
    "busbw compare 20261121-1815 20261121-1902 --gate --launch-spread 3%",
    "busbw compare before=old1.log,old2.log after=new1.log,new2.log",
    "busbw compare results_polaris/",
    "busbw compare results/ --scaling",
)


@app.command(help_epilogue=examples(*COMPARE_EXAMPLES))
def compare(
    *words: Annotated[
        str, Parameter(help="A file of setups to measure; or runs and logs, the first the baseline.")
    ],
    options: Annotated[CompareSettings | None, Parameter(name="*")] = None,
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """FASTER, SLOWER, SAME or AMBIGUOUS: setups measured in turn, runs, or logs of other tools."""
    from busbw.cli.compare import compare_command

    return compare_command(
        words,
        options or CompareSettings(),
        settings or RunSettings(),
        launch or LaunchSettings(),
        command_line(),
    )


EXPECT_EXAMPLES: Final = (
    "busbw expect last",
    "busbw expect all_reduce.log --reference aws-p4de-2x8",
    "busbw expect last --save node7",
    "busbw expect last --least 1G=340",
    "busbw expect --list",
)


@app.command(help_epilogue=examples(*EXPECT_EXAMPLES))
def expect(
    run: Annotated[str, Parameter(help=RUN_OR_LOG)] = "last",
    /,
    *,
    options: Annotated[ExpectSettings | None, Parameter(name="*")] = None,
    format: Annotated[  # noqa: A002
        Literal["table", "csv", "json"], Parameter(group=FLAGS, help="How to print it.")
    ] = "table",
) -> ExitCode:
    """Is a run as it should be: against runs of the same kind, and against what the wires allow?"""
    from busbw.cli.expect import expect_command

    return expect_command(run, options or ExpectSettings(), format)


DIAGNOSE_EXAMPLES: Final = (
    "busbw diagnose last",
    "busbw diagnose all_reduce.log --format json",
    "busbw diagnose last --nsys rank0.sqlite rank1.sqlite",
)


@app.command(help_epilogue=examples(*DIAGNOSE_EXAMPLES))
def diagnose(
    run: Annotated[str, Parameter(help=RUN_OR_LOG)] = "last",
    /,
    *,
    nsys: Annotated[
        tuple[Path, ...],
        Parameter(
            consume_multiple=True,
            negative="",
            show_default=False,
            group=FLAGS,
            help="SQLite exports of Nsight Systems of this run, one a rank. [default: those that"
            " `busbw run --profile nsys` left in the run folder]",
        ),
    ] = (),
    format: Annotated[TextOrJson, Parameter(group=FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """Is it expected, were all links used, which algorithm, how steady, is every rank the same?"""
    from busbw.cli.diagnose import diagnose_command

    return diagnose_command(run, format, nsys)


REPORT_EXAMPLES: Final = (
    "busbw report last --output report.html",
    "busbw report 20261121-1815 20261121-1902 --output both.html",
    "busbw report last --output - --plot bandwidth",
    "busbw report last --output all_reduce.png --plot bandwidth",
    "busbw report all_reduce.log --output report.md",
)


@app.command(name="report", help_epilogue=examples(*REPORT_EXAMPLES))
def write_report(
    *runs: Annotated[
        str,
        Parameter(
            help="Runs, hunts and series of setups (names, folders, or `last`), and logs. [default: last]"
        ),
    ],
    output: Annotated[
        Path,
        Parameter(
            name=["--output", "-o"],
            group=FLAGS,
            allow_leading_hyphen=True,
            help="What to write: a page (.html), text (.md, .txt), a picture a plot (.svg, .png); or - to"
            " draw in this terminal.",
        ),
    ] = Path("report.html"),
    plot: Annotated[
        str,
        Parameter(
            group=FLAGS, show_default=False, help="Only the plot with this in its name (in letters: those)."
        ),
    ] = "",
) -> ExitCode:
    """Verdicts, curves, ranks, links and histograms as one page that opens offline; or as pictures."""
    from busbw.cli.report import report_command

    return report_command(runs, output, plot)
