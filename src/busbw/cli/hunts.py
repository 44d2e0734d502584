"""``busbw isolate``, ``pairs`` and ``rails``: their flags."""

# ruff: noqa: B008 (the defaults are frozen settings)

from __future__ import annotations

from busbw.cli.app import command_line
from busbw.cli.isolate import hunt
from busbw.errors import ExitCode
from busbw.plan.flags.hunt import HuntRanks, HuntSettings, IsolateFlags, IsolateRanks, PairsFlags, RailsFlags
from busbw.plan.flags.launch import LaunchSettings


def isolate(
    *,
    own: IsolateFlags = IsolateFlags(),
    ranks: IsolateRanks = IsolateRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Which part is slow? Once by each NIC, where these are named."""
    settings = HuntSettings(kind="isolate", **vars(own))
    if settings.each_nic:
        from busbw.cli.each_nic import hunt_each

        return hunt_each(settings, ranks, launch, command_line())
    return hunt(settings, ranks, launch, command_line())


def pairs(
    *,
    own: PairsFlags = PairsFlags(),
    ranks: HuntRanks = HuntRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Every pair, in numbers."""
    return hunt(HuntSettings(kind="pairs", **vars(own)), ranks, launch, command_line())


def rails(
    *,
    own: RailsFlags = RailsFlags(),
    ranks: IsolateRanks = IsolateRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Rails against rails, and hosts against hosts."""
    return hunt(HuntSettings(kind="rails", **vars(own)), ranks, launch, command_line())
