"""Arguments to commands, errors to exit codes."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, CycloptsError, Group, Parameter, Token
from cyclopts.config import Env

from busbw._version import __version__
from busbw.cli.container import container
from busbw.cli.preset_values import PresetValues
from busbw.errors import BusbwError, ExitCode, SiteError, UsageError
from busbw.exporters.formats import ExportFormat
from busbw.importers.settings import ImportSettings
from busbw.model.collective import COLLECTIVES
from busbw.settings.compare import CompareSettings, ExpectSettings
from busbw.settings.hunt import HUNT, HuntSettings
from busbw.settings.launch import LaunchSettings
from busbw.settings.run import FormatName, RunSettings

if TYPE_CHECKING:
    from cyclopts.argument import Argument, ArgumentCollection

# 128 + SIGPIPE, what a shell reports for a program that the signal ended.
_BROKEN_PIPE: Final = 141
NCCL_TESTS: Final = "nccl-tests"


class Variables(Env):
    """Every flag of ``run`` as BUSBW_ and its name.

    Cyclopts' own Env would take BUSBW_ROOT, which is the address where ranks meet, for --root.
    """

    _ELSEWHERE: Final = {"BUSBW_ROOT": "BUSBW_ROOT_RANK"}

    def _convert_argument(self, commands: tuple[str, ...], argument: Argument) -> str:
        name = super()._convert_argument(commands, argument)
        return self._ELSEWHERE.get(name, name)

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Fill in what the command line left open."""
        for argument in arguments:
            variable = self._convert_argument(commands, argument)
            if variable in os.environ and argument.parse and not argument.tokens:
                argument.append(Token(keyword=variable, value=os.environ[variable], source="env"))


def _examples(*lines: str, note: str = "") -> str:
    return "\n".join(("Examples:", *(f"  {line}" for line in lines), *(("", note) if note else ())))


