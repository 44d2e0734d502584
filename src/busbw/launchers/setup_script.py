"""A setup script before the ranks of a batch job: sourced by bash in the words that start them.

It is sourced, so it may return; where it ends the shell (exit 0, set -e), or fails, that is no end of the
ranks. Its failure is told a second before the shell ends: srun (22.05) may lose the last words of a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# How a script that failed is told, before its exit code and its node; the ranks there never start.
_FAILED: Final = "busbw: the setup script ended with exit code "
_SOURCE: Final = """\
busbw_words=("$@"); set --
busbw_failed() {{
  code=$?
  echo "{failed}$code on {node}" >&2
  sleep 1 || :
  exit "$((code ? code : 1))"
}}
trap busbw_failed EXIT
{before}. /dev/fd/8 {script}
busbw_code=$?
if [ "$busbw_code" != 0 ]; then exit "$busbw_code"; fi
trap - EXIT
{after}exec "${{busbw_words[@]}}"
"""


def sourced(script: str, node: str, *, before: str = "", after: str = "") -> str:
    """The program of ``bash -c PROGRAM NAME WORD...`` that sources a script, and then becomes the words.

    ``script`` redirects the script to descriptor 8, ``node`` is how the shell knows its node's name;
    ``before`` and ``after`` are whole lines around the script.
    """
    return _SOURCE.format(failed=_FAILED, script=script, node=node, before=before, after=after)


def failure(lines: Sequence[str]) -> str:
    """What a job printed of a setup script that failed; empty where none did."""
    told = next((line for line in lines if line.startswith(_FAILED)), "")
    return told.removeprefix("busbw: ")
