"""A series of launches in one job on PBS. Not run on a real PBS. See ``SeriesEngine``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from busbw.launch.engine import Handle, Job, JobRequest, LaunchReader, PlainReader, Start
from busbw.launch.pbs import engine


def start(job: Job, series: Job, facts: Mapping[str, str]) -> Start:
    """See SeriesEngine. Of a larger job the launchers take the first nodes."""
    del series
    return Start(("bash", "-c", engine.launch_text(job, facts)))


def sweep(series: Job, words: tuple[str, ...], facts: Mapping[str, str]) -> tuple[str, ...]:
    """See SeriesEngine."""
    del facts
    return engine.each_node(series, words)


def request(series: Job, loop: tuple[str, ...], facts: Mapping[str, str]) -> JobRequest:
    """See SeriesEngine."""
    return engine.series_request(series, loop, facts)


def reader(handle: Handle, folder: Path, nodes: int, ranks: int | None) -> LaunchReader:
    """See SeriesEngine."""
    del handle, folder, nodes, ranks
    return PlainReader()
