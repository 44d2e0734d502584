"""Setups to environments, their order, and their files. Pure.

Setups extend one another, so what one has is worked out here, once. The order of launches is blocks: in each,
every setup once, in random order, so that whatever drifts hits all alike (randomised complete blocks).
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from busbw.errors import UsageError
from busbw.plan.flags.flag import flag_of
from busbw.redact import REDACTED, redact, redact_variables

if TYPE_CHECKING:
    from busbw.plan.setup_file import SetupFile, SetupSpec


@dataclass(frozen=True)
class Setup:
    """What a setup comes to, by name.

    ``environ`` are the variables that it sets, ``prepend`` folders before what a variable has, ``unset``
    variables that it takes away, ``flags`` settings of ``run``. ``lineage`` names what it extends, the
    nearest first.
    """

    name: str
    environ: Mapping[str, str] = field(default_factory=dict)
    prepend: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    lineage: tuple[str, ...] = ()
    why: str = ""


def resolve(file: SetupFile) -> tuple[Setup, ...]:
    """All setups, the default first. Raises UsageError where they extend each other in a circle."""
    order = (file.default, *(name for name in file.setups if name != file.default))
    return tuple(_resolved(name, file.setups, ()) for name in order)


def _resolved(name: str, specs: Mapping[str, SetupSpec], below: tuple[str, ...]) -> Setup:
    if name in below:
        circle = " extends ".join((*below, name))
        raise UsageError(f"setups extend each other: {circle}", hint="let one of them extend nothing")
    spec = specs[name]
    base = _resolved(spec.extends, specs, (*below, name)) if spec.extends else Setup("")
    environ = {key: value for key, value in base.environ.items() if key not in spec.unset}
    environ.update(spec.env)
    prepend = {key: value for key, value in base.prepend.items() if key not in {*spec.unset, *spec.env}}
    for key, value in spec.prepend.items():
        prepend[key] = ":".join(filter(None, (value, prepend.get(key, ""))))
    unset = {*base.unset, *spec.unset} - spec.env.keys() - spec.prepend.keys()
    lineage = (spec.extends, *base.lineage) if spec.extends else ()
    flags = {**base.flags, **spec.flags}
    return Setup(name, environ, prepend, tuple(sorted(unset)), flags, lineage, spec.why)


def variables(setup: Setup, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables to set for a launch that inherits ``inherited``."""
    found = dict(setup.environ)
    for name, value in setup.prepend.items():
        found[name] = ":".join(filter(None, (value, found.get(name, inherited.get(name, "")))))
    return found


def one_at_a_time(setups: Sequence[Setup]) -> tuple[Setup, ...]:
    """The default, then for every other setup its changes against the default one by one, each alone.

    A setup that changes one thing stays as it is; equal changes of several setups are measured once.
    """
    default, *others = setups
    found = [default]
    seen: set[str] = set()
    for setup in others:
        for what, changed in _changes(default, setup):
            if what not in seen:
                seen.add(what)
                found.append(changed)
    return tuple(found)


