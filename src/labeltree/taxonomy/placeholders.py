"""Names that mean a missing label, such as `unknown`: find them, and remove them from a tree."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from labeltree.counted_nouns import say_count
from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.naming import split_path
from labeltree.taxonomy.taxonomy_graph import Graph

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "PLACEHOLDERS",
    "REMAINDERS",
    "MissingNames",
    "placeholder_nodes",
    "placeholder_sentences",
    "plain_name",
]


TreeT = TypeVar("TreeT", bound=Graph)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split("|"))


PLACEHOLDERS = _names(
    "unknown|unk|unknwn|not known|unidentified|undetermined|undefined|unspecified|not specified|unlabeled|"
    "unlabelled|unannotated|unassigned|uncategorized|uncategorised|unclassified|no label|no class|"
    "no category|not available|not applicable|n/a|n/k|n.a.|na|nan|none|null|nil|missing|tbd|todo|?|??|???|"
    "-|--|---|.|...|_|#n/a|<na>|(none)|(unknown)|"
    "unbekannt|unbestimmt|nicht bestimmt|ohne angabe|keine angabe|nicht zugeordnet|"
    "inconnu|inconnue|indéterminé|indéterminée|non déterminé|non classé|non classés|"
    "desconocido|desconocida|indeterminado|sin clasificar|sin etiqueta|sconosciuto|sconosciuta|indeterminato|"
    "non classificato|desconhecido|desconhecida|não identificado|não classificado|onbekend|onbepaald|"
    "okänd|okänt|ukendt|ukjent|tuntematon|nieznany|nieznana|nieznane|neznámý|neznámé"
)
"""Names that are hardly classes, in lower case."""

REMAINDERS = _names(
    "other|others|misc|misc.|miscellaneous|various|rest|remainder|etc|blank|empty|"
    "sonstige|sonstiges|andere|anderes|verschiedenes|autre|autres|otro|otros|otras|altro|altri|altre|"
    "outro|outros|outras|overig|overige|övrigt|andet|annet|muut|inne"
)
"""Names of remainders: proper classes, or samples that have nothing in common."""

_PUT_ASIDE = re.compile(
    r"(?:unsorted|not sorted|to sort|to be sorted|sort me|unnamed|untitled|new folder|untitled folder|"
    r"unsortiert|(?:noch )?nicht sortiert|(?:noch )?zu sortieren|unbenannt|ohne titel|neuer ordner|"
    r"(?:non|pas) triée?s?|[aà] trier|sans (?:titre|nom)|nouveau dossier|dossier sans titre|"
    r"sin (?:ordenar|t[ií]tulo|nombre)|(?:por|para) (?:ordenar|clasificar)|nueva carpeta|carpeta sin título|"
    r"non ordinat[oi]|da (?:ordinare|smistare)|senza (?:titolo|nome)|nuova cartella|cartella senza titolo|"
    r"não ordenad[oa]s?|(?:por|para) organizar|sem (?:título|nome)|nova pasta|pasta sem título|"
    r"ongesorteerd|niet gesorteerd|(?:nog )?te sorteren|naamloos|zonder titel|nieuwe map|naamloze map|"
    r"osorterat|osorterade?|att sortera|namnlös|ny mapp|usorter(?:et|t|ede)|(?:at|å) sortere|ny mappe|"
    r"lajittelemat(?:on|ta)|uusi kansio|nieposortowane|do posortowania|bez nazwy|nowy folder|"
    r"neroztříděné|nesetříděné|k roztřídění|bez názvu|nová složka)(?: ?\(?\d+\)?)?"
)  # folders in which samples wait to be sorted, also as file managers call and number them


def plain_name(name: str) -> str:
    """The form in which names are compared: lower case, accents composed, single spaces, `_` being a space.

    Example:
        >>> plain_name(" Not_Known ")
        'not known'
    """
    composed = name if name.isascii() else unicodedata.normalize("NFC", name)
    return " ".join(composed.casefold().replace("_", " ").split()) or name.strip()


def placeholder_nodes(tree: Graph, known: frozenset[str] = PLACEHOLDERS) -> list[int]:
    """The nodes with one of the names in `known`; if `n/a` was read as a path, the node `n`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_paths(["mammal/dog", "mammal/Unknown", "n/a"])
        >>> [tree.path_name(node) for node in placeholder_nodes(tree)]
        ['mammal/Unknown', 'n']
    """
    return [node for node in range(1, len(tree.names)) if _text(tree, node) in known]


def _text(tree: Graph, node: int) -> str:
    """The name of a node in the form to compare; `n/a` for a node `n` whose only child is `a`."""
    name = plain_name(tree.names[node])
    children = tree.children(node) if len(name) == 1 else []
    return f"{name}/{plain_name(tree.names[children[0]])}" if len(children) == 1 else name


def placeholder_sentences(tree: Graph, nodes: Tensor | None = None, remedy: str | None = None) -> list[str]:
    """Warnings about classes whose names suggest that their label is missing.

    Args:
        tree: The taxonomy.
        nodes: Labels of samples `(n,)`, -1 where missing, to count the samples of each class; None = no
            count.
        remedy: What to do if their labels are missing; None = the setting that declares it.
    """
    sentences = []
    texts = {node: _text(tree, node) for node in range(1, len(tree.names))}
    put_aside = {text for text in texts.values() if _PUT_ASIDE.fullmatch(text)}
    known_names = PLACEHOLDERS | REMAINDERS | put_aside
    candidates = [node for node, text in texts.items() if text in known_names]
    for known, text, declare in (
        (put_aside, "sort their samples into classes, or", "declare their labels missing with"),
        (PLACEHOLDERS, "if this means that the label is missing,", "declare it with"),
        (
            REMAINDERS,
            "their samples may have nothing in common; if their labels are missing,",
            "declare them with",
        ),
    ):
        placeholders = [node for node in candidates if texts[node] in known]
        counted = [
            (node, None if nodes is None else int(torch.isin(nodes, tree.descendants(node)).sum()))
            for node in placeholders
        ]
        counted = [(node, count) for node, count in counted if count is None or count]
        if not counted:
            continue
        several = len(counted) > 1
        names = dict.fromkeys(texts[node] for node, _ in counted)
        shown = [
            repr(tree.path_name(node).replace("\\/", "/"))
            + ("" if count is None else f" ({say_count(count, 'sample')})")
            for node, count in counted
        ]
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        setting = f"--missing_labels {shlex.quote(json.dumps(list(names), ensure_ascii=False))}"
        what = "classes are" if several else "a class is"
        sentences.append(
            f"{what} called {', '.join(shown[:5])}{more}; {text} {remedy or f'{declare} {setting}'}"
        )
    return sentences


class MissingNames:
    """Names of classes that mean a missing label: a label is cut above the first such name.

    Args:
        names: Names of classes at any depth, in upper or lower case (`unknown`, `n/a`), or paths
            (`mammal/other`) of single classes.

    Raises:
        TaxonomyError: If a name is empty.

    Example:
        >>> missing = MissingNames(["unknown"])
        >>> missing.cut(("mammal", "Unknown")), missing.cut(("mammal", "dog"))
        (('mammal',), ('mammal', 'dog'))
        >>> missing.found
        {'unknown': 1}
    """

    def __init__(self, names: Sequence[str] | str) -> None:
        self.names = [names] if isinstance(names, str) else list(names)
        self.found = dict.fromkeys(self.names, 0)
        self._single: dict[str, str] = {}
        self._paths: dict[tuple[str, ...], str] = {}
        for name in self.names:
            if not isinstance(name, str) or not name.strip():
                raise TaxonomyError(
                    f"missing_labels names {name!r}, which is not a name; an empty label is missing anyway"
                )
            plain, path = plain_name(name), split_path(name)
            if len(path) > 1 and plain not in PLACEHOLDERS:
                self._paths[tuple(map(plain_name, path))] = name
            else:
                self._single[plain] = name

    def place(self, path: Sequence[str]) -> tuple[int, str | None]:
        """The number of names of a path before the first missing name, and that name (None without one)."""
        plain = [plain_name(part) for part in path]
        for depth, part in enumerate(plain):
            name = self._single.get(part) or self._single.get("/".join(plain[depth : depth + 2]))
            name = name or self._paths.get(tuple(plain[: depth + 1]))
            if name is not None:
                return depth, name
        return len(plain), None

    def cut(self, path: Sequence[str], samples: int = 1) -> tuple[str, ...]:
        """The label cut above the first missing name; `found` counts the samples by missing name."""
        depth, name = self.place(path)
        if name is not None:
            self.found[name] += samples
        return tuple(path[:depth])

    def without(self, tree: TreeT) -> tuple[TreeT, Tensor, list[str | None]]:
        """The tree without the classes of these names and all nodes below them.

        Returns:
            The smaller tree; for each old node, `(N,)`, the node that remains of its path, -1 if none does;
            and the missing name in its path, None if the node stays.

        Raises:
            TaxonomyError: If no class is left.
        """
        places = [self.place(tree.path(node)) for node in range(tree.num_nodes)]
        stays = torch.tensor([name is None for _, name in places])
        if bool(stays.all()):
            return tree, torch.arange(tree.num_nodes), [None] * tree.num_nodes
        kept = stays.nonzero()[:, 0]
        if len(kept) < 2:
            raise TaxonomyError(
                f"missing_labels names {', '.join(map(repr, self.names))}: no other class is left"
            )
        left, mapping = tree.subgraph(kept)
        for node in torch.nonzero(~stays).flatten().tolist():
            above = int(mapping[tree.ancestors_of(node)[places[node][0]]])
            mapping[node] = above or -1
        return left, mapping, [name for _, name in places]
