"""Mistakes in a command line: refusals of cyclopts in our words, and the command that was probably meant."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from busbw.cli.app import ALL_FLAGS, app
from busbw.errors import UnknownWord, UsageError, nearest
from busbw.model.collective import COLLECTIVES
from busbw.redact import redact_words

if TYPE_CHECKING:
    from cyclopts import App, CycloptsError
    from cyclopts.argument import Argument

# What people of mpirun, nccl-tests and Slurm type.
_MEANT: Final = {
    **dict.fromkeys(("-g", "--ngpus", "-np", "--np", "--nprocs", "--ntasks"), "--ranks"),
    **dict.fromkeys(("--gpus", "--gpus-per-node", "--ntasks-per-node"), "--ranks-per-node"),
    **dict.fromkeys(("-t", "--walltime"), "--time-limit"),
    **dict.fromkeys(("-J", "--job-name"), "--name"),
    "-A": "--account",
    "-H": "--hosts",
    "-x": "--env",
    "--last": "--limit",
    "--json": "--format=json",
}
_MEANT_VALUES: Final = {
    "k8s": "kubernetes",
    "ssh": "hosts",
    "sbatch": "slurm",
    "gpu": "nccl",
    "cuda": "nccl",
    "cpu": "mpi",
    "host": "mpi",
}
_MEANT_COMMANDS: Final = {
    **dict.fromkeys(("status", "ps", "queue"), "jobs"),
    **dict.fromkeys(("bench", "benchmark", "measure"), "run"),
    "ls": "list",
    "plot": "report",
    "version": "--version",
}
_OF_SBATCH: Final = ("--gres", "--nodelist", "-w", "--qos", "-q", "--constraint", "-C", "--mem", "--exclude")
_UNIT: Final = re.compile(r"[KMGT]i?B?|B", re.IGNORECASE)
# Flags that mean something else to Slurm's users: how their values begin, and what to give instead.
_SLURM_MEANS: Final = {
    "-p": ("[A-Za-z]", "give --on slurm --partition {} for a partition"),
    "--time": ("[0-9]", "give --time-limit {} for a job's limit, with --on; --budget 60s bounds measuring"),
}
_PROGRAM_END: Final = re.compile(r"_perf(_mpi)?$")
_A_VALUE: Final = {"integer": "a whole number", "number": "a number", "path": "a path"}


def understood(error: CycloptsError, arguments: Sequence[str]) -> UsageError:
    """A refusal of cyclopts as one of ours."""
    chain = tuple(error.command_chain or ())
    name = _name(chain)
    match error:
        case UnknownCommandError():
            return _command((error.unused_tokens or [""])[0], chain, arguments)
        case UnknownOptionError():
            return _flag((error.token.keyword or error.token.value).partition("=")[0], chain)
        case CoercionError(argument=argument, token=token) if argument is not None and token is not None:
            return _value(argument, token.keyword or argument.names[0], token.value, chain)
        case RepeatArgumentError(token=token):
            return UsageError(f"{token.keyword} is given twice", hint=f"give {token.keyword} once")
        case MissingArgumentError(argument=argument) if argument is not None:
            return _missing(argument, chain, error.keyword, arguments)
        case UnusedCliTokensError():
            words = shlex.join(error.unused_tokens or ())
            return UsageError(f"`{name}` takes no {words}", hint=f"see `{name} --help`")
        case _:
            return UsageError(str(error), hint=f"see `{name} --help`")


def _command(word: str, chain: tuple[str, ...], arguments: Sequence[str]) -> UsageError:
    """A first word that is no command: a program of nccl-tests, an operation, or mistyped."""
    if not chain and _PROGRAM_END.search(word):
        return _instead(f"{word!r} is a program of nccl-tests, not a command", ["nccl-tests", *arguments])
    first, *others = word.split(",")
    operation = nearest(first, (row.name for row in COLLECTIVES), cutoff=0.8)
    if not chain and operation:
        words = ["run", ",".join((operation, *others)), *arguments[1:]]
        return _instead(f"{word!r} is an operation, not a command", words)
    if not chain and word == "help" and arguments[1:]:
        return _instead(f"unknown command {word!r}", [*arguments[1:], "--help"])
    if chain == ("presets",) and "/" in word:
        return _instead(f"unknown command {word!r}", ["presets", "show", word])
    commands = [each for each in _at(chain) if not each.startswith("-")]
    hint = f"see `{_name(chain)} --help`"
    known, meant = [*commands, "--help", "--version"], "" if chain else _MEANT_COMMANDS.get(word, "")
    return _unknown(f"unknown command {word!r}", word, known, meant, hint=hint)


def _unknown(message: str, word: str, known: Sequence[str], meant: str | None, hint: str = "") -> UnknownWord:
    """A word that is none of the known; ``meant`` is what its users mean by it, where that is known."""
    error = UnknownWord(message, word, known, hint=hint)
    if meant:
        error.likely, error.hint = meant, f"use {meant}"
    return error


def _instead(message: str, words: Sequence[str]) -> UsageError:
    return UsageError(message, hint=f"try `{shlex.join(['busbw', *words])}`")


def _flag(flag: str, chain: tuple[str, ...]) -> UsageError:
    name = _name(chain)
    hint = f"see `{name} {ALL_FLAGS}`"
    known = _flags(_at(chain))
    meant = _MEANT.get(flag, "")
    if meant.partition("=")[0] in known:
        return _unknown(f"unknown flag {flag!r}", flag, (), meant)
    is_like_one = flag.startswith("--") and nearest(flag, known, cutoff=0.85)
    if chain != ("run",) and flag in _flags(app["run"]) and not is_like_one:
        return UsageError(f"`{name}` has no flag {flag}; it is a flag of `busbw run`", hint=hint)
    if flag in _OF_SBATCH and "--sbatch-args" in known:
        return UsageError(f"unknown flag {flag!r}", hint=f"give it to sbatch: --sbatch-args='{flag} ...'")
    if flag == "--output" and chain == ("run",):
        hint = "use `busbw export last --output FILE`, or `busbw report`: the record is kept"
    long = [each for each in known if each.startswith("--")]
    return UnknownWord(
        f"unknown flag {flag!r} of `{name}`", flag, long if flag.startswith("--") else (), hint=hint
    )


def _value(argument: Argument, flag: str, value: str, chain: tuple[str, ...]) -> UsageError:
    from busbw.cli.help import choices_of, value_kind

    joined = flag + value.partition("=")[0]
    if joined in _MEANT:  # -np is -n with the value p
        return _flag(joined, chain)
    begins, instead = _SLURM_MEANS.get(flag, ("", ""))
    if instead and re.match(begins, value):
        return UsageError(f"{flag} does not take {value!r}", hint=instead.format(value))
    if choices := choices_of(argument):
        meant = _MEANT_VALUES.get(value)
        known = meant if meant in choices else None
        return _unknown(f"unknown value {value!r} of {flag}", value, choices, known)
    kind = _A_VALUE.get(value_kind(argument), f"a {value_kind(argument)}")
    return UsageError(f"{flag} takes {kind}, not {value!r}", hint=f"see `{_name(chain)} --help`")


def _missing(
    argument: Argument, chain: tuple[str, ...], keyword: str | None, arguments: Sequence[str]
) -> UsageError:
    name = _name(chain)
    flag = keyword or argument.names[0]
    if not flag.startswith("-"):
        example = (_at(chain).help_epilogue or "").partition("\n  ")[2].partition("\n")[0]
        return UsageError(f"`{name}` needs {flag}", hint=f"try `{example}`")
    after = dict(pairwise(arguments))
    if re.match(r"-\.?\d", value := after.get(flag, "")):  # such a value starts as a flag does
        return UsageError(f"{flag}: {value!r} must be positive", hint=f"leave out the -: {flag} {value[1:]}")
    return UsageError(f"{flag} needs a value", hint=f"see `{name} --help`")


def _name(chain: tuple[str, ...]) -> str:
    return " ".join(("busbw", *chain))


def _at(chain: tuple[str, ...]) -> App:
    command: App = app
    for word in chain:
        command = command[word]
    return command


def _flags(command: App) -> list[str]:
    if command.default_command is None:
        return []
    return [name for each in command.assemble_argument_collection() if each.show for name in each.names]


def with_command(error: UsageError, arguments: Sequence[str]) -> UsageError:
    """The same with the whole command that was probably meant as its hint, where the word was typed."""
    if not isinstance(error, UnknownWord):
        return error
    if _UNIT.fullmatch(error.word):  # -e 1 GiB
        error.hint = f"write a size as one word, as 1{error.word}"
    if not error.likely:
        return error
    wrong = re.compile(rf"(?<![\w-]){re.escape(error.word)}(?![\w-])")
    at = next((at for at, word in enumerate(arguments) if wrong.search(word)), None)
    shown = list(redact_words(list(arguments)))
    if at is None or shown != list(arguments):
        return error
    shown[at] = wrong.sub(lambda _: error.likely, shown[at], count=1)
    if "," in shown[at]:  # others of the list may be mistyped too
        name, equals, words = shown[at].rpartition("=")
        meant = (
            word if word in error.known else nearest(word, error.known) or word for word in words.split(",")
        )
        shown[at] = f"{name}{equals}{','.join(meant)}"
    error.hint = f"did you mean `{shlex.join(['busbw', *shown])}`?"
    return error
