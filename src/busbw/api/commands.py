"""Commands as functions: ``busbw.run``, ``compare``, ``expect`` and ``import_log``.

Keywords are the flags of the command: ``minbytes="1K"`` is ``--minbytes 1K``, ``b="1K"`` is ``-b 1K``, True
is a flag without a value, False and None leave it out, a list repeats it, a mapping repeats it as NAME=VALUE.
"""

from __future__ import annotations

import html
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.api.run import Run, open_run, runs
from busbw.errors import BusbwError, ExitCode, RankFailed, SiteError, UndecidedError, UsageError
from busbw.judge.run import require_polars
from busbw.model.event import EventKind, decode
from busbw.plan.flags.flag import flag_of

if TYPE_CHECKING:
    import polars as pl

    from busbw.plan.flags.compare import CompareSettings, ExpectSettings
    from busbw.report.display import Display

__all__ = ["Answer", "Run", "compare", "expect", "import_log", "open_run", "run", "runs"]

Setting = str | float | Path | Sequence[object] | Mapping[str, object] | None
_EVENTS: Final = ("--format", "jsonl")  # what a run is asked to print
_SAID: Final = re.compile(r"^error: (.+)(?:\nhint: (.+))?", re.MULTILINE)
_RAISED: Final[Mapping[int, type[BusbwError]]] = {
    each.exit_code: each for each in (UsageError, UndecidedError, SiteError, RankFailed)
}
# Exit codes of a run that has its record; the verdict is in it.
_MEASURED: Final = (ExitCode.OK, ExitCode.BAD_VERDICT, ExitCode.UNDECIDED)


@dataclass(frozen=True)
class Answer:
    """What ``busbw compare`` or ``busbw expect`` says. ``code`` is the command's exit code, ``fields`` are
    those of its JSON form (one for each comparison), ``rows`` has one entry a case; ``str()`` is its table.
    """

    code: ExitCode
    text: str
    fields: tuple[Mapping[str, Any], ...]
    rows: tuple[Mapping[str, Any], ...]

    @property
    def df(self) -> pl.DataFrame:
        """``rows`` as a frame. Raises UsageError naming the extra where polars is not installed."""
        require_polars()
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        found = Counter(row.get("verdict") or row.get("answer") for row in self.rows)
        return f"<Answer: {', '.join(f'{count} {word}' for word, count in found.items()) or 'no case'}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def run(operations: str | Sequence[str], *, show: bool = False, **settings: Setting) -> Run:
    """Measure as ``busbw run`` does, in a process of its own, until it ends. ``show`` prints its table.

    A run with wrong data or a bad verdict is returned: its record says so. Raises the command's error:
    UsageError for wrong settings, SiteError where this machine cannot do it, RankFailed where a rank died
    (what was finished is kept: ``open_run()``), UndecidedError where there is no record.
    """
    from busbw.report.live import create

    names = (operations,) if isinstance(operations, str) else tuple(operations)
    command = [sys.executable, "-m", "busbw", "run", *names, *_words(settings), *_EVENTS]
    with tempfile.TemporaryFile("w+") as err:
        # A session of its own: an interrupt reaches it once, from here.
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                folder = _follow(process, create("table", sys.stdout, sys.stderr) if show else None)
            except BaseException:
                process.send_signal(signal.SIGINT)
                process.communicate()  # so that it closes its record
                raise
        err.seek(0)
        said = err.read()
    if show:
        sys.stderr.write(said)
    if folder is None or process.returncode not in _MEASURED:
        raise _error(process.returncode, said)
    return open_run(folder)


def _follow(process: subprocess.Popen[str], display: Display | None) -> Path | None:
    """Read its events to the end; the folder of the run, where it has one."""
    assert process.stdout is not None
    folder = None
    for line in process.stdout:
        item = decode(line)
        if item is None:
            continue
        if item["event"] == EventKind.END and item.get("folder"):
            folder = Path(item["folder"])
        if display is not None and item["event"] != EventKind.ERROR:  # stderr has it
            display.handle(item)
    if display is not None:
        display.close()
    return folder


