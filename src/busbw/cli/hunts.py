"""``busbw isolate``, ``pairs`` and ``rails``: their flags."""

from __future__ import annotations

from busbw.cli.app import RunCommand, command_line
from busbw.cli.each_nic import hunt_each
from busbw.cli.isolate import hunt
from busbw.errors import ExitCode
from busbw.plan.flags.hunt import (
    HuntRanks,
    HuntSettings,
    IsolateFlags,
    IsolateRanks,
    PairsFlags,
    RailsFlags,
    RoundFlags,
)
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings


def isolate(
    *,
    own: IsolateFlags = IsolateFlags(),
    ranks: IsolateRanks = IsolateRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Which part is slow? Once by each NIC, where these are named."""
    command = _command("isolate", own, ranks, launch)
    return hunt_each(command) if own.each_nic else hunt(command)


def pairs(
    *,
    own: PairsFlags = PairsFlags(),
    ranks: HuntRanks = HuntRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Every pair, in numbers."""
    return hunt(_command("pairs", own, ranks, launch))


def rails(
    *,
    own: RailsFlags = RailsFlags(),
    ranks: IsolateRanks = IsolateRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Rails against rails, and hosts against hosts."""
    return hunt(_command("rails", own, ranks, launch))


def _command(kind: str, own: RoundFlags, ranks: HuntRanks, launch: LaunchSettings) -> RunCommand:
    settings = RunSettings(hunt=HuntSettings(kind=kind, **vars(own)), **vars(ranks))
    return RunCommand((kind,), settings, launch, command_line())
