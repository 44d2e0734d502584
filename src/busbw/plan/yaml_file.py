"""YAML files of users: values as they are written, and the line of a mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from busbw.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    _Model = TypeVar("_Model", bound=BaseModel)


def read_model(kind: type[_Model], text: str, place: str, guide: str) -> _Model:
    """The text of a file as a pydantic model. Raises UsageError, which names the line and the keys of the
    first mistake, and what may stand there or else the ``guide`` that says it.
    """
    from pydantic import ValidationError

    try:
        return kind.model_validate(read_yaml(text, place))
    except ValidationError as error:
        raise _refusal(error, text, place, guide) from error


def read_yaml(text: str, place: str) -> Any:  # noqa: ANN401 (YAML)
    """What the text holds. Numbers and dates stay text: 2.10 is no 2.1, 0x10 no 16 and 2026-1-2 no 2026-01-02
    in a variable. Raises UsageError.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.error import YAMLError

    class AsWritten(SafeConstructor):
        pass

    for kind in ("int", "float", "timestamp"):
        AsWritten.add_constructor(f"tag:yaml.org,2002:{kind}", lambda _, node: node.value)
    reader = YAML(typ="safe", pure=True)  # YAML 1.2: NO and on are words
    reader.Constructor = AsWritten
    try:
        return reader.load(text)
    except RecursionError as error:
        raise UsageError(f"{place} is nested too deeply", hint="use fewer nested lists") from error
    except (YAMLError, ValueError, KeyError) as error:  # the last two: !!bool "x"
        # On one line; the reader shows the place in several.
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", "")
        said = f"line {mark.line + 1}: {problem}" if mark is not None else " ".join(str(error).split())
        hint = "check its indentation and quotes"
        raise UsageError(f"{place} is not YAML: {said}", hint=hint) from error


def _refusal(error: ValidationError, text: str, place: str, guide: str) -> UsageError:
    """The first mistake that a model found in a file's text: its line, its keys, and what may stand there."""
    first = error.errors()[0]
    keys = [str(key) for key in first["loc"] if key != "[key]"]  # pydantic's word for a key that is wrong
    line = _line_of(text, keys)
    where = ": ".join([f"{place}, line {line}" if line else place, *keys])
    message = first["msg"][:1].lower() + first["msg"][1:]
    hint = str(first.get("ctx", {}).get("hint", "")) or f"see docs/guides/{guide}.md for what a file has"
    return UsageError(f"{where}: {message}", hint=hint)


def _line_of(text: str, keys: Sequence[str]) -> int:
    """The line of the value below ``keys``, or of the last of them that is there; 0 for none."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, SequenceNode

    node, line = YAML(typ="safe", pure=True).compose(text), 0
    for key in keys:
        children: dict[str, Any] = {}
        if isinstance(node, MappingNode):
            children = {str(name.value): (name, value) for name, value in node.value}
        elif isinstance(node, SequenceNode):
            children = {str(number): (value, value) for number, value in enumerate(node.value)}
        if key not in children:
            return line
        name, node = children[key]
        line = name.start_mark.line + 1
    return line
