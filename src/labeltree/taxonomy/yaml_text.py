"""YAML with nested names: read as text with line numbers, written by hand; neither recurses.

The parser's events are read instead of its objects: names stay as they are written (`no`, `1.0` and
`2024-01-01` are names), a repeated key is seen, and no depth of nesting overflows a stack.
"""

import re
from collections.abc import Iterator, Sequence

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.nested import Mark

__all__ = ["marks_from_yaml", "yaml_from_tree"]

NOTHING = ("", "~", "null", "Null", "NULL")
LONGEST_KEY = 1000  # YAML allows a key 1024 characters


def marks_from_yaml(text: str) -> Iterator[Mark]:
    """The nesting of one YAML document.

    Raises:
        TaxonomyError: if the text is no YAML, or has aliases or several documents; with the line.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            where = f"line {event.start_mark.line + 1}"  # type: ignore[union-attr]
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise TaxonomyError(f"{where}: a second document begins; a taxonomy is one")
            elif isinstance(event, yaml.AliasEvent):
                raise TaxonomyError(f"{where}: the alias *{event.anchor} stands for a subtree; write it out")
            elif isinstance(event, yaml.ScalarEvent):
                nothing = event.implicit[0] and event.value in NOTHING
                yield Mark("name", None if nothing else event.value, where)
            elif isinstance(event, yaml.MappingStartEvent):
                yield Mark("{", where=where)
            elif isinstance(event, yaml.SequenceStartEvent):
                yield Mark("[", where=where)
            elif isinstance(event, yaml.CollectionEndEvent):
                yield Mark("end", where=where)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise TaxonomyError(f"{where}not readable as YAML: {reason}") from None


def yaml_from_tree(names: Sequence[str], depth: Sequence[int]) -> str:
    """Write the tree below the root, given in preorder, as nested mappings.

    Raises:
        TaxonomyError: if a name is too long for a key.
    """
    lines = []
    for name, level in zip(names[1:], depth[1:], strict=True):
        key = _quoted(name)
        if len(key) > LONGEST_KEY:
            raise TaxonomyError(f"the name {name[:40]!r}... is too long for YAML; save the taxonomy as .json")
        lines.append(f"{'  ' * (level - 1)}{key}:\n")
    return "".join(lines)


def _quoted(name: str) -> str:
    # Plain where it is a word that no YAML version takes for anything but text
    if re.fullmatch(r"[^\W\d_][\w -]*", name) and name.isascii() and name.casefold() not in _RESERVED:
        return name
    return '"' + "".join(map(_escaped, name)) + '"'


_RESERVED = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    code = ord(character)
    if character.isprintable() and code < 0xFFFE:
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