def _error(code: int, said: str) -> BusbwError:
    """The error that a command printed on stderr."""
    found = _SAID.search(said)
    if found is None:
        return UndecidedError(
            f"busbw run left no record (exit code {code}){': ' if said else ''}{said.strip()}",
            hint="use the command itself for --dry-run and --detach",
        )
    hint = (found[2] or "").replace(f" {' '.join(_EVENTS)}", "")  # the caller did not write that
    return _RAISED.get(code, BusbwError)(found[1], hint=hint)


def compare(*words: Run | str | Path, **settings: Setting) -> Answer:
    """Runs, logs or NAME=RUN,RUN against the first of them, as ``busbw compare`` does. Raises UsageError."""
    from busbw.cli.compare import compare_trees, comparison_fields, comparison_lines, refuse_measuring
    from busbw.cli.compare_inputs import read_trees
    from busbw.cli.compare_series import exit_code
    from busbw.cli.output import write_for_ci
    from busbw.report import ci

    bound = _bound("compare", tuple(map(_word, words)), settings)
    options: CompareSettings = bound["options"]
    refuse_measuring(options, bound["settings"], bound["launch"])
    made = compare_trees(read_trees(bound["words"]), options)
    write_for_ci([ci.of_comparison(name, comparison) for name, comparison in made], options)
    fields = tuple(comparison_fields(made))
    return Answer(
        exit_code([comparison for _, comparison in made], gate=options.gate),
        "\n".join(comparison_lines(made, every_row=options.all)),
        fields,
        tuple(row for each in fields for row in each["rows"]),
    )


def expect(run: Run | str | Path = "last", **settings: Setting) -> Answer:
    """Is a run, or NAME=LOG,LOG, as fast as it should be? As ``busbw expect`` says. Raises UsageError."""
    from busbw.cli.compare_inputs import each_once, read_compared
    from busbw.cli.expect import fields_of, hold, lines_of
    from busbw.cli.output import write_for_ci
    from busbw.report import ci

    bound = _bound("expect", (_word(run),), settings)
    options: ExpectSettings = bound["options"]
    if options.save is not None or options.list:
        raise UsageError("expect() only judges", hint="use `busbw expect` for --save and --list")
    held = hold(each_once(read_compared(bound["run"]))[0].records, options)
    write_for_ci([ci.of_expectation(held.expectation, held.gates)], options)
    fields = fields_of(held)
    return Answer(
        held.code,
        "\n".join(lines_of(held, bound["run"], rows=options.all)),
        (fields,),
        tuple(fields["cases"]),
    )


def import_log(path: str | Path, **settings: Setting) -> list[Run]:
    """Read a log of another tool, or a folder of logs, as ``busbw import`` does: a run for each table. Raises
    UsageError where there is none, UndecidedError where one does not say its operation or ranks.
    """
    from busbw.cli.import_logs import import_tables

    def refuse(error: BusbwError, where: str) -> None:
        if where:
            error.add_note(f"in {where.removesuffix(': ')}")
        raise error

    bound = _bound("import", (str(path),), settings)
    outcome = import_tables(bound["paths"], bound["settings"], say=lambda text: None, refuse=refuse)
    return [open_run(folder) for folder in outcome.folders]


def _word(run: Run | str | Path) -> str:
    return str(run.folder if isinstance(run, Run) else run)


def _words(settings: Mapping[str, Setting]) -> Iterator[str]:
    """Keywords as the words of a command line."""
    for name, setting in settings.items():
        for value in _values(setting):
            if len(name) == 1:
                yield from (f"-{name}", *([] if value is True else [str(value)]))
            else:
                yield flag_of(name) if value is True else f"{flag_of(name)}={value}"


def _values(setting: Setting) -> Sequence[object]:
    if setting is None or setting is False:
        return ()
    if isinstance(setting, Mapping):
        return [f"{name}={value}" for name, value in setting.items()]
    return setting if isinstance(setting, Sequence) and not isinstance(setting, str) else (setting,)


def _bound(command: str, words: tuple[str, ...], settings: Mapping[str, Setting]) -> dict[str, Any]:
    """What the command line makes of these words and settings. Raises UsageError."""
    from cyclopts import CycloptsError

    from busbw.cli.app import app
    from busbw.cli.mistakes import understood

    tokens = [command, *_words(settings), "--", *words]
    try:
        _, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise understood(error, tokens) from error
    bound.apply_defaults()
    return bound.arguments
