"""Trees of the CIFAR classes, with the names used in the data sets."""

from __future__ import annotations

from typing import Literal

from labeltree.datasets.formats.resources import resource_text
from labeltree.taxonomy import Taxonomy

__all__ = [
    "CIFAR_10",
    "CIFAR_100",
    "COARSE_100",
    "TOY",
    "ToySplit",
    "cifar_10_taxonomy",
    "cifar_100_deep_taxonomy",
    "cifar_100_five_level_taxonomy",
    "cifar_100_taxonomy",
    "cifar_toy_taxonomy",
]

ToySplit = Literal["good", "bad"]

# In the order of the labels in the files. Animal and vehicle are ours: CIFAR-10 comes without a hierarchy.
CIFAR_10: tuple[tuple[str, str], ...] = (
    ("vehicle", "airplane"),
    ("vehicle", "automobile"),
    ("animal", "bird"),
    ("animal", "cat"),
    ("animal", "deer"),
    ("animal", "dog"),
    ("animal", "frog"),
    ("animal", "horse"),
    ("vehicle", "ship"),
    ("vehicle", "truck"),
)

# Feng & Patras 2023, Section 4.2: eight classes of CIFAR-10 in two groups, A and B.
TOY: dict[ToySplit, dict[str, tuple[str, ...]]] = {
    "good": {"A": ("airplane", "truck", "automobile", "ship"), "B": ("horse", "dog", "bird", "cat")},
    "bad": {"A": ("airplane", "automobile", "bird", "cat"), "B": ("horse", "dog", "ship", "truck")},
}


# The 20 coarse classes and their 100 classes (Krizhevsky 2009); labels in the files count each in this,
# the alphabetical, order.
_COARSE_LINES = [line.split(": ") for line in resource_text("cifar-100.txt").splitlines()]
COARSE_100: tuple[str, ...] = tuple(coarse for coarse, _ in _COARSE_LINES)
"""The coarse classes by the number that the files use."""

CIFAR_100: tuple[tuple[str, str], ...] = tuple(
    sorted(((coarse, name) for coarse, names in _COARSE_LINES for name in names.split()), key=lambda p: p[1])
)
"""Coarse class and class by the number of the class that the files use."""


def cifar_10_taxonomy() -> Taxonomy:
    """Animals and vehicles, six and four classes; the two groups are ours.

    Example:
        >>> cifar_10_taxonomy()
        Taxonomy(13 nodes, 10 leaves, depth 2)
    """
    return Taxonomy.from_paths(CIFAR_10, root_name="cifar")


def cifar_toy_taxonomy(split: ToySplit) -> Taxonomy:
    """Two groups of four classes of CIFAR-10: `good` has objects and animals, `bad` two of each in both
    (Feng & Patras 2023, Section 4.2).
    """
    return Taxonomy.from_nested({group: list(names) for group, names in TOY[split].items()}, "cifar")


def cifar_100_taxonomy() -> Taxonomy:
    """The 20 coarse classes of five classes each that CIFAR-100 comes with.

    Example:
        >>> cifar_100_taxonomy()
        Taxonomy(121 nodes, 100 leaves, depth 2)
    """
    return Taxonomy.from_paths(CIFAR_100, root_name="cifar")


def cifar_100_five_level_taxonomy() -> Taxonomy:
    """The 100 classes and 20 coarse classes below 8, 4 and 2 groups (Chang et al. 2021, Fine-Grained or Not).

    The groups have numbers in the authors' code; their names are ours.

    Example:
        >>> tree = cifar_100_five_level_taxonomy()
        >>> tree
        Taxonomy(135 nodes, 100 leaves, depth 5)
        >>> tree.path(tree.find("whale"))
        ('living_things', 'animals', 'aquatic_animals', 'aquatic_mammals', 'whale')
    """
    above: dict[str, list[str]] = {}
    for line in resource_text("cifar-100-five-levels.txt").splitlines():
        groups, _, coarse = line.partition(": ")
        above |= dict.fromkeys(coarse.split(), groups.split("/"))
    return Taxonomy.from_paths([(*above[coarse], coarse, name) for coarse, name in CIFAR_100], "cifar")


def cifar_100_deep_taxonomy() -> Taxonomy:
    """The deeper tree of CIFAR-100's classes (Barz & Denzler 2019, Appendix E), made after WordNet.

    Each line of its file is an inner node, indented below its parent, with its child classes after the colon.

    Example:
        >>> tree = cifar_100_deep_taxonomy()
        >>> tree
        Taxonomy(163 nodes, 100 leaves, depth 8)
        >>> [tree.names[node] for node in tree.lca(tree.find("whale"), tree.encode(["dolphin", "shark"]))]
        ['cetacean', 'aquatic_animal']
    """
    paths: list[tuple[str, ...]] = []
    above: list[str] = []
    for line in resource_text("cifar-100-deep.txt").splitlines():
        node, _, classes = line.partition(": ")
        depth = len(node) - len(node.lstrip())
        above[depth:] = [node.strip()]
        paths += [(*above, name) for name in classes.split()]
    return Taxonomy.from_paths(paths, root_name=None)