def _changes(default: Setup, setup: Setup) -> list[tuple[str, Setup]]:
    """What a setup has otherwise than the default, and what it lacks, each change alone."""
    found: list[tuple[str, Setup]] = []

    def alone(word: str, **fields: Any) -> None:  # noqa: ANN401 (fields of Setup)
        why = f"one change of {setup.name}"
        found.append((word, replace(default, name=word, lineage=(default.name,), why=why, **fields)))

    def named(of: str, changed: Callable[[str, Any], str], lacking: str) -> None:
        ours, theirs = getattr(default, of), getattr(setup, of)
        for name, value in theirs.items():
            if ours.get(name) != value:
                kept = tuple(other for other in default.unset if other != name)
                is_shown = redact(name, str(value)) != REDACTED
                word = changed(name, value) if is_shown else f"{name} of {setup.name}"
                alone(word, **{of: {**ours, name: value}, "unset": kept})
        for name in ours:
            if name not in theirs and name not in setup.unset:
                alone(lacking.format(flag_of(name) if of == "flags" else name), **{of: _without(ours, name)})

    named("environ", lambda name, value: f"{name}={value}", "{} not set")
    named("prepend", lambda name, value: f"{name}={value}:", "{} not prepended")
    for name in (name for name in setup.unset if name not in default.unset):
        environ, prepend = _without(default.environ, name), _without(default.prepend, name)
        alone(f"-{name}", environ=environ, prepend=prepend, unset=(*default.unset, name))
    for name in default.unset:
        if name not in {*setup.unset, *setup.environ, *setup.prepend}:
            alone(f"{name} as inherited", unset=tuple(other for other in default.unset if other != name))
    named(
        "flags",
        lambda name, value: flag_of(name) if value is True else f"{flag_of(name)}={on_or_off(value)}",
        "{} not given",
    )
    return found


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def blocks(names: Sequence[str], count: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """``count`` blocks, each with every name once in random order."""
    shuffle = random.Random(seed)
    made = []
    for _ in range(count):
        order = list(names)
        shuffle.shuffle(order)
        made.append(tuple(order))
    return tuple(made)


def over(setup: Setup, environ: Mapping[str, str]) -> Setup:
    """The setup as it was launched: ``environ`` (--env) goes over its own."""
    return replace(
        setup,
        environ={**setup.environ, **environ},
        prepend={name: value for name, value in setup.prepend.items() if name not in environ},
        unset=tuple(name for name in setup.unset if name not in environ),
    )


def on_or_off(value: object) -> str:
    """The value of a flag as it is told."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def flags_typed(setup: Setup) -> list[str]:
    """Its flags for a command line of ``busbw run``; one that is off has no word there."""
    return [
        (flag_of(name) if value else f"without {flag_of(name)}")
        if isinstance(value, bool)
        else f"{flag_of(name)} {shlex.quote(str(value))}"
        for name, value in setup.flags.items()
    ]


def env_file(setup: Setup, remarks: Sequence[str] = ()) -> str:
    """A file for ``source`` in a POSIX shell; also for --env-file where nothing is prepended or unset. It has
    no secrets: they are named.
    """
    setup, secret = _without_secrets(setup)
    lines = [f"# {remark}" for remark in (*remarks, *secret)]
    lines += [f"unset {name}" for name in setup.unset]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in setup.environ.items()]
    lines += [
        f'export {name}={shlex.quote(value)}"${{{name}:+:${name}}}"' for name, value in setup.prepend.items()
    ]
    return "\n".join([*lines, *_flag_lines(setup)]) + "\n"


def _without_secrets(setup: Setup) -> tuple[Setup, list[str]]:
    """The setup without the variables whose values are not kept, and remarks that name these."""
    environ, prepend = redact_variables(setup.environ), redact_variables(setup.prepend)
    # A series keeps what of a value is no secret, which is not the value.
    hidden = {name for name, value in (*environ.items(), *prepend.items()) if REDACTED in value}
    shown = {name: value for name, value in environ.items() if name not in hidden}
    folders = {name: value for name, value in prepend.items() if name not in hidden}
    secret = [f"{name} is a secret: set it yourself" for name in {**environ, **prepend} if name in hidden]
    return replace(setup, environ=shown, prepend=folders), secret


def _flag_lines(setup: Setup) -> list[str]:
    return [f"# busbw flag: {typed}".replace("\n", "\\n") for typed in flags_typed(setup)]


def nccl_conf(setup: Setup, remarks: Sequence[str] = ()) -> str:
    """What of a setup NCCL can read itself, as nccl.conf: KEY=VALUE a line, no quotes, # in column 1 only.

    Variables of other libraries and paths stay out, and are named: NCCL's file sets NCCL's variables only,
    and never against the environment. Raises UsageError for a value that a line cannot hold.
    """
    setup, secret = _without_secrets(setup)
    own = {name: value for name, value in setup.environ.items() if name.startswith("NCCL_")}
    left = [name for name in (*setup.environ, *setup.prepend) if name not in own]
    for name, value in own.items():
        if "\n" in value or len(value) > 1023:
            raise UsageError(
                f"{name} cannot be written as a line of nccl.conf", hint="use the environment file"
            )
    lines = [f"# {remark}" for remark in (*remarks, *secret)]
    lines += [f"# not NCCL's own, set in the environment: {', '.join(left)}"] if left else []
    lines += [f"# unset in the environment: {', '.join(setup.unset)}"] if setup.unset else []
    lines += _flag_lines(setup)
    return "\n".join([*lines, *(f"{name}={value}" for name, value in own.items())]) + "\n"
