"""A preset file's text as plain values; what YAML reads otherwise than it was meant is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from busbw.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ruamel.yaml.nodes import Node, ScalarNode

# What YAML calls other values than numbers.
_KINDS: Final = {"timestamp": "date", "bool": "truth value"}


def read_yaml(text: str, place: str) -> object:
    """What the text holds. Raises UsageError, also for what has no end (an anchor within itself) or would end
    a word where it is handed on (a zero byte), or cannot be handed on.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        loaded = YAML(typ="safe", pure=True).load(text)
        _look_through(loaded, place, above=(), seen=set())
    except YAMLError as error:
        raise UsageError(
            f"{place} is not YAML: {error}", hint="mind the indentation and the colons"
        ) from error
    except (ValueError, KeyError) as error:  # a value that looks like a date or number and is none; !!bool x
        raise _of_no_value(text, place, error) from error
    except RecursionError as error:
        raise UsageError(f"{place} is nested too deeply", hint="take brackets or dashes out") from error
    return loaded


def _of_no_value(text: str, place: str, error: ValueError | KeyError) -> UsageError:
    """The error of the value that was not understood, which YAML's own does not name."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import ConstructorError

    reader = YAML(typ="safe", pure=True)
    for node in _scalars(reader.compose(text)):
        try:
            reader.constructor.construct_object(node)
        except ConstructorError:  # << is no value, and was understood
            continue
        except (ValueError, KeyError) as reason:
            what = _KINDS.get(str(node.tag).rpartition(":")[2], "number")
            why = f": {reason}" if isinstance(reason, ValueError) else ""
            return UsageError(
                f"{place}, line {_line(node)}: {node.value} is no {what}{why}",
                hint=f"correct the {what}, or write text in quotes",
            )
    return UsageError(f"{place} is not YAML: {error}", hint="put dates and numbers in quotes")


def _scalars(node: Node) -> Iterator[ScalarNode]:
    """Every scalar below the node, in the file's order."""
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    open_nodes, seen = [node], set()
    while open_nodes:
        node = open_nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))  # an anchor's node stands in many places
        if isinstance(node, ScalarNode):
            yield node
        elif isinstance(node, SequenceNode):
            open_nodes += reversed(node.value)
        elif isinstance(node, MappingNode):
            open_nodes += [item for pair in reversed(node.value) for item in reversed(pair)]


def _look_through(value: object, place: str, above: tuple[int, ...], seen: set[int]) -> None:
    """``above`` are the mappings and lists around the value, ``seen`` those that need no second look."""
    if isinstance(value, str):
        _refuse_no_text(value, place)
    if id(value) in above:
        raise UsageError(f"{place}: an anchor stands within itself", hint="write out what the `*` stands for")
    if not isinstance(value, dict | list) or id(value) in seen:
        return
    inside = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for key, item in inside:
        _look_through(key, place, above, seen)
        where = place if key is None else f"{place}: {key}"
        _look_through(item, where, (*above, id(value)), seen)
    seen.add(id(value))


def _refuse_no_text(value: str, place: str) -> None:
    if "\0" in value:
        raise UsageError(f"{place}: {value!r} holds a zero byte", hint="leave it out")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half of a character of UTF-16, which YAML lets stand alone
        raise UsageError(
            f"{place}: {value!r} holds {value[error.start]!r}, which is no character",
            hint="write the character itself, or \\U and its eight digits",
        ) from error


def refuse_cut_notes(text: str, place: str) -> None:
    """Raises UsageError for a note that YAML cut at a comma: in ``[a, b]`` every comma begins a new one."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    open_nodes = [YAML(typ="safe", pure=True).compose(text)]
    seen = set()
    while open_nodes:
        node = open_nodes.pop()
        if not isinstance(node, MappingNode) or id(node) in seen:
            continue
        seen.add(id(node))  # an anchor's node stands in many places
        for key, value in node.value:
            open_nodes.append(value)
            if not (key.value == "notes" and isinstance(value, SequenceNode) and value.flow_style):
                continue
            plain = [each for each in value.value[1:] if isinstance(each, ScalarNode) and not each.style]
            if plain:
                raise UsageError(
                    f"{place}, line {_line(plain[0])}: a comma begins the note {plain[0].value!r}",
                    hint="write each note in quotes, or on a line of its own behind `- `",
                )


def _line(node: ScalarNode) -> int:
    return int(node.start_mark.line) + 1
