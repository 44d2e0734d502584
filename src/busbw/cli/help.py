"""Help pages: commands in groups, a command's flags that people use first, and all of them on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Final, get_args, get_origin

from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text

from busbw.cli.commands import COMMANDS

if TYPE_CHECKING:
    from cyclopts import App, Group
    from cyclopts.argument import Argument
    from rich.console import RenderableType

# The type of a flag -> what its value is called.
_VALUES: Final = {
    **dict.fromkeys(("str", "Skew", "ArrivalText"), "text"),
    "Path": "path",
    "int": "integer",
    "float": "number",
    "bool": "",
    "Size": "size",
    "Seconds": "duration",
    "SecondsOrOff": "duration",
    "Fraction": "share",
    "Growth": "share",
    **dict.fromkeys(("DataTypes", "ReduceOps", "Roots", "Ratios"), "list"),
}
_COMMAND_COLUMNS: Final = 12  # of the longest command: all groups begin their second column there
_MOST_NAMES: Final = 32  # columns of a flag's names and value; longer ones wrap


def page(chain: Sequence[str], command: App, *, whole: bool) -> RenderableType:
    """A command's help; ``chain`` are the words that name it, behind ``busbw``; ``whole``: with all flags."""
    name = " ".join(("busbw", *chain))
    collection = command.assemble_argument_collection(parse_docstring=True) if command.default_command else ()
    arguments = [each for each in collection if each.show]
    flags = [each for each in arguments if each.names[0].startswith("-")]
    words = [each for each in arguments if not each.names[0].startswith("-")]
    own = [each for each in command if not each.startswith("-")]
    # Titles and their commands, with the first line of each one's help.
    rows = COMMANDS if "run" in own else {"Commands": {each: command[each] for each in own}} if own else {}
    groups = [
        (title, [(each, row.help.partition("\n")[0]) for each, row in named.items()])
        for title, named in rows.items()
    ]
    usage = name
    for each in words:
        text = each.names[0].upper() + ("..." if get_origin(each.hint) is tuple else "")
        usage += f" {text}" if each.required else f" [{text}]"
    usage += (" COMMAND" if groups else "") + (" [FLAGS]" if flags else "")
    shown = flags if whole else first_flags(chain, flags)
    return Lines(
        Text.assemble((f"Usage: {usage}", "bold")),
        Text(f"\n{command.help}"),
        *_section("", _rows(words)),
        *(part for title, rows in groups for part in _section(title, rows, least=_COMMAND_COLUMNS)),
        *_flag_sections(name, shown, len(flags)),
        *([Text(f"\n{command.help_epilogue}")] if command.help_epilogue else []),
    )


def first_flags(chain: Sequence[str], flags: Sequence[Argument]) -> list[Argument]:
    """The flags that a command's short help shows."""
    rows = (row for group in COMMANDS.values() for name, row in group.items() if (name,) == tuple(chain))
    first = next((row.first.split() for row in rows), [])
    by_name = {name: flag for flag in flags for name in flag.names}
    return [by_name[name] for name in first] or list(flags)


def _flag_sections(name: str, shown: Sequence[Argument], count: int) -> Iterator[RenderableType]:
    """All flags of a command by their groups, or the few of ``count`` that are shown."""
    if len(shown) < count:
        yield from _section(f"Flags used most often (`{name} --help-all` shows all {count})", _rows(shown))
        return
    order = {group_of(flag).name: group_of(flag).sort_key for flag in shown}
    for title in sorted(order, key=lambda title: order[title]):
        yield from _section(title, _rows(flag for flag in shown if group_of(flag).name == title))


def _rows(arguments: Iterable[Argument]) -> Iterator[tuple[str, str]]:
    """Names and value of each, and what it means."""
    for each in arguments:
        names, means = _names(each), meaning(each)
        if len(names) > _MOST_NAMES - 2 and (choices := choices_of(each)):
            names = names.replace(value_word(each), "WORD")
            means += f" One of: {', '.join(choices)}."
        yield names, means + (f" [default: {default(each)}]" if default(each) else "")


def _section(title: str, told: Iterable[tuple[str, str]], least: int = 0) -> Iterator[RenderableType]:
    """A title above two columns, the first as wide as its names, and at least ``least`` columns."""
    rows = list(told)
    if not rows:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="cyan", min_width=least, max_width=_MOST_NAMES)
    table.add_column()
    for name, text in rows:
        table.add_row(Text(f"  {name}"), Text(text))
    yield Text(f"\n{title}:" if title else "", "bold")
    yield table


# ---- what is said of a flag, here and in the reference -----------------------------------------------


def _names(flag: Argument) -> str:
    """``-b, --minbytes SIZE``; spellings with _ are for the users of other tools."""
    if not flag.names[0].startswith("-"):
        return flag.names[0].upper()
    spellings = [name for name in flag.names if "_" not in name]
    value = value_word(flag)
    return " ".join((", ".join(sorted(spellings, key=len)), *([value] if value else [])))


def group_of(flag: Argument) -> Group:
    """The group that help lists a flag in."""
    groups: tuple[Group, ...] = flag.parameter.group  # type: ignore[assignment]  # cyclopts makes it one
    return groups[0]


def value_word(flag: Argument) -> str:
    """What a flag takes: ``SIZE``, ``table|csv|json``; empty for a switch."""
    choices = choices_of(flag)
    if choices and flag.parameter.show_choices is not False:
        return "|".join(choices)
    if get_origin(_without_none(flag.hint)) is tuple:
        return "TEXT..." if flag.parameter.consume_multiple else "TEXT"
    return "NAME" if choices else value_kind(flag).upper()


def choices_of(flag: Argument) -> tuple[str, ...]:
    """The words that a flag knows, where it takes no others."""
    hint = _without_none(flag.hint)
    return tuple(map(str, get_args(hint))) if get_origin(hint) is not tuple else ()


def value_kind(flag: Argument) -> str:
    """The kind of a flag's value in a word; empty for a switch."""
    hint = _without_none(flag.hint)
    return "words" if get_origin(hint) is tuple else _VALUES[getattr(hint, "__name__", "")]


def _without_none(hint: object) -> object:
    is_optional = get_origin(hint) is not None and type(None) in get_args(hint)
    return next(part for part in get_args(hint) if part is not type(None)) if is_optional else hint


def meaning(flag: Argument) -> str:
    """What a flag does, without its default."""
    return (flag.parameter.help or "").partition(" [default: ")[0]


def default(flag: Argument) -> str:
    """What holds without the flag: stated in its help where that depends, else its value; empty for none."""
    stated = (flag.parameter.help or "").rpartition("[default: ")
    if stated[1]:
        return stated[2].removesuffix("]")
    value = flag.field_info.default
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None or value in ("", (), Parameter.empty) else str(value)
