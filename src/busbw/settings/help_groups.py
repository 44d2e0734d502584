"""The groups under which ``busbw run --help`` lists its flags."""

from __future__ import annotations

from cyclopts import Group

SWEEP = Group("Sweep", sort_key=1)
PATTERN = Group("Who exchanges what", sort_key=2)
METHOD = Group("Method", sort_key=3)
BUFFERS = Group("Buffers", sort_key=4)
PLACE = Group("Where", sort_key=5)
PREFLIGHT = Group("Checked first", sort_key=6)
OUTPUT = Group("Output", sort_key=7)
