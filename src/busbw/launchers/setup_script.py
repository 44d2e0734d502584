"""A setup script before the ranks of a batch job: sourced by bash in the words that start them.

It is sourced, so it may return; where it ends the shell (exit 0, set -e), or fails, that is no end of the
ranks.
"""

from __future__ import annotations

from typing import Final

_SOURCE: Final = """\
busbw_words=("$@"); set --
busbw_failed() {{
  code=$?
  echo "busbw: the setup script ended with exit code $code on {node}" >&2
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
    return _SOURCE.format(script=script, node=node, before=before, after=after)
