"""A user's own references, for commands that hold runs against them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from busbw.record.folder import environ_home
from busbw.references import load

if TYPE_CHECKING:
    from busbw.references.reference import Reference


def own_references() -> tuple[Reference, ...]:
    """Those in the home of the runs; a warning for each file that is bad and therefore left out."""
    found = load.saved(environ_home())
    for error in found.left_out:
        print(f"warning: a reference is left out: {error.message}", file=sys.stderr)
    return found.references
