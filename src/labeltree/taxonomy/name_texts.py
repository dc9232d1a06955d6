"""What nodes are called, as texts that an encoder reads: a template filled with names and paths."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.dag import AnyTaxonomy
from labeltree.taxonomy.naming import some

__all__ = [
    "IMAGE_TEMPLATE",
    "TEXT_TEMPLATE",
    "check_words",
    "fill_template",
    "is_code",
    "name_texts",
]

TEXT_TEMPLATE = "{name}: {path}"
IMAGE_TEMPLATE = "a photo of a {name}, a kind of {parent}"
_BLANK = re.compile(r"\{(\w*)\}")
_ID = re.compile(r"\w+:\d+")  # of an ontology
_SENSE = re.compile(r"\.[nvasr]\.\d\d$")  # of a synset of WordNet: fish.n.01
_WORD = re.compile(r"[^\W\d_]{3}|[^\W\d_\x00-\u024f]")  # three letters, or one of a script without many


def name_texts(
    taxonomy: AnyTaxonomy, nodes: Sequence[int], template: str = TEXT_TEMPLATE
) -> list[tuple[str, ...]]:
    """The texts of each node: one with its name, and one with each of its aliases that is no code.

    Args:
        taxonomy: The taxonomy.
        nodes: The nodes, none of them the root.
        template: Holds `{name}`, and may hold `{parent}`, the name of the node above, and `{path}`, the
            names of all nodes above, coarse to fine. Of a node at depth 1 it ends after `{name}`.

    Raises:
        ValueError: If the template lacks `{name}`, or holds another word in braces.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_paths(["animal/bird/hoopoe", "stone"])
        >>> name_texts(tree, tree.leaves.tolist(), "a {name}, a kind of {parent}")
        [('a hoopoe, a kind of bird',), ('a stone',)]
    """
    texts = []
    for node in nodes:
        aliases = taxonomy.aliases[node] if taxonomy.aliases else ()
        names = [taxonomy.names[node], *(alias for alias in aliases if not is_code(alias))]
        texts.append(tuple(dict.fromkeys(fill_template(taxonomy, node, name, template) for name in names)))
    return texts


def fill_template(taxonomy: AnyTaxonomy, node: int, name: str, template: str = TEXT_TEMPLATE) -> str:
    """The text of a node that is called `name`; see `name_texts`."""
    words = _BLANK.findall(template)
    if "name" not in words or not set(words) <= {"name", "parent", "path"}:
        raise ValueError(f"template is {template!r}; it holds {{name}}, and may hold {{parent}} and {{path}}")
    above = [_spaced(each) for each in taxonomy.path(node)[:-1]]
    if not above:
        end = template.index("{name}") + len("{name}")
        template = _BLANK.sub(lambda blank: blank[0] * (blank[1] == "name"), template[:end])
    blanks = {"name": _spaced(name), "parent": above[-1] if above else "", "path": ", ".join(above)}
    return _BLANK.sub(lambda blank: blanks[blank[1]], template)


def _spaced(name: str) -> str:
    return " ".join(_SENSE.sub("", name).replace("_", " ").split())


def is_code(name: str) -> bool:
    """Whether a name is an id, or has no three letters in a row, and a digit or no letter.

    Example:
        >>> [is_code(name) for name in ("A01.1", "n01440764", "17", "UBERON:0001", "ox.n.01", "B cell", "水")]
        [True, True, True, True, False, False, False]
    """
    name = _SENSE.sub("", name)
    letterless = not any(character.isalpha() for character in name)
    return bool(_ID.fullmatch(name)) or (
        (letterless or any(map(str.isdigit, name))) and _WORD.search(name) is None
    )


def check_words(taxonomy: AnyTaxonomy, nodes: Sequence[int]) -> None:
    """Raise a `TaxonomyError` unless the classes can be told apart by their names.

    Args:
        taxonomy: The taxonomy.
        nodes: The classes.
    """
    if len(nodes) < 2:
        raise TaxonomyError(
            f"the taxonomy has {'one class' if len(nodes) else 'no class'}, and nothing to choose from"
        )
    codes = [taxonomy.names[node] for node in nodes if is_code(taxonomy.names[node])]
    if 2 * len(codes) > len(nodes):
        raise TaxonomyError(
            f"{len(codes):,} of {len(nodes):,} classes have codes for names, such as {some(codes, 3)}, which "
            "say nothing to an encoder of texts; 'labeltree taxonomy convert' with --form codes --describe "
            "puts descriptions into names"
        )
