"""How a user calls a run: one name, and any number of tags."""

import re
from typing import Final

from busbw.errors import UsageError
from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.values import Ranged

of_name = Flags("Name", 8)
# It becomes part of a folder's name, and must not look like another word of a command line.
_WORD: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}", re.ASCII)
_TAKEN: Final = ("last",)


class Words:
    """One name, or several: letters, digits and ``. _ + -``."""

    def check(self, flag: str, value: str | tuple[str, ...]) -> None:
        for word in filter(None, (value,) if isinstance(value, str) else value):
            if not _WORD.fullmatch(word) or word in _TAKEN:
                raise UsageError(
                    f"{flag} cannot be {word!r}",
                    hint="use up to 64 letters, digits, and . _ + - (not `last`), as in before-upgrade",
                )


@settings
class NameSettings(Ranged):
    """Kept in the record; the name is also part of the run's id."""

    name: str = of_name(
        "", "Name of the run, as in `busbw show NAME`. If several runs have it, it means the newest.", Words()
    )
    tag: tuple[str, ...] = of_name(
        (), "A word to find the run by with `busbw list --tag`. May be repeated.", Words()
    )
