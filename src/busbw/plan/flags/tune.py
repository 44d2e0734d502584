"""Settings of ``busbw tune``."""

from pathlib import Path
from typing import Literal

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.values import Between, Ranged

of_tuning = Flags("Tuning", 0)
Form = Literal["nccl-csv", "rccl-csv", "nccl-conf", "env"]


@settings
class TuneSettings(Ranged):
    """How winners are confirmed, and what is written."""

    blocks: int = of_tuning(
        3, "Fresh launches a side, in turn, that confirm a winner; 0: none.", Between(0, 100)
    )
    knobs: Path | None = of_tuning(
        None, "Try the variables of this YAML file, by launches: a line each, as NAME: [value, value]."
    )
    emit: Form | None = of_tuning(None, "Write what an earlier tuning confirmed, in this form.")
    output: Path | None = of_tuning(None, "The file to write. [default: print it]")
    plugin: bool = of_tuning(False, "Print the path of the tuner plugin, for NCCL_TUNER_PLUGIN.")
