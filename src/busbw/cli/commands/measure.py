"""Commands that start ranks, here or on an engine, with the flags of `run`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from cyclopts import Parameter

from busbw.cli.app import FLAGS, OF_A_HUNT, OF_A_RUN, app, examples
from busbw.cli.command_line import command_line
from busbw.cli.preset_values import PresetValues
from busbw.cli.whole_numbers import counts, whole_numbers
from busbw.errors import ExitCode
from busbw.model.collective import COLLECTIVES
from busbw.settings.hunt import HUNT, HuntSettings
from busbw.settings.launch import LaunchSettings
from busbw.settings.run import RunSettings

# Help is one string a paragraph: the page wraps them to the terminal, but keeps a docstring's line ends.

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


@app.command(
    help=RUN_HELP,
    config=OF_A_RUN,
    help_epilogue=examples(
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
    return run_command(words, settings or RunSettings(), launch or LaunchSettings(), command_line())


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


@app.command(
    help=PREFLIGHT_HELP,
    config=OF_A_RUN,
    help_epilogue=examples(*PREFLIGHT_EXAMPLES),
)
def preflight(
    *operations: Annotated[str, Parameter(help="What would be measured. [default: all_reduce]")],
    deep: Annotated[
        bool,
        Parameter(
            group=FLAGS,
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
        words, settings or RunSettings(), launch or LaunchSettings(), command_line(), deep=deep
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
    "busbw isolate --on slurm -N 16 --each-nic mlx5_0,mlx5_1",
    "busbw isolate --on slurm -N 16 --prior last",
    "busbw isolate --simulate 1024 --bad 3 --noise 2%",
    "busbw isolate --simulate 1024 --per-switch 32 --bad 1 --loss 10%",
    "busbw isolate --simulate 16 --per-switch 14 --farther 60% --hidden --bad 0",
)


@app.command(
    help=ISOLATE_HELP,
    config=OF_A_HUNT,
    help_epilogue=examples(*ISOLATE_EXAMPLES),
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
    per_switch: Annotated[
        int,
        Parameter(
            group=HUNT,
            show_default=False,
            help="With --simulate: parts on a switch; --bad are switches then, slow by their uplinks.",
        ),
    ] = 0,
    farther: Annotated[
        str,
        Parameter(
            group=HUNT,
            show_default=False,
            help="With --per-switch: the share by which latency between switches is longer than within one.",
        ),
    ] = "",
    hidden: Annotated[
        bool,
        Parameter(
            group=HUNT,
            negative="",
            help="With --per-switch: hunt as where nobody tells which parts share a switch.",
        ),
    ] = False,
    own: Annotated[HuntSettings | None, Parameter(name="*")] = None,
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Find the slow part."""
    from busbw.cli.isolate import hunt
    from busbw.cli.isolate import simulate as simulate_hunts

    own, settings = own or HuntSettings(), settings or RunSettings()
    if simulate is not None:
        seed, form = settings.seed, settings.format
        return simulate_hunts(
            own, simulate, bad, noise, hunts, seed, form, per_switch, farther, hidden=hidden
        )
    from busbw.cli.doubts import with_prior

    own = with_prior(own)
    if own.each_nic:
        from busbw.cli.each_nic import hunt_each

        return hunt_each(own, settings, launch or LaunchSettings(), command_line())
    return hunt("isolate", own, settings, launch or LaunchSettings(), command_line())


PAIRS_HELP: Final = (
    "The matrix of all pairs: bandwidth one way and both ways, and latency, in one launch.\n\n"
    "Takes flags of `busbw run`; pairs of hosts, or on one host of its ranks."
)
PAIRS_EXAMPLES: Final = (
    "busbw pairs -b 64M",
    "busbw pairs -b 64M --on slurm -N 16 --format csv",
    "busbw pairs -b 64M --on slurm -N 1024 --halves",
    "mpirun -np 8 busbw pairs -b 1M",
)


@app.command(
    help=PAIRS_HELP,
    config=OF_A_HUNT,
    help_epilogue=examples(*PAIRS_EXAMPLES),
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
        "pairs", own or HuntSettings(), settings or RunSettings(), launch or LaunchSettings(), command_line()
    )


RAILS_HELP: Final = (
    "Compare rails, and hosts: an alltoall in every rail at once, each on a communicator of its own, then in"
    " every host at once; after them the steps of rings in each rail, and in each host.\n\n"
    "A rail is the ranks of one number on their hosts. Takes flags of `busbw run`."
)
RAILS_EXAMPLES: Final = (
    "busbw rails --on slurm -N 8 --ranks-per-node 8 -b 64M",
    "mpirun -np 16 busbw rails",
)


@app.command(
    help=RAILS_HELP,
    config=OF_A_HUNT,
    help_epilogue=examples(*RAILS_EXAMPLES),
)
def rails(
    *,
    own: Annotated[HuntSettings | None, Parameter(name="*")] = None,
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """A collective in every rail, and in every host; then the steps of their rings."""
    from busbw.cli.isolate import hunt

    return hunt(
        "rails", own or HuntSettings(), settings or RunSettings(), launch or LaunchSettings(), command_line()
    )


EXEC_EXAMPLES: Final = (
    "busbw exec --on slurm -N 8 -- hostname",
    "busbw exec --on hosts --hosts a,b --env NCCL_DEBUG=INFO -- python3 train.py",
)


@app.command(
    name="exec", config=(PresetValues(), whole_numbers, counts), help_epilogue=examples(*EXEC_EXAMPLES)
)
def execute(
    *command: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The command and its words, after --.")
    ],
    launch: Annotated[LaunchSettings | None, Parameter(name="*")] = None,
    ranks: Annotated[
        int | None,
        Parameter(
            group=FLAGS, show_default=False, help="How many times it is started, on all nodes together."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        Parameter(group=FLAGS, negative="", show_default=False, help="Print what would be submitted."),
    ] = False,
    overridden: Annotated[
        tuple[str, ...], Parameter(show=False, negative="", help="Written by busbw, as in `run`.")
    ] = (),
) -> int:
    """Run any command on an engine, with the environment, container and hosts that a run would get."""
    from busbw.cli.on import execute as exec_command

    for line in overridden:
        print(f"note: {line}", file=sys.stderr)
    return exec_command(command, launch or LaunchSettings(), command_line(), ranks=ranks, dry_run=dry_run)
