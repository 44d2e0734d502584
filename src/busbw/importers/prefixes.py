"""What launchers put before a line: srun -l, mpirun --tag-output, hydra -l, torchrun, kubectl --prefix; what
log files of containers have there; time stamps.
"""

from __future__ import annotations

import re
from typing import Final

# Time stamps first: "12:30:01 " would else be taken for rank 12 of srun -l.
_PREFIX: Final = re.compile(
    r"""(?x)
    [ \t]* (?:
        (?P<stamp> \[? (?: \d{4}-\d\d-\d\d [T ] )? \d\d:\d\d:\d\d (?: [.,]\d+ )?
                   (?: Z | [+-]\d\d:?\d\d )? \]? [ ]
                 | [A-Z][a-z]{2} [ ] [ \d]\d [ ] \d\d:\d\d:\d\d [ ]
                 # mpirun --timestamp-output
                 | [A-Z][a-z]{2} [ ] [A-Z][a-z]{2} [ ]+ \d{1,2} [ ] \d\d:\d\d:\d\d [ ] \d{4} [ ]?
                 | std(?:out|err) [ ] F [ ] )              # behind the stamps of a container's log file
      | (?P<stream> \d+: [ ]?                              # srun -l, aprun
                  | \[ [^\]\s]* \d+,\d+ \] <std\w+> :      # mpirun --tag-output, PRRTE
                  | \[ \d+ \] [ ]                          # hydra -l
                  | \[ (?: default | rank ) \d+ \] : [ ]?   # torchrun
                  | \[ (?: pod | job ) / [^\]]+ \] [ ] )   # kubectl logs --prefix
    )
    """
)
# Colours, titles of windows, character sets.
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z])")
# A line with another control character is damaged, and it must not come to a terminal as it is. Pages of the
# web have blanks of their own.
_VISIBLE: Final = {
    **{code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r"},
    ord("\u00a0"): " ",
}
_MOST_PREFIXES: Final = 4


def split_prefix(line: str) -> tuple[str, str]:
    """The stream that a line belongs to ("" without a launcher's prefix), and the line itself.

    Time stamps are dropped: they are no stream, and every line has another.
    """
    if "\x1b" in line:
        line = _ESCAPE.sub("", line)
    if not line.isprintable():
        line = line.translate(_VISIBLE)
    if "\r" in line:  # a progress display: what was written last is what stands there
        line = line.rstrip("\r\n").rpartition("\r")[2]
    end, names = prefix_of(line)
    return "".join(line[begin:stop].strip() for begin, stop in names), line[end:]


def prefix_of(line: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Where the prefix of a line ends, and where those of its parts stand that name a stream."""
    end, names = 0, []
    for _ in range(_MOST_PREFIXES):
        match = _PREFIX.match(line, end)
        if match is None:
            break
        if match["stream"]:
            names.append(match.span("stream"))
        end = match.end()
    return end, tuple(names)
