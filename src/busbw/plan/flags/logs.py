"""The settings of ``busbw import``: one model, from which flags and help are made."""

from typing import Literal

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.ranks import NameSettings
from busbw.plan.flags.values import Between

of_reading, of_labels, of_written = Flags("Reading", 1), Flags("Labels", 2), Flags("Output", 3)

LogFormat = Literal["auto", "nccl-tests", "rccl-tests", "nccom-test", "osu", "imb"]


@settings
class ImportSettings(NameSettings):
    """What the user says about logs; empty and None are nothing."""

    format: LogFormat = of_reading("auto", "Read the logs as those of this tool; auto recognises each table.")
    op: str = of_reading("", "Operation, even if a log names another.")
    ranks: int | None = of_reading(
        None, "Number of ranks, even if a log or its rows show another.", Between(1)
    )
    table: str = of_reading("", "Only these tables of each log, counted from 1: 2 or 1,3.")
    labels: str = of_labels(
        "", "Pattern of paths with a {name} for each label: 'n{nodes}/{test}_{setup}.log'."
    )
    setup: str = of_labels("", "Setup of these logs.")
    nodes: int | None = of_labels(None, "Nodes that took part.", Between(1))
    system: str = of_labels("", "Name of the system.")
    library_version: str = of_labels("", "Version of the library that was measured.")
    dry_run: bool = of_written(False, "Print what would be imported, then stop.")
