"""Words that users give for sbatch and srun themselves (--sbatch-args, --srun-args). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from busbw.errors import UsageError
from busbw.launch.settle import split_words

_OUTPUT: Final = "leave it out: output is kept in log/ of the run folder"
# What busbw has to decide itself, with what to do instead; short forms beside the long ones.
_OURS: Final[Mapping[str, Mapping[str, str]]] = {
    "--sbatch-args": {
        "--output -o": _OUTPUT,
        "--error -e": _OUTPUT,
        "--array -a": "give -N several node counts, as 2,4,8, for a job each",
        "--wait -W": "leave it out: busbw waits for the job, unless --detach is given",
    },
    "--srun-args": {"--output -o": _OUTPUT, "--error -e": _OUTPUT},
}


def own_words(flag: str, text: str) -> list[str]:
    """As split_words. Raises UsageError also for what would lose a job, its output or its variables."""
    words = split_words(flag, text)
    for names, hint in _OURS[flag].items():
        if found := next((word for word in words if _is_option(word, *names.split())), ""):
            raise UsageError(f"busbw sets {flag} {found} itself", hint=hint)
    exported = value_of(words, "--export", "")
    if flag == "--srun-args" and exported and "ALL" not in exported.split(","):
        raise UsageError(
            f"{flag} --export={exported} hides variables that the ranks need",
            hint="leave it out, or begin it with ALL; --sbatch-args --export=NONE keeps the shell's away",
        )
    return words


def _is_option(word: str, long: str, short: str = "") -> bool:
    """Whether a word is this option, with or without its value. (Options that are put together or cut short,
    as -Qo or --outp, are not looked for.)
    """
    if word.startswith("--"):
        return word.partition("=")[0] == long
    return bool(short) and word.startswith(short)


def value_of(words: Sequence[str], long: str, short: str) -> str:
    """What an option is set to, in one word or two; of several the last; empty where it is not there."""
    found = ""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if _is_option(word, long, short):
            joined = word.partition("=")[2] if word.startswith("--") else word.removeprefix(short)
            found = joined or following
    return found
