from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from cyclopts import App

from busbw.settings.run import RunSettings
from busbw.settings.words import to_words


def parse(words: tuple[str, ...]) -> RunSettings:
    """The words as the command line reads them."""
    app = App()
    found: list[RunSettings] = []

    @app.default
    def run(*operations: str, settings: RunSettings | None = None) -> None:
        found.append(settings or RunSettings())

    app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    return found[0]


def other_value(hint: Any, default: Any, text: str) -> Any:
    """A value of an annotated type that is not the field's default."""
    kinds = [hint, *get_args(hint), *(inner for part in get_args(hint) for inner in get_args(part))]
    for kind in kinds:
        if get_origin(kind) is Literal:
            return next(word for word in get_args(kind) if word != default)
    if isinstance(default, bool):
        return not default
    if isinstance(default, tuple):
        return (text, "-x")
    if float in kinds:
        return 2.5
    return 3 if int in kinds else text


@pytest.mark.parametrize("text", ["1K", "-1", "a b", "$(x)", "--iters", "a=b", "q\"'", "line\nline"])
def test_every_setting_survives_its_words(text: str) -> None:
    default = RunSettings()
    hints = get_type_hints(RunSettings, include_extras=True)
    wanted = replace(
        default,
        **{
            field.name: other_value(hints[field.name], getattr(default, field.name), text)
            for field in fields(RunSettings)
        },
    )
    assert parse(("all_reduce", *to_words(wanted))) == wanted


def test_defaults_need_no_words() -> None:
    assert to_words(RunSettings()) == ()


def test_fields_that_are_left_out() -> None:
    settings = RunSettings(iters=5, ranks=2)
    assert to_words(settings, ("ranks",)) == ("--iters=5",)
