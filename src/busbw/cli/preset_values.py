"""A preset's values under the flags: what neither the command line nor a variable says comes from --preset.

Runs after the flags and ``BUSBW_*`` were read and before defaults apply. Lists (--env, --set) are put before
the user's own words, so those win.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cyclopts import Token

from busbw.settings.preset import Preset, read_preset

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument, ArgumentCollection

FILES_VARIABLE: Final = "BUSBW_PRESET_FILES"
_LISTS: Final = ("--env", "--set", "--expect-use")


def user_files() -> tuple[Path, ...]:
    """Users' own preset files: those named by BUSBW_PRESET_FILES (separated by colons), else *.yaml in
    busbw/presets of the XDG configuration folder.
    """
    if chosen := os.environ.get(FILES_VARIABLE):
        return tuple(Path(word) for word in chosen.split(":") if word)
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return tuple(sorted(Path(config, "busbw", "presets").glob("*.yaml")))


class PresetValues:
    """A source of arguments, as cyclopts wants it."""

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Fill in what is still open. Raises UsageError for a preset that is not there or not well formed."""
        by_name = {argument.name: argument for argument in arguments}
        chosen = by_name.get("--preset")
        if chosen is None:
            return
        on = by_name.get("--on")
        engine = on.tokens[-1].value if on is not None and on.tokens else ""
        for token in reversed(list(chosen.tokens)):  # the last one named is on top
            fill(by_name, read_preset(token.value, user_files()), engine)


def fill(by_name: dict[str, Argument], preset: Preset, engine: str) -> None:
    """Give one preset's values to the arguments that have none."""
    values: dict[str, list[str]] = {"--env": [f"{k}={v}" for k, v in preset.environ(engine).items()]}
    values["--expect-use"] = list(preset.expects)
    for name, value in {**preset.run_values(), **preset.launch_values(engine)}.items():
        flag = "--" + name.replace("_", "-")
        values.setdefault(flag, []).extend(value if isinstance(value, list) else [str(value)])
    if paths := preset.library_path:
        inherited = os.environ.get("LD_LIBRARY_PATH")
        values["--env"].append("LD_LIBRARY_PATH=" + ":".join((*paths, *filter(None, [inherited]))))
    for flag, words in values.items():
        argument = by_name.get(flag)
        if argument is None or not words:
            continue  # of another command
        tokens = [Token(keyword=flag, value=word, source=f"preset {preset.name}") for word in words]
        if flag in _LISTS or not argument.tokens:
            argument.tokens[:0] = tokens
