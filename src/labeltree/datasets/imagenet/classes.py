"""The thousand classes, and the twelve groups that MaskCon puts them into."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from labeltree.taxonomy import Taxonomy

__all__ = ["GROUPS", "ImagenetClass", "imagenet_32_taxonomy", "imagenet_classes"]

# Feng & Patras 2023, Section 4.4, by the number that the authors' code gives them.
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


class ImagenetClass(NamedTuple):
    """A class of ILSVRC 2012.

    Attributes:
        wnid: ``n02119789``: its synset in WordNet 3.0.
        words: The synset's first name, ``kit fox``; two cranes and two maillots share theirs.
        group: Its group among `GROUPS`.
    """

    wnid: str
    words: str
    group: int

    @property
    def name(self) -> str:
        """What the class is called in our trees: ``n02119789 kit fox``."""
        return f"{self.wnid} {self.words}"


@cache
def imagenet_classes() -> tuple[ImagenetClass, ...]:
    """The classes in the order of the labels of ImageNet-32's files, which begin at 1. By wnid they are in
    the order in which most others number them, from 0.

    Example:
        >>> first = imagenet_classes()[0]
        >>> first.name, GROUPS[first.group]
        ('n02119789 kit fox', 'mammal')
    """
    text = files("labeltree.datasets.imagenet").joinpath("classes.txt").read_text("utf-8")
    fields = (line.split(" ", 2) for line in text.splitlines())
    return tuple(ImagenetClass(wnid, words, int(group)) for wnid, group, words in fields)


def imagenet_32_taxonomy() -> Taxonomy:
    """The twelve groups of MaskCon, made after WordNet, and the thousand classes.

    Example:
        >>> imagenet_32_taxonomy()
        Taxonomy(1013 nodes, 1000 leaves, depth 2)
    """
    ordered = sorted(imagenet_classes(), key=lambda c: (c.group, c.wnid))
    return Taxonomy.from_paths([(GROUPS[c.group], c.name) for c in ordered], root_name="imagenet")