# One string a paragraph: the help page wraps them to the terminal, but keeps a docstring's line ends.
RUN_HELP: Final = (
    "Measure one or more collectives.\n\n"
    "Under mpirun, srun, torchrun or a Kubernetes index it joins the ranks that are there. Otherwise it"
    " starts its own on this host: one per visible GPU, or CPU ranks over the bundled MPI."
)
RUN_EXAMPLES: Final = (
    "busbw run all_reduce -b 8 -e 64M -f 2",
    "busbw run all_gather --ranks 4 -d float -n 200 -c 1",
    "busbw run all_reduce,sendrecv -e 1M --format csv",
    "mpirun -np 64 busbw run all_reduce -b 8 -e 8G -f 2",
    "busbw run all_reduce -b 8 -e 8G --on hosts --hosts a,b,c,d",
    "busbw run all_reduce -b 8 -e 8G --on slurm -N 8 --dry-run",
)
PREFLIGHT_HELP: Final = (
    "Check everything that a run would need, and measure nothing.\n\n"
    "Takes the flags of `busbw run`, starts the same ranks, and says what is wrong with them: versions,"
    " variables, GPUs, NICs, limits, and what NCCL uses of what was asked for. Exit code 4 where there is an"
    " error, with --strict also for a warning."
)
PREFLIGHT_EXAMPLES: Final = (
    "busbw preflight",
    "busbw preflight --on hosts --hosts a,b,c,d --strict",
    "busbw preflight --on slurm -N 8 --preset aws/p5.48xlarge --deep",
)
ISOLATE_HELP: Final = (
    "Find the slow host, GPU or path, in a handful of rounds of pair tests within one launch.\n\n"
    "Everybody is tested in random pairs; who is slow there is tested afresh, with partners that passed,"
    " until there is enough evidence. Hosts are tested with each other; on one host, its ranks. Exit code 0"
    " healthy, 1 suspects confirmed, 3 could not decide."
)
ISOLATE_EXAMPLES: Final = (
    "busbw isolate",
    "busbw isolate --on hosts --hosts a,b,c,d,e,f,g,h -b 64M",
    "busbw isolate --on slurm -N 64 --format json",
    "busbw isolate --simulate 1024 --bad 3 --noise 2%",
)
PAIRS_HELP: Final = (
    "The matrix of all pairs: bandwidth one way and both ways, and latency, in one launch.\n\n"
    "Takes the flags of `busbw run`; pairs of hosts, or on one host of its ranks."
)
PAIRS_EXAMPLES: Final = (
    "busbw pairs -b 64M",
    "busbw pairs -b 64M --on slurm -N 16 --format csv",
    "mpirun -np 8 busbw pairs -b 1M",
)
RAILS_HELP: Final = (
    "Bandwidth of every rail and every host: rings over the hosts, one in each rail, all at once, and then"
    " rings within each host.\n\n"
    "A rail is the ranks of one number on their hosts. Takes the flags of `busbw run`."
)
RAILS_EXAMPLES: Final = (
    "busbw rails --on slurm -N 8 --ranks-per-node 8 -b 64M",
    "mpirun -np 16 busbw rails",
)
EXEC_EXAMPLES: Final = (
    "busbw exec --on slurm -N 8 -- hostname",
    "busbw exec --on hosts --hosts a,b --env NCCL_DEBUG=INFO -- python3 train.py",
)
JOBS_EXAMPLES: Final = ("busbw jobs", "busbw jobs --format json", "busbw jobs --format csv")
ATTACH_EXAMPLES: Final = ("busbw attach", "busbw attach 20261121-1815 --format jsonl")
DEVICES_EXAMPLES: Final = (
    "busbw devices",
    "busbw devices --nccl /opt/nccl/lib --format json",
)
LIST_EXAMPLES: Final = ("busbw list", "busbw list --limit 3 --format json")
IMPORT_EXAMPLES: Final = (
    "busbw import all_reduce.log",
    "busbw import results/ --system cluster1",
    "busbw import osu.txt --ranks 64",
    "kubectl logs job/nccl-test | busbw import -",
)
SHOW_EXAMPLES: Final = (
    "busbw show",
    "busbw show last --format csv",
    "busbw show last --ranks --case 4",
    "busbw show 20261121-1815 --histogram",
    "busbw show last --provenance",
)
NCCOM_EXAMPLES: Final = (
    "busbw nccom-test -r 2 allr",
    "busbw nccom-test -r 2 -b 1kb -e 1mb -f 4 -d fp32 --check allg",
)
EXPORT_EXAMPLES: Final = (
    "busbw export",
    "busbw export last --format csv --output results.csv",
    "busbw export 20261121-1815 --format nccl-tests-json --op all_reduce",
)

COMPARE_EXAMPLES: Final = (
    "busbw compare setups.yaml --ops all_reduce,alltoall -b 8 -e 1G -f 4",
    "busbw compare 20261121-1815 20261121-1902 --gate",
    "busbw compare before=old1.log,old2.log after=new1.log,new2.log",
    "busbw compare results_polaris/",
    "busbw compare results/ --scaling",
)
DIAGNOSE_EXAMPLES: Final = (
    "busbw diagnose last",
    "busbw diagnose all_reduce.log --format json",
)
REPORT_EXAMPLES: Final = (
    "busbw report last --output report.html",
    "busbw report 20261121-1815 20261121-1902 --output both.html",
    "busbw report last --output all_reduce.png --plot bandwidth",
    "busbw report all_reduce.log --output report.md",
)
EXPECT_EXAMPLES: Final = (
    "busbw expect last",
    "busbw expect all_reduce.log --reference aws-p4de-2x8",
    "busbw expect last --save node7",
    "busbw expect last --least 1G=340",
    "busbw expect --list",
)

NCCL_TESTS_HELP: Final = (
    "A command line of nccl-tests, with its flags, table, JSON file and exit status.\n\n"
    "Ranks are processes x threads x GPUs, each a process of its own. `busbw nccl-tests all_reduce_perf -h`"
    " lists the flags."
)
NCCL_TESTS_EXAMPLES: Final = (
    "busbw nccl-tests all_reduce_perf -b 8 -e 8G -f 2 -g 8",
    "mpirun -np 64 busbw nccl-tests alltoall_perf -b 8 -e 1G -f 2 -g 1",
    "NCCL_TESTS_MIN_BW=400 busbw nccl-tests all_reduce_perf -b 8G -e 8G -g 8",
)

