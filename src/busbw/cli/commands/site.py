"""Commands about this machine and known clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from busbw.cli.app import CleanApp, TextOrJson, app, command, flag, word
from busbw.errors import ExitCode


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
