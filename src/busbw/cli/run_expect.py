"""``busbw run --expect``: the verdict below a run's own table."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from busbw.errors import ExitCode, UsageError
from busbw.plan.flags.run import RunSettings


def check_references(settings: RunSettings, files: tuple[Path, ...] | None = None) -> None:
    """Raises UsageError for a reference that is not there, before anything is measured. ``files`` are preset
    files in place of the user's.
    """
    if settings.expect:
        from busbw.judge.references import load
        from busbw.record.folder import environ_home

        for name in _references(settings.expect, files):
            load.find(name, environ_home())


def judged(code: ExitCode, folder: Path | None, settings: RunSettings) -> ExitCode:
    """The exit code of a run with its verdict, which is printed: below the table, or beside data for a
    program on stderr. A run that did not end by itself, or had wrong data, keeps its own code.
    """
    if not settings.expect or folder is None or code > ExitCode.BAD_VERDICT:
        return code
    from busbw.cli.expect import judge
    from busbw.plan.flags.compare import ExpectSettings
    from busbw.record.folder import LAST
    from busbw.record.read import read_record

    aside = contextlib.nullcontext() if settings.format == "table" else contextlib.redirect_stdout(sys.stderr)
    with aside:
        options = ExpectSettings(reference=_references(settings.expect))
        verdict = judge((read_record(folder),), options, "table", LAST)
    return verdict if code is ExitCode.OK else code


def _references(names: tuple[str, ...], files: tuple[Path, ...] | None = None) -> tuple[str, ...]:
    """A preset stands for its references. Raises UsageError where it has none."""
    from busbw.cli.preset_values import user_files
    from busbw.plan.presets import preset

    files = user_files() if files is None else files
    found: list[str] = []
    for name in names:
        if name.partition("@")[0] not in preset.names(files):
            found.append(name)
            continue
        references = preset.read_preset(name, files).references
        if not references:
            raise UsageError(f"preset {name} has no reference", hint="see `busbw expect --list`")
        found += references
    return tuple(found)