TextOrJson = Literal["table", "json"]
_FLAGS: Final = Group("Flags", sort_key=5)

app = App(
    name="busbw",
    help="Measure collective communication on any cluster, and say whether the number is right.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # it would leave without a word
    help_epilogue=_examples(
        "busbw devices",
        "busbw run all_reduce -b 8 -e 64M -f 2",
        "busbw show last",
        note="`busbw COMMAND --help` lists a command's flags.",
    ),
)


@app.command(
    help=RUN_HELP,
    config=(Variables("BUSBW_", command=False, show=False), PresetValues()),
    help_epilogue=_examples(
        *RUN_EXAMPLES, note="Each flag can also be set by a variable: --minbytes by BUSBW_MINBYTES."
    ),
)
def run(
    *operations: Annotated[
        str, Parameter(help=f"What to measure: {', '.join(row.name for row in COLLECTIVES)}.")
    ],
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Measure one or more collectives."""
    from busbw.cli.run import run as run_command

    words = tuple(word for text in operations for word in text.split(",") if word)
    return run_command(words, settings or RunSettings(), launch or LaunchSettings(), tuple(sys.argv))


@app.command(
    help=PREFLIGHT_HELP,
    config=(Variables("BUSBW_", command=False, show=False), PresetValues()),
    help_epilogue=_examples(*PREFLIGHT_EXAMPLES),
)
def preflight(
    *operations: Annotated[str, Parameter(help="What would be measured. [default: all_reduce]")],
    deep: Annotated[
        bool,
        Parameter(
            group=_FLAGS,
            negative="",
            show_default=False,
            help="Copy between host and GPUs and between ranks, and run dcgmi, nvbandwidth and ib_write_bw"
            " where they are installed.",
        ),
    ] = False,
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Check everything that a run would need, and measure nothing."""
    from busbw.cli.preflight import preflight as preflight_command

    words = tuple(word for text in operations for word in text.split(",") if word)
    return preflight_command(
        words, settings or RunSettings(), launch or LaunchSettings(), tuple(sys.argv), deep=deep
    )


@app.command(
    help=ISOLATE_HELP,
    config=(Variables("BUSBW_", command=False, show=False), PresetValues()),
    help_epilogue=_examples(*ISOLATE_EXAMPLES),
)
def isolate(
    *,
    simulate: Annotated[
        int | None,
        Parameter(
            group=HUNT,
            show_default=False,
            help="Start nothing: say what hunts among so many parts would cost and find.",
        ),
    ] = None,
    bad: Annotated[int, Parameter(group=HUNT, help="With --simulate: slow parts, by --loss.")] = 1,
    noise: Annotated[
        str, Parameter(group=HUNT, help="With --simulate: standard deviation of one test.")
    ] = "1%",
    hunts: Annotated[int, Parameter(group=HUNT, help="With --simulate: how many hunts.")] = 100,
    own: Annotated[HuntSettings | None, Parameter(name="*")] = None,
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Find the slow part."""
    from busbw.cli.isolate import hunt
    from busbw.cli.isolate import simulate as simulate_hunts

    own, settings = own or HuntSettings(), settings or RunSettings()
    if simulate is not None:
        return simulate_hunts(own, simulate, bad, noise, hunts, settings.seed, settings.format)
    return hunt("isolate", own, settings, launch or LaunchSettings(), tuple(sys.argv))


@app.command(
    help=PAIRS_HELP,
    config=(Variables("BUSBW_", command=False, show=False), PresetValues()),
    help_epilogue=_examples(*PAIRS_EXAMPLES),
)
def pairs(
    *,
    own: Annotated[HuntSettings | None, Parameter(name="*")] = None,
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """The matrix of all pairs."""
    from busbw.cli.isolate import hunt

    return hunt(
        "pairs", own or HuntSettings(), settings or RunSettings(), launch or LaunchSettings(), tuple(sys.argv)
    )


@app.command(
    help=RAILS_HELP,
    config=(Variables("BUSBW_", command=False, show=False), PresetValues()),
    help_epilogue=_examples(*RAILS_EXAMPLES),
)
def rails(
    *,
    own: Annotated[HuntSettings | None, Parameter(name="*")] = None,
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Rings by rail, and by host."""
    from busbw.cli.isolate import hunt

    return hunt(
        "rails", own or HuntSettings(), settings or RunSettings(), launch or LaunchSettings(), tuple(sys.argv)
    )


@app.command(name="exec", config=PresetValues(), help_epilogue=_examples(*EXEC_EXAMPLES))
def execute(
    *command: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The command and its words, after --.")
    ],
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
    dry_run: Annotated[
        bool,
        Parameter(group=_FLAGS, negative="", show_default=False, help="Print what would be submitted."),
    ] = False,
) -> int:
    """Run any command on an engine, with the environment, container and hosts that a run would get."""
    from busbw.cli.on import execute as exec_command

    return exec_command(command, launch or LaunchSettings(), tuple(sys.argv), dry_run=dry_run)


@app.command(help_epilogue=_examples(*JOBS_EXAMPLES))
def jobs(
    *,
    format: Annotated[  # noqa: A002
        Literal["table", "json", "csv"],
        Parameter(group=_FLAGS, help="How to print it; csv has nodes, operations and ranks as well."),
    ] = "table",
    limit: Annotated[int, Parameter(group=_FLAGS, help="Show no more than this many.")] = 20,
) -> ExitCode:
    """Jobs that were submitted to engines from here."""
    from busbw.cli.jobs import jobs as jobs_command

    return jobs_command(format, limit)


presets = App(name="presets", help="Clusters that are known: environment, sweep and place in one word.")
app.command(presets)


@presets.command(name="list", help_epilogue=_examples("busbw presets list"))
def list_presets(
    *,
    format: Annotated[TextOrJson, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """Every preset, with the date of its values."""
    from busbw.cli.presets import show_list

    return show_list(format)


@presets.command(name="show", help_epilogue=_examples("busbw presets show aws/p5.48xlarge@2024-04"))
def show_preset(
    name: Annotated[str, Parameter(help="FAMILY/NAME, with @DATE for older values.")],
    /,
    *,
    format: Annotated[TextOrJson, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """Everything that a preset says, and where it is from."""
    from busbw.cli.presets import show as show_command

    return show_command(name, format)


@presets.command(name="check", help_epilogue=_examples("busbw presets check ours.yaml"))
def check_presets(file: Annotated[Path, Parameter(help="A preset file of your own.")], /) -> ExitCode:
    """Whether a preset file of your own is well formed."""
    from busbw.cli.presets import check as check_command

    return check_command(file)


app.command(container)

_RUN_NAME: Final = "A run's name or the start of it, its folder, or `last`."


@app.command(help_epilogue=_examples(*ATTACH_EXAMPLES))
def attach(
    run: Annotated[str, Parameter(help=_RUN_NAME)] = "last",
    /,
    *,
    format: Annotated[FormatName, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """Follow a job again: its table from the start, and its record. Ctrl-C leaves the job alone."""
    from busbw.cli.jobs import attach as attach_command

    return attach_command(run, format)


@app.command(help_epilogue=_examples("busbw cancel last", "busbw cancel 20261121-1815 --now"))
def cancel(
    run: Annotated[str, Parameter(help=_RUN_NAME)] = "last",
    /,
    *,
    now: Annotated[
        bool,
        Parameter(group=_FLAGS, negative="", show_default=False, help="At once, without last words."),
    ] = False,
) -> ExitCode:
    """End a job on its engine."""
    from busbw.cli.jobs import cancel as cancel_command

    return cancel_command(run, now=now)


@app.command(help_epilogue=_examples("busbw clean", "busbw clean 20261121-1815"))
def clean(
    run: Annotated[str, Parameter(show_default=False, help="One run; without it, all jobs.")] = "",
    /,
) -> ExitCode:
    """Remove what ended jobs left on their engines; their records are brought home first."""
    from busbw.cli.jobs import clean as clean_command

    return clean_command(run)


@app.command(help_epilogue=_examples(*DEVICES_EXAMPLES))
def devices(
    *,
    nccl: Annotated[
        str, Parameter(group=_FLAGS, show_default=False, help="Ask about this libnccl.so (or its folder).")
    ] = "",
    format: Annotated[TextOrJson, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """What would be measured here: GPUs, NICs, libraries, and why a backend is not usable."""
    from busbw.cli.devices import devices as devices_command

    return devices_command(nccl, format)


@app.command(name="list", help_epilogue=_examples(*LIST_EXAMPLES))
def list_runs(
    *,
    format: Annotated[TextOrJson, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
    limit: Annotated[int, Parameter(group=_FLAGS, help="Show no more than this many.")] = 20,
) -> ExitCode:
    """Earlier runs, newest first."""
    from busbw.cli.list_runs import list_runs as list_command

    return list_command(format, limit)


@app.command(name="import", help_epilogue=_examples(*IMPORT_EXAMPLES))
def import_logs(
    *paths: Annotated[
        str,
        # For "-"; the command itself refuses other words that begin like a flag.
        Parameter(allow_leading_hyphen=True, help="Logs, folders of logs, or - for standard input."),
    ],
    settings: Annotated[ImportSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Logs of nccl-tests, rccl-tests, nccom-test, OSU and IMB, as runs of busbw."""
    from busbw.cli.import_logs import import_logs as import_command

    return import_command(paths, settings or ImportSettings())


@app.command(name=NCCL_TESTS, help=NCCL_TESTS_HELP, help_epilogue=_examples(*NCCL_TESTS_EXAMPLES))
def nccl_tests(
    *words: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The test, as all_reduce_perf, and its flags.")
    ],
) -> int:
    """Only its help is asked for here: ``main`` takes the words as they are."""
    from busbw.cli.nccl_tests import nccl_tests as nccl_tests_command

    return nccl_tests_command(words, tuple(sys.argv))


@app.command(
    name="nccom-test",
    # The whole command line is nccom-test's, its help too.
    help_flags=[],
    version_flags=[],
    help_epilogue=_examples(*NCCOM_EXAMPLES),
)
def nccom_test(
    *words: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="An operation and flags of nccom-test.")
    ],
) -> ExitCode:
    """The command line of nccom-test (AWS Neuron): its flags, its table, its JSON file."""
    from busbw.cli.nccom_test import nccom_test as nccom_command

    return nccom_command(words, tuple(sys.argv))


@app.command(help_epilogue=_examples(*SHOW_EXAMPLES))
def show(
    run: Annotated[str, Parameter(help="A run's name or the start of it, its folder, or `last`.")] = "last",
    /,
    *,
    format: Annotated[FormatName, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
    ranks: Annotated[
        bool,
        Parameter(group=_FLAGS, negative="", show_default=False, help="Its ranks: the slowest and the late."),
    ] = False,
    histogram: Annotated[
        bool,
        Parameter(group=_FLAGS, negative="", show_default=False, help="How the samples of a case spread."),
    ] = False,
    case: Annotated[
        int | None,
        Parameter(
            group=_FLAGS, show_default=False, help="One case, from 0 as the table goes; alone: all of it."
        ),
    ] = None,
    provenance: Annotated[
        bool,
        Parameter(
            group=_FLAGS,
            negative="",
            show_default=False,
            help="Where it ran and with what: hosts, instances, nodes, pods, modules, libraries.",
        ),
    ] = False,
) -> ExitCode:
    """Any earlier run, again."""
    from busbw.cli.show import show as show_command

    if provenance:
        from busbw.cli.show_provenance import show_provenance

        return show_provenance(run, format, alone=not ranks and not histogram and case is None)
    return show_command(run, format, ranks=ranks, histogram=histogram, case=case)


@app.command(help_epilogue=_examples(*EXPORT_EXAMPLES))
def export(
    run: Annotated[str, Parameter(help="A run's name or the start of it, its folder, or `last`.")] = "last",
    /,
    *,
    format: Annotated[  # noqa: A002
        ExportFormat, Parameter(group=_FLAGS, help="What to write.")
    ] = "nccl-tests",
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            group=_FLAGS,
            show_default=False,
            help="Write to this file instead of standard output.",
        ),
    ] = None,
    op: Annotated[
        str, Parameter(group=_FLAGS, show_default=False, help="Only this operation of the run.")
    ] = "",
) -> ExitCode:
    """A run in the formats that other tools' scripts read: tables, CSV, JSON, Parquet."""
    from busbw.cli.export import export as export_command

    return export_command(run, format, output=output, operation=op)


@app.command(help_epilogue=_examples(*COMPARE_EXAMPLES))
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
        tuple(sys.argv),
    )


@app.command(help_epilogue=_examples(*EXPECT_EXAMPLES))
def expect(
    run: Annotated[
        str, Parameter(help="A run's name or the start of it, its folder, a log, or `last`.")
    ] = "last",
    /,
    *,
    options: Annotated[ExpectSettings | None, Parameter(name="*")] = None,
    format: Annotated[  # noqa: A002
        Literal["table", "csv", "json"], Parameter(group=_FLAGS, help="How to print it.")
    ] = "table",
) -> ExitCode:
    """Is a run as it should be: against runs of the same kind, and against what the wires allow?"""
    from busbw.cli.expect import expect_command

    return expect_command(run, options or ExpectSettings(), format)


@app.command(help_epilogue=_examples(*DIAGNOSE_EXAMPLES))
def diagnose(
    run: Annotated[
        str, Parameter(help="A run's name or the start of it, its folder, a log, or `last`.")
    ] = "last",
    /,
    *,
    format: Annotated[TextOrJson, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """Is it expected, were all links used, which algorithm, how steady, is every rank the same?"""
    from busbw.cli.diagnose import diagnose_command

    return diagnose_command(run, format)


@app.command(name="report", help_epilogue=_examples(*REPORT_EXAMPLES))
def write_report(
    *runs: Annotated[str, Parameter(help="Runs (their names, folders, or `last`) and logs. [default: last]")],
    output: Annotated[
        Path,
        Parameter(
            name=["--output", "-o"],
            group=_FLAGS,
            help="What to write: a page (.html), text (.md), or a picture a plot (.svg, .png).",
        ),
    ] = Path("report.html"),
    plot: Annotated[
        str, Parameter(group=_FLAGS, show_default=False, help="Only the plot with this in its name.")
    ] = "",
) -> ExitCode:
    """Verdicts, curves, ranks, links and histograms as one page that opens offline; or as pictures."""
    from busbw.cli.report import report_command

    return report_command(runs, output, plot)


def main(argv: list[str] | None = None) -> int:
    """Dispatch; every error becomes one line, a hint, and its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        if arguments[:1] == [NCCL_TESTS] and arguments[1:] not in ([], ["-h"], ["--help"]):
            return nccl_tests(*arguments[1:])  # its flags are not ours: -h, --version and -- are its own
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        return int(code) if code is not None else 0
    except CycloptsError as error:
        command = " ".join(("busbw", *(error.command_chain or ())))
        return _refuse(UsageError(str(error), hint=f"see `{command} --help`"), arguments)
    except UsageError as error:  # before any rank was joined: from then on ranks agree on errors
        return _refuse(error, arguments)
    except BusbwError as error:
        return report(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except (
        BrokenPipeError
    ):  # the reader of our output has left (`| head`); the interpreter must not say so again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"cannot write {error.filename or 'a file'}: {error.strerror}"
        return report(SiteError(where, hint="free space there, or set BUSBW_HOME to a folder elsewhere"))


def _refuse(error: UsageError, arguments: list[str]) -> int:
    """Words that cannot be understood. Under a launcher the other ranks of a run wait to be told so."""
    if arguments[:1] in (["run"], ["preflight"], ["isolate"], ["pairs"], ["rails"]):
        from busbw.cli.run import refuse
        from busbw.worker.follower import world_choice

        try:
            return refuse(error, world_choice(arguments))
        except BusbwError as alone:
            return report(alone)
    return report(error)


def report(error: BusbwError) -> int:
    """Show an error on stderr and give its exit code."""
    place = (
        f"rank {error.rank}{f' on {error.host}' if error.host else ''}: " if error.rank is not None else ""
    )
    print(f"error: {place}{error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code
