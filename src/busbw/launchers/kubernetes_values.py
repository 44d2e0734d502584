"""``--set KEY=VALUE`` words of a Kubernetes job, by key. Pure."""

from __future__ import annotations

import re
from typing import Final

from busbw.errors import UsageError

QUANTITY: Final = re.compile(r"\d+(\.\d+)?([KMGTPE]i?|k|m)?\Z")


class Values:
    """``--set KEY=VALUE`` words, taken one by one: what nobody takes is an error."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._found: dict[str, list[str]] = {}
        self._known: list[str] = []
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or not key:
                raise UsageError(f"--set {word!r} is not KEY=VALUE", hint="write --set gpu=8")
            # A preset's name may stand before the key; Kubernetes has one form only.
            self._found.setdefault(key.removeprefix("kubernetes."), []).append(value)

    def all(self, key: str) -> list[str]:
        self._known.append(key)
        return self._found.pop(key, [])

    def since_empty(self, key: str) -> tuple[str, ...]:
        """All values; an empty one drops those before it, which a preset may have given."""
        found = self.all(key)
        start = max((number for number, text in enumerate(found, 1) if not text), default=0)
        return tuple(found[start:])

    def peek(self, key: str) -> str:
        """The last value of a key that somebody takes later."""
        return self._found.get(key, [""])[-1]

    def text(self, key: str) -> str:
        values = self.all(key)
        return values[-1] if values else ""

    def count(self, key: str, least: int = 1) -> int | None:
        text = self.text(key)
        if not text:
            return None
        if not text.isdecimal() or int(text) < least:
            raise UsageError(f"--set {key}={text} is no count", hint=f"give {least} or more")
        return int(text)

    def quantity(self, key: str) -> str:
        text = self.text(key)
        if text and not QUANTITY.match(text):
            raise UsageError(f"--set {key}={text} is no quantity", hint="write it as 8, 500m or 16Gi")
        return text

    def refuse_rest(self) -> None:
        if self._found:
            raise UsageError(
                f"--set {next(iter(self._found))} is not known to Kubernetes jobs",
                hint=f"use one of: {', '.join(sorted(self._known))}",
            )
