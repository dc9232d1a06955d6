"""ImageNet's thousand classes, and trees of them: WordNet's, MaskCon's, the Robustness library's."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from labeltree.data.wordnet_files.wordnet_files import WordNetNouns
from labeltree.data.wordnet_files.wordnet_trees import synset_dag, synset_tree
from labeltree.datasets.formats.resources import resource_text
from labeltree.datasets.wordnet import wordnet_folder
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

__all__ = [
    "GROUPS",
    "HIERARCHIES",
    "ImagenetClass",
    "hierarchy_taxonomy",
    "imagenet_32_taxonomy",
    "imagenet_classes",
    "imagenet_graph",
    "imagenet_taxonomy",
]

# Feng & Patras 2023, Section 4.4, in the order of the numbers in the authors' code.
GROUPS: tuple[str, ...] = (
    "invertebrate",
    "domestic animal",
    "bird",
    "mammal",
    "reptile or aquatic vertebrate",
    "device",
    "vehicle",
    "container",
    "instrument",
    "artifact",
    "clothing",
    "others",
)
HIERARCHIES = (("class_hierarchy.txt", "node_names.txt"), ("wordnet.is_a.txt", "words.txt"))
"""Pairs of files: edges, and names of the nodes."""


class ImagenetClass(NamedTuple):
    """A class of ILSVRC 2012.

    Attributes:
        wnid: Synset in WordNet 3.0, such as `n02119789`.
        words: First name of the synset, such as `kit fox`; not unique for crane and maillot.
        group: Index of the group in `GROUPS`.
    """

    wnid: str
    words: str
    group: int

    @property
    def name(self) -> str:
        """Name of the class in labeltree's trees, such as `n02119789 kit fox`."""
        return f"{self.wnid} {self.words}"


@cache
def imagenet_classes() -> tuple[ImagenetClass, ...]:
    """The classes in the order of the labels in ImageNet-32's files, which begin at 1. Sorted by wnid, they
    have the usual numbering from 0.

    Example:
        >>> first = imagenet_classes()[0]
        >>> first.name, GROUPS[first.group]
        ('n02119789 kit fox', 'mammal')
    """
    fields = (line.split(" ", 2) for line in resource_text("imagenet_classes.txt").splitlines())
    return tuple(ImagenetClass(wnid, words, int(group)) for wnid, group, words in fields)


def imagenet_32_taxonomy() -> Taxonomy:
    """The thousand classes in MaskCon's twelve groups, which are based on WordNet.

    Example:
        >>> imagenet_32_taxonomy()
        Taxonomy(1013 nodes, 1000 leaves, depth 2)
    """
    ordered = sorted(imagenet_classes(), key=lambda c: (c.group, c.wnid))
    return Taxonomy.from_paths([(GROUPS[c.group], c.name) for c in ordered], root_name="imagenet")


def imagenet_taxonomy(wnids: Iterable[str] | None = None, wordnet: str | Path | None = None) -> Taxonomy:
    """The WordNet tree above the given classes, by the rule of YOLO9000 (see `TaxonomyDAG.project`).

    The 1,000 classes of ILSVRC 2012 give 1,785 nodes and depth 18, as for Barz & Denzler 2019; where several
    paths add equally few nodes, the choice is labeltree's, and 8 of 1,784 parents differ from theirs.

    Args:
        wnids: The classes, each a noun of WordNet 3.0; None = the classes of ILSVRC 2012.
        wordnet: Folder of the noun files; None = `wordnet_folder`.

    Returns:
        A taxonomy with classes named like `n02119789 kit fox` and inner nodes like `carnivore.n.01`.

    Raises:
        DataError: If the noun files are missing or lack a class.
    """
    return synset_tree(*_synsets(wnids, wordnet))


