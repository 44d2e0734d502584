"""What can be typed: every command with its help and examples. Its flags stand at the function that it calls,
whose module is imported when the command is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from busbw.cli.sources import OF_A_HUNT, OF_A_RUN, OF_ANY_COMMAND

NCCL_TESTS: Final = "nccl-tests"


@dataclass(frozen=True)
class Command:
    """``calls`` is MODULE:FUNCTION in ``busbw.cli``. Of a command with more flags than a screen holds,
    ``first`` are those that ``--help`` shows, in the order of use. ``how`` is what its App gets besides.
    """

    calls: str
    help: str
    examples: tuple[str, ...]
    note: str = ""
    first: str = ""
    how: Mapping[str, Any] = field(default_factory=dict)


_OF_A_RUN: Final = {"config": OF_A_RUN}
_OF_A_HUNT: Final = {"config": OF_A_HUNT}

# As `busbw --help` lists them, in the order of use.
COMMANDS: Final[Mapping[str, Mapping[str, Command]]] = {
    "Measure": {
        "run": Command(
            "run:run_command",
            "Measure one or more collectives.\n\nUnder mpirun, srun, torchrun or a Kubernetes index, busbw"
            " joins the ranks that were started. Otherwise it starts its own on this host: one for each"
            " visible GPU, or CPU ranks over the bundled MPI.",
            (
                "busbw run all_reduce -b 8 -e 64M -f 2",
                "mpirun -np 64 busbw run all_reduce -b 8 -e 8G -f 2",
                "busbw run all_reduce -b 8 -e 8G --on slurm -N 8 --dry-run",
            ),
            note="Each flag can also be set by a variable: --minbytes by BUSBW_MINBYTES.",
            first="-b -e -f -d -n --launches --ranks --on -N --hosts --preset --env --expect --name --tag"
            " --format --dry-run",
            how=_OF_A_RUN,
        ),
        "tune": Command(
            "tune:tune_command",
            "Find the algorithm, protocol and channels that NCCL should take, size by size.\n\nOne launch"
            " races everything that NCCL can do against its own choice, each checked before it is timed;"
            " fresh launches then confirm the winners. The table works in any NCCL job, by a tuner that comes"
            " with busbw. It is right for one job alone on the fabric; what the job computes meanwhile is not"
            " measured.",
            (
                "busbw tune all_reduce,all_gather -b 8 -e 2G",
                "busbw tune all_reduce -b 1M -e 1G -f 4 --on slurm -N 8",
                "busbw tune all_reduce --knobs knobs.yaml -b 1K -e 1M -f 8",
                "busbw tune last --emit nccl-csv --output table.csv",
                "NCCL_TUNER_PLUGIN=$(busbw tune --plugin) BUSBW_TUNER_FILE=table.csv python3 train.py",
            ),
            first="-b -e -f -d --blocks --knobs --emit --output --plugin --ranks --on -N --hosts --preset"
            " --name --format --dry-run",
            how=_OF_A_RUN,
        ),
        "check": Command(
            "check:check_command",
            "Say in one line, within seconds, whether this machine is as before.\n\nFor NHC, Slurm's"
            " HealthCheckProgram, cron and Kubernetes. The sizes are held against references, else against"
            " earlier runs of this machine; an alarm is confirmed by a second launch. Exit code 0: OK; 1:"
            " slow or wrong; 3: undecided; 4, 5: the ranks could not measure.",
            (
                "busbw check",
                "busbw check --least 1G=340 --prometheus /var/lib/node_exporter/busbw.prom",
                "busbw check --plan check.yaml --on slurm -N 2",
            ),
            first="--plan --reference --least --junit --prometheus --ranks --on -N --hosts --preset"
            " --dry-run",
            how=_OF_A_HUNT,
        ),
        "soak": Command(
            "run:soak",
            "Repeat a collective for hours: wrong data, slow calls, changes of level.\n\nEvery window of 10 s"
            " checks every element. The first wrong element ends the soak. At the end, or after Ctrl-C, busbw"
            " says which loss it would have seen. Exit code 1: wrong data or a loss of level.",
            (
                "busbw soak all_reduce -b 1G --time 8h",
                "busbw soak all_reduce --time 30min --on slurm -N 4",
            ),
            first="-b --time --keep-going -d --ranks --on -N --hosts --preset --env --name --format"
            " --dry-run",
            how=_OF_A_HUNT,
        ),
        "preflight": Command(
            "run:preflight",
            "Check everything that a run needs, and measure nothing.\n\nIt takes the flags of `busbw run`,"
            " starts the same ranks, and reports what is wrong: versions, variables, GPUs, NICs, limits, and"
            " whether NCCL uses what was asked for. The exit code is 4 after an error, with --strict also"
            " after a warning.",
            (
                "busbw preflight",
                "busbw preflight --on hosts --hosts a,b,c,d --strict",
                "busbw preflight --on slurm -N 8 --preset aws/p5.48xlarge --deep",
            ),
            first="--deep --strict --expect-use --nccl --ranks --on -N --hosts --preset --env --format"
            " --dry-run",
            how=_OF_A_RUN,
        ),
        "devices": Command(
            "devices:devices",
            "List what a run would use here: GPUs, NICs, libraries; or why it cannot.",
            ("busbw devices", "busbw devices --nccl /opt/nccl/lib --format json"),
        ),
        "presets": Command(
            "presets:app", "List and show known clusters: environment, sweep and place in one word.", ()
        ),
    },
    "Read a result": {
        "show": Command(
            "show:show",
            "Show an earlier run again: its table, ranks or histograms.",
            ("busbw show", "busbw show last --ranks --case 4", "busbw show before-upgrade --histogram"),
        ),
        "list": Command(
            "list_runs:list_runs",
            "List earlier runs, hunts, preflights and series of setups, newest first.",
            (
                "busbw list",
                "busbw list tag:nightly 7d",
                "busbw list host:node7 version:2.28 2026-11-01:",
                "busbw list --operation all_reduce --status failed -n 50",
            ),
        ),
        "history": Command(
            "history:app",
            "Show how results changed from launch to launch: levels, trends, and what changed with them.",
            (),
        ),
        "expect": Command(
            "expect:expect_command",
            "Say whether a run is as fast as it should be: like other runs, and as the wires allow.",
            (
                "busbw expect last",
                "busbw expect all_reduce.log --reference aws-p4de-2x8",
                "busbw expect last --save node7",
            ),
        ),
        "compare": Command(
            "compare:compare_command",
            "Say which setup, run or log is faster: FASTER, SLOWER, SAME or AMBIGUOUS.",
            (
                "busbw compare setups.yaml --ops all_reduce,alltoall -b 8 -e 1G -f 4",
                "busbw compare 20261121-1815 20261121-1902 --gate --detect 10%",
                "busbw compare before=old1.log,old2.log after=new1.log,new2.log",
            ),
            first="--gate --all --delta --detect --baseline --ops --blocks --save-env -b -e -f --on -N"
            " --preset --format",
        ),
        "report": Command(
            "report:report_command",
            "Write runs as one page that opens offline, as text or as pictures.",
            (
                "busbw report last --output report.html",
                "busbw report 20261121-1815 20261121-1902 --output both.html",
                "busbw report last --output - --plot bandwidth",
            ),
        ),
        "import": Command(
            "import_logs:import_logs",
            "Read logs of nccl-tests, rccl-tests, nccom-test, OSU and IMB as runs.",
            (
                "busbw import all_reduce.log",
                "busbw import results/ --system cluster1",
                "kubectl logs job/nccl-test | busbw import -",
            ),
        ),
        "export": Command(
            "export:export",
            "Write a run in a format that other tools read: tables, CSV, JSON, Parquet.",
            (
                "busbw export",
                "busbw export last --format csv --output results.csv",
                "busbw export 20261121-1815 --format nccl-tests-json --op all_reduce",
            ),
        ),
    },
    "Find the fault": {
        "diagnose": Command(
            "diagnose:diagnose_command",
            "Say what is wrong with a run: links, algorithm, variance, ranks.",
            (
                "busbw diagnose last",
                "busbw diagnose last --all",
                "busbw diagnose all_reduce.log --format json",
            ),
        ),
        "isolate": Command(
            "hunts:isolate",
            "Find the slow host, GPU or path by rounds of pair tests in one launch.\n\nHosts (on one host,"
            " its ranks) are tested in pairs: every pair of up to 32 parts, a share of the pairs of more."
            " Tests are repeated until a loss of --loss would show. Exit code 0: healthy; 1: slow parts or"
            " paths; 3: undecided.",
            (
                "busbw isolate",
                "busbw isolate --on hosts --hosts a,b,c,d,e,f,g,h -b 64M",
                "busbw isolate --on slurm -N 64 --format json",
            ),
            first="-b --loss --slower --rounds --each-nic --ranks --on -N --hosts --preset --format"
            " --dry-run",
            how=_OF_A_HUNT,
        ),
        "pairs": Command(
            "hunts:pairs",
            "Measure all pairs: bandwidth one way and both ways, and latency.\n\nPairs are pairs of hosts, or"
            " of ranks on a single host.",
            (
                "busbw pairs -b 64M",
                "busbw pairs -b 64M --on slurm -N 16 --format csv",
                "busbw pairs -b 64M --on slurm -N 1024 --halves",
            ),
            first="-b --halves --ranks --ranks-per-node --on -N --hosts --preset --env --format --dry-run",
            how=_OF_A_HUNT,
        ),
        "rails": Command(
            "hunts:rails",
            "Compare rails with each other, and hosts with each other.\n\nA rail is the ranks with the same"
            " number on their hosts. All rails run an alltoall at once, each on its own communicator; then"
            " all hosts do; then the steps of rings are timed in each rail and in each host.",
            ("busbw rails --on slurm -N 8 --ranks-per-node 8 -b 64M", "mpirun -np 16 busbw rails"),
            first="-b --loss --ranks --ranks-per-node --on -N --hosts --preset --env --format --dry-run",
            how=_OF_A_HUNT,
        ),
        "hang": Command(
            "hang:hang_command",
            "Name the rank that a hanging job waits for. Any job over NCCL or PyTorch.",
            (
                "busbw hang",
                "busbw hang --host h1,h2",
                "busbw hang --job-id 4711",
                "busbw hang --flight-recorder /tmp/dumps",
            ),
        ),
    },
    "Jobs": {
        "jobs": Command(
            "jobs:jobs",
            "List the jobs that were submitted from here.",
            ("busbw jobs", "busbw jobs --format json"),
        ),
        "attach": Command(
            "jobs:attach",
            "Follow a job again, from its first row. Ctrl-C leaves it running.",
            ("busbw attach", "busbw attach 20261121-1815 --format jsonl"),
        ),
        "cancel": Command(
            "jobs:cancel",
            "End a job; what it measured so far is kept.",
            ("busbw cancel last", "busbw cancel 20261121-1815 --now"),
        ),
        "clean": Command(
            "jobs:clean",
            "Fetch the records of ended jobs, then remove what they left on their engines.",
            ("busbw clean", "busbw clean 20261121-1815"),
        ),
        "exec": Command(
            "on:execute",
            "Run any command with the environment, container and hosts that a run would get.",
            (
                "busbw exec --on slurm -N 8 -- hostname",
                "busbw exec --on hosts --hosts a,b --env NCCL_DEBUG=INFO -- python3 train.py",
            ),
            first="--on -N --hosts --ranks --ranks-per-node --preset --env --image --setup-script --dry-run"
            " --detach",
            how={"config": OF_ANY_COMMAND},
        ),
    },
    "Drop-ins": {
        NCCL_TESTS: Command(
            "drop_ins:nccl_tests",
            "Run a command line of nccl-tests: its flags, its table, its exit status.\n\nEvery rank is a"
            " process of its own: processes x threads x GPUs. `busbw nccl-tests all_reduce_perf -h` lists the"
            " flags.",
            (
                "busbw nccl-tests all_reduce_perf -b 8 -e 8G -f 2 -g 8",
                "mpirun -np 64 busbw nccl-tests alltoall_perf -b 8 -e 1G -f 2 -g 1",
                "NCCL_TESTS_MIN_BW=400 busbw nccl-tests all_reduce_perf -b 8G -e 8G -g 8",
            ),
        ),
        "nccom-test": Command(
            "drop_ins:nccom_test",
            "Run a command line of nccom-test (AWS Neuron): its flags, its table, its JSON file.",
            (
                "busbw nccom-test -r 2 allr",
                "busbw nccom-test -r 2 -b 1kb -e 1mb -f 4 -d fp32 --check allg",
            ),
            how={"help_flags": [], "version_flags": []},  # the whole command line is nccom-test's
        ),
    },
}

# Which no overview lists.
COMPLETION: Final = Command(
    "app:completion",
    "Print what completes commands, flags, runs and presets in your shell.",
    ("source <(busbw completion bash)", "busbw completion fish | source"),
)
