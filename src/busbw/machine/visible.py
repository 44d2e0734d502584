"""The words by which CUDA_VISIBLE_DEVICES names the GPUs of a process: indices, UUIDs or their beginnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_UUIDS: Final = ("GPU-", "MIG-")


def words_of_gpus(environ: Mapping[str, str], ranks: int) -> tuple[str, ...]:
    """The word of the GPU of each of ``ranks`` ranks, where they all see the same GPUs and rank n takes the
    n-th. Without the variable these are CUDA's own numbers. Fewer words where the variable shows fewer GPUs:
    CUDA takes none from the first on that is not there, and -1 never is.
    """
    if VISIBLE not in environ:
        return tuple(map(str, range(ranks)))
    words = [word.strip() for word in environ[VISIBLE].split(",")]
    end = next((at for at, word in enumerate(words) if not word or word.startswith("-")), len(words))
    return tuple(words[:end][:ranks])


def gpu_named(word: str) -> str:
    """A GPU in a text: ``GPU 3``; a UUID says by itself what it is of."""
    return word if word.startswith(_UUIDS) else f"GPU {word}"