def imagenet_graph(wnids: Iterable[str] | None = None, wordnet: str | Path | None = None) -> TaxonomyDAG:
    """The DAG of all WordNet synsets above the given classes, for evaluation (Barz & Denzler 2019, Section
    5.1.3). It contains `imagenet_taxonomy`; names of nodes, arguments and errors are the same.
    """
    return synset_dag(*_synsets(wnids, wordnet))[0]


def _synsets(wnids: Iterable[str] | None, wordnet: str | Path | None) -> tuple[WordNetNouns, dict[str, int]]:
    """WordNet's nouns, and the name of each class → the offset of its synset."""
    chosen = sorted(set(wnids if wnids is not None else (c.wnid for c in imagenet_classes())))
    nouns = WordNetNouns(wordnet if wordnet is not None else wordnet_folder())
    synsets: dict[str, int] = {}
    for wnid in chosen:
        synsets_of = nouns.find(wnid)
        if not synsets_of:
            raise DataError(f"class '{wnid}' is not a noun of the WordNet in '{nouns.folder}'")
        synsets[f"{wnid} {nouns.synsets[synsets_of[0]].words[0].replace('_', ' ')}"] = synsets_of[0]
    return nouns, synsets


def hierarchy_taxonomy(folder: Path, wnids: Iterable[str]) -> Taxonomy:
    """The tree of a hierarchy in the Robustness library's files (Engstrom et al. 2019).

    - `class_hierarchy.txt`, a line `parent child` for each edge, and `node_names.txt`: as its BREEDS
      part has them. Of several parents, the rule of YOLO9000 chooses one; this rule is labeltree's choice.
    - else `wordnet.is_a.txt` and `words.txt`, as its older part has them: of several parents of a node
      the one in the last line is taken, as in the library.

    Nodes are named `n02119789 kit fox, Vulpes macrotis`, or by the synset only if the file of names is
    missing or lacks it.

    Args:
        folder: Folder with the files.
        wnids: The classes; nodes that are not above one of them are left out.

    Raises:
        DataError: If the files are missing or damaged, or lack a class.
    """
    classes = sorted(set(wnids))
    present = [pair for pair in HIERARCHIES if (folder / pair[0]).is_file()]
    if not present:
        listed = " nor ".join(f"'{folder / edges}'" for edges, _ in HIERARCHIES)
        raise DataError(f"there is neither {listed}")
    edge_file, name_file = present[0]
    names = dict(_fields(folder / name_file, "\t")) if (folder / name_file).is_file() else {}
    above: dict[str, list[str]] = {}
    for parent, child in _fields(folder / edge_file, None):
        if edge_file == "wordnet.is_a.txt":
            above[child] = [parent]
        else:
            above.setdefault(child, []).append(parent)
    known = {parent for parents in above.values() for parent in parents} | set(above)
    if strangers := [wnid for wnid in classes if wnid not in known]:
        raise DataError(
            f"'{folder / edge_file}' has no node for {len(strangers)} of {len(classes)} classes, "
            f"'{strangers[0]}' the first"
        )
    kept, waiting = set(classes), list(classes)
    while waiting:
        for parent in above.get(waiting.pop(), []):
            if parent not in kept:
                kept.add(parent)
                waiting.append(parent)
    pairs = [(child, parent) for child in sorted(kept) for parent in dict.fromkeys(above.get(child, []))]
    titles: dict[Hashable, str] = {wnid: f"{wnid} {names[wnid]}" if wnid in names else wnid for wnid in kept}
    dag = TaxonomyDAG.from_edges(pairs, names=titles)
    tree, _ = dag.project("yolo9000", classes=dag.encode([titles[wnid] for wnid in classes]))
    return tree


def _fields(path: Path, separator: str | None) -> Sequence[tuple[str, str]]:
    """Read the two fields of every line."""
    pairs = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            fields = line.rstrip("\n").split(separator, 1)
            if len(fields) == 2:
                pairs.append((fields[0].strip(), fields[1].strip()))
            elif line.strip():
                raise DataError(f"'{path}', line {number}: expected two fields, found {line.strip()!r}")
    return pairs
