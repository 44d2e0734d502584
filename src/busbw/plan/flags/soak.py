"""Flags of ``busbw soak`` beside those of ``run``."""

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.ranks import PreflightSettings, RankSettings, of_method, of_sweep
from busbw.plan.flags.values import Countable, DataTypes, LeavesTime, Ranged, ReduceOps, Roots, Seconds, Size

of_soak = Flags("Soak", 0)


@settings
class SoakSettings(Ranged):
    """One soak."""

    time: Seconds | None = of_soak(None, "How long: 8h, 30min. [default: until Ctrl-C]", LeavesTime())

    @property
    def text(self) -> str:
        """In one word, as records keep it."""
        return f"time={getattr(self.time, 'text', self.time)}"


@settings
class SoakRanks(RankSettings, PreflightSettings):
    """The ranks of a soak, and what they repeat; see ``flags.run.RunSettings``."""

    minbytes: Size = of_soak(Size("64M"), "Size of a message, and of each buffer.", "-b")
    datatype: DataTypes = of_sweep(DataTypes("float"), "Element type.", "-d")
    op: ReduceOps = of_sweep(ReduceOps("sum"), "Reduction.", "-o")
    root: Roots = of_sweep(Roots("0"), "Root of rooted collectives.", "-r", allow_leading_hyphen=True)
    keep_going: bool = of_soak(False, "Go on after wrong data, which else ends the soak.")
    timeout: float = of_method(600.0, "A window that takes this many seconds hangs.", "-T", Countable())
