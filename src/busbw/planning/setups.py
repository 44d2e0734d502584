"""Setups to environments, their order, and their files. Pure.

Setups extend one another, so what one has is worked out here, once. The order of launches is blocks: in each,
every setup once, in random order, so that whatever drifts hits all alike (randomised complete blocks).
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busbw.errors import UsageError
from busbw.settings.setups import SetupFile, SetupSpec


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
    specs = {spec.name: spec for spec in file.setups}
    order = (file.default, *(name for name in specs if name != file.default))
    return tuple(_resolved(specs[name], specs, ()) for name in order)


def _resolved(spec: SetupSpec, specs: Mapping[str, SetupSpec], below: tuple[str, ...]) -> Setup:
    if spec.name in below:
        circle = " extends ".join((*below, spec.name))
        raise UsageError(f"setups extend each other: {circle}", hint="let one of them extend nothing")
    base = Setup("")
    if spec.extends:
        base = _resolved(specs[spec.extends], specs, (*below, spec.name))
    environ = {name: value for name, value in base.environ.items() if name not in spec.unset}
    environ.update(spec.env)
    prepend = {name: value for name, value in base.prepend.items() if name not in spec.unset}
    for name, value in spec.prepend.items():
        prepend[name] = ":".join(filter(None, (value, prepend.get(name, ""))))
    unset = {*base.unset, *spec.unset} - spec.env.keys() - spec.prepend.keys()
    lineage = (spec.extends, *base.lineage) if spec.extends else ()
    return Setup(
        spec.name, environ, prepend, tuple(sorted(unset)), {**base.flags, **spec.flags}, lineage, spec.why
    )


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
    found: list[tuple[str, Setup]] = []

    def alone(word: str, **fields: Any) -> None:  # noqa: ANN401 (a field of Setup)
        body = {
            "environ": default.environ, "prepend": default.prepend, "unset": default.unset,
            "flags": default.flags, **fields,
        }  # fmt: skip
        found.append((word, Setup(word, lineage=(default.name,), why=f"one change of {setup.name}", **body)))

    for name, value in setup.environ.items():
        if default.environ.get(name) != value:
            alone(f"{name}={value}", environ={**default.environ, name: value})
    for name, value in setup.prepend.items():
        if default.prepend.get(name) != value:
            alone(f"{name}={value}:", prepend={**default.prepend, name: value})
    for name in setup.unset:
        if name not in default.unset:
            environ = {key: value for key, value in default.environ.items() if key != name}
            alone(f"-{name}", environ=environ, unset=(*default.unset, name))
    for name, value in setup.flags.items():
        if default.flags.get(name) != value:
            alone(f"--{name.replace('_', '-')}={value}", flags={**default.flags, name: value})
    return found


def blocks(names: Sequence[str], count: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """``count`` blocks, each with every name once in random order."""
    shuffle = random.Random(seed)
    made = []
    for _ in range(count):
        order = list(names)
        shuffle.shuffle(order)
        made.append(tuple(order))
    return tuple(made)


def env_file(setup: Setup, remarks: Sequence[str] = ()) -> str:
    """A file for ``source`` in a POSIX shell; also for --env-file where nothing is prepended or unset."""
    lines = [f"# {remark}" for remark in remarks]
    lines += [f"unset {name}" for name in setup.unset]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in setup.environ.items()]
    lines += [
        f'export {name}={shlex.quote(value)}"${{{name}:+:${name}}}"' for name, value in setup.prepend.items()
    ]
    lines += [f"# busbw flag: --{name.replace('_', '-')} {value}" for name, value in setup.flags.items()]
    return "\n".join(lines) + "\n"


def nccl_conf(setup: Setup, remarks: Sequence[str] = ()) -> str:
    """What of a setup NCCL can read itself, as nccl.conf: KEY=VALUE a line, no quotes, # in column 1 only.

    Variables of other libraries and paths stay out, and are named: NCCL's file sets NCCL's variables only,
    and never against the environment. Raises UsageError for a value that a line cannot hold.
    """
    own = {name: value for name, value in setup.environ.items() if name.startswith("NCCL_")}
    left = [name for name in (*setup.environ, *setup.prepend) if name not in own]
    for name, value in own.items():
        if "\n" in value or len(value) > 1023:
            raise UsageError(f"{name} does not fit a line of nccl.conf", hint="use the environment file")
    lines = [f"# {remark}" for remark in remarks]
    lines += [f"# not NCCL's own, set in the environment: {', '.join(left)}"] if left else []
    lines += [f"# unset in the environment: {', '.join(setup.unset)}"] if setup.unset else []
    return "\n".join([*lines, *(f"{name}={value}" for name, value in own.items())]) + "\n"
