"""Commands about this machine, known clusters, and jobs on engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from busbw.cli.app import PRINTED, CleanApp, RunName, TextOrJson, app, command, flag, run_names, word
from busbw.errors import ExitCode
from busbw.plan.flags.ranks import FormatName


@command("busbw devices", "busbw devices --nccl /opt/nccl/lib --format json")
def devices(
    *,
    nccl: Annotated[str, flag("Look at this libnccl.so (or its folder).")] = "",
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """List what a run would use here: GPUs, NICs, libraries; or why it cannot."""
    from busbw.cli.devices import devices as devices_command

    return devices_command(nccl, format)


presets = CleanApp(
    name="presets", help="List and show known clusters: environment, sweep and place in one word."
)
app.command(presets)


@command("busbw presets list", of=presets, name="list")
def list_presets(
    *,
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """List every preset, with the date of its values."""
    from busbw.cli.presets import show_list

    return show_list(format)


@command("busbw presets show aws/p5.48xlarge@2024-04", of=presets, name="show")
def show_preset(
    name: Annotated[str, word("FAMILY/NAME, with @DATE for older values.")],
    /,
    *,
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """Show everything that a preset sets, and where it is from."""
    from busbw.cli.presets import show as show_command

    return show_command(name, format)


@command("busbw presets check ours.yaml", of=presets, name="check")
def check_presets(file: Annotated[Path, word("A preset file of your own.")], /) -> ExitCode:
    """Check a preset file of your own."""
    from busbw.cli.presets import check as check_command

    return check_command(file)


@command("source <(busbw completion bash)", "busbw completion fish | source")
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], word("Whose words.")], /) -> None:
    """Print what completes commands, flags, runs and presets in your shell."""
    print(app.generate_completion(prog_name=app.name[0], shell=shell))


# ---- jobs on engines ----------------------------------------------------------------------------------


@command("busbw jobs", "busbw jobs --format json")
def jobs(
    *,
    format: Annotated[  # noqa: A002
        Literal["table", "json", "csv"], flag("How to print it; csv also has nodes, operations and ranks.")
    ] = "table",
    limit: Annotated[int, flag("Show no more than this many.")] = 20,
) -> ExitCode:
    """List the jobs that were submitted from here."""
    from busbw.cli.jobs import jobs as jobs_command

    return jobs_command(format, limit)


@command("busbw attach", "busbw attach 20261121-1815 --format jsonl")
def attach(
    run: RunName = "last",
    /,
    *,
    format: Annotated[FormatName, PRINTED] = "table",  # noqa: A002
) -> int:
    """Follow a job again, from its first row. Ctrl-C leaves it running."""
    from busbw.cli.jobs import attach as attach_command

    return attach_command(run, format)


@command("busbw cancel last", "busbw cancel 20261121-1815 --now")
def cancel(
    run: RunName = "",
    /,
    *,
    now: Annotated[bool, flag("Kill immediately; do not wait for final output.")] = False,
) -> ExitCode:
    """End a job; what it measured so far is kept."""
    from busbw.cli.jobs import cancel as cancel_command

    return cancel_command(run, now=now)


@command("busbw clean", "busbw clean 20261121-1815")
def clean(
    run: Annotated[str, word("One job. [default: all of them]", completer=run_names)] = "", /
) -> ExitCode:
    """Fetch the records of ended jobs, then remove what they left on their engines."""
    from busbw.cli.jobs import clean as clean_command

    return clean_command(run)
